"""Probabilities of very many classes, of which each row lists only the largest (top-k).

What a row does not list is spread evenly: each of the K - k other classes gets
``rest = (1 - sum of the listed) / (K - k)``. Nothing here is of size N x K or K x K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adacorr.core.lrt import Decision
from adacorr.core.validation import SUM_TOLERANCE, InputError, RowError

Array = NDArray[np.float64]
DENSE_CLASSES = 128  # up to here top-k rows are made dense, which allows the richer noise model
LARGEST = 32  # entries that a dense row of very many classes is reduced to
_SHORT = 32  # entries per row up to which a loop over the columns is the fastest
PAD = -1  # fills the rows that list fewer classes than the longest one


@dataclass(frozen=True)
class TopK:
    """(N, K) probabilities by their largest entries.

    Attributes
    ----------
    indices : (N, k) distinct class indices per row; PAD after the end of a shorter list.
    values : (N, k) their probabilities; 0 where padded.
    n_classes : K; 0 while it is not known.

    >>> f = TopK(np.array([[2, 0]]), np.array([[0.7, 0.1]]), 4)
    >>> f.rest, f.dense().round(3).tolist()
    (array([0.1]), [[0.1, 0.1, 0.7, 0.1]])
    """

    indices: NDArray[np.integer]
    values: NDArray[np.floating]
    n_classes: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indices), self.n_classes

    @property
    def width(self) -> int:
        return self.indices.shape[1]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: Any) -> TopK:
        return replace(self, indices=self.indices[rows], values=self.values[rows])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many classes each row lists."""
        return over_rows(np.add, self.indices >= 0, np.int64)

    @property
    def rest(self) -> Array:
        """(N,) probability of each class that is not listed."""
        left = np.maximum(1 - total(self.values), 0)
        return left / np.maximum(self.n_classes - self.lengths, 1)

    def at(self, labels: NDArray[np.int64]) -> Array:
        """(N,) probability of one class per row."""
        hit = self.indices == labels[:, None]
        listed = over_rows(np.logical_or, hit)
        return np.where(listed, total(np.where(hit, self.values, 0)), self.rest)

    def best(self) -> tuple[NDArray[np.int64], Array]:
        """The most probable listed class (the first of ties) and its probability."""
        top = over_rows(np.maximum, self.values)
        ties = (self.values == top[:, None]) & (self.indices >= 0)
        last = np.iinfo(self.indices.dtype).max
        first = over_rows(np.minimum, np.where(ties, self.indices, last))
        return first.astype(np.int64), top.astype(np.float64)

    def best_other(self, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
        """The most probable listed class other than the given one, and its probability.

        Where no other is listed, the class after the given one, with the even share of the rest.
        """
        others = replace(self, values=np.where(self.indices == labels[:, None], -1, self.values))
        others = replace(others, values=np.where(self.indices >= 0, others.values, -1))
        best, top = others.best()
        none = top < 0
        best = np.where(none, (labels + 1) % max(self.n_classes, 1), best)
        return best, np.where(none, self.rest, top)

    def dense(self) -> NDArray[np.floating]:
        """(N, K); for few classes only."""
        kind = np.float64 if self.values.dtype == np.float64 else np.float32
        out = np.empty(self.shape, kind)
        out[:] = self.rest[:, None]
        rows, columns = np.nonzero(self.indices >= 0)
        out[rows, self.indices[rows, columns]] = self.values[rows, columns]
        return out

    @classmethod
    def concatenate(cls, parts: Sequence[TopK]) -> TopK:
        """One after the other; shorter lists are padded."""
        width = max(part.width for part in parts)
        wide = [part.padded(width) for part in parts]
        indices = np.concatenate([part.indices for part in wide])
        return cls(indices, np.concatenate([part.values for part in wide]), parts[0].n_classes)

    def padded(self, width: int) -> TopK:
        """Lists of that length."""
        if width == self.width:
            return self
        more = ((0, 0), (0, width - self.width))
        indices = np.pad(self.indices, more, constant_values=PAD)
        return replace(self, indices=indices, values=np.pad(self.values, more))


def first_choice(
    f: NDArray[np.floating] | TopK,
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """The most probable class of each row (the first of ties), and its probability.

    >>> first_choice(TopK(np.array([[3, 1]]), np.array([[0.6, 0.2]]), 5))
    (array([3]), array([0.6]))
    """
    if isinstance(f, TopK):
        return f.best()
    predicted = f.argmax(axis=1)
    return predicted, f[np.arange(len(f)), predicted]


def given_probs(labels: NDArray[np.int64], f: NDArray[np.floating] | TopK) -> NDArray[np.floating]:
    """(N,) probability of the given class."""
    return f.at(labels) if isinstance(f, TopK) else f[np.arange(len(f)), labels]


def beyond(
    labels: NDArray[np.int64], f: NDArray[np.floating] | TopK, cut: int
) -> tuple[NDArray[np.bool_], float]:
    """Whether more than `cut` classes are more probable than the given one.

    A list may end before the cut. Then a class that it does not name counts as beyond, and the
    second number says what that costs: the share of the model's own doubt that lies beyond the
    lists, by its own account. It is 0 where every list is long enough.

    >>> f = np.array([[0.5, 0.2, 0.2, 0.1]])
    >>> beyond(np.array([3]), f, 2), beyond(np.array([3]), f, 3)
    ((array([ True]), 0.0), (array([False]), 0.0))
    >>> listed = TopK(np.array([[0, 1]]), np.array([[0.5, 0.3]]), 4)
    >>> far, beyond_lists = beyond(np.array([3]), listed, 2)
    >>> far, round(beyond_lists, 3)
    (array([ True]), 0.4)
    """
    own = given_probs(labels, f)
    if not isinstance(f, TopK):
        return (f > own[:, None]).sum(axis=1) > cut, 0.0
    greater = over_rows(np.add, (f.values > own[:, None]) & (f.indices >= 0), np.int64)
    listed = over_rows(np.logical_or, f.indices == labels[:, None])
    short = (f.lengths <= cut) & (f.lengths < f.n_classes)
    if not short.any():
        return greater > cut, 0.0
    doubt = 1 - f.best()[1]
    left = np.where(short, np.maximum(1 - total(f.values), 0), 0)
    return (greater > cut) | (short & ~listed), float(left.sum() / max(doubt.sum(), 1e-12))


def elements_per_row(f: NDArray[np.floating] | TopK) -> int:
    """How many numbers a row holds."""
    return max(f.width if isinstance(f, TopK) else f.shape[1], 1)


def over_rows(operation: np.ufunc, rows: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """``operation.reduce(rows, axis=1)``, for short rows column by column: ten times faster.

    >>> over_rows(np.maximum, np.array([[1, 3], [2, 0]])).tolist()
    [3, 2]
    """
    if not 0 < rows.shape[1] <= _SHORT:
        return operation.reduce(rows, axis=1, dtype=dtype)
    out = rows[:, 0].astype(dtype or rows.dtype)
    for j in range(1, rows.shape[1]):
        operation(out, rows[:, j], out=out)
    return out


def total(values: NDArray[np.floating]) -> Array:
    """Sums of rows in float64, term by term: neither batches nor padding change a bit."""
    out = np.zeros(len(values))
    for j in range(values.shape[1]):
        out += values[:, j]
    return out


def check_top_k(f: TopK, *, normalize: bool = False) -> TopK:
    """Raise RowError at the first row that cannot be part of a distribution.

    `normalize` divides rows that sum to more than one by their sum.
    """
    listed = f.indices >= 0
    some = over_rows(np.logical_or, listed)
    if not some.all():
        row = int((~some).argmax())
        raise RowError("values", "at least one class", "an empty list", row)
    bad = listed & ~(np.isfinite(f.values) & (f.values >= 0))
    if bad.any():
        row, column = divmod(int(bad.argmax()), f.width)
        got = str(f.values[row, column])
        raise RowError("values", "finite probabilities >= 0", got, row, column)
    ordered = np.sort(f.indices, axis=1)
    equal = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    twice = over_rows(np.logical_or, equal)
    if twice.any():
        row = int(twice.argmax())
        same = ordered[row, 1:][ordered[row, 1:] == ordered[row, :-1]]
        got = f"class {same[same >= 0][0]} twice"
        raise RowError("indices", "distinct classes", got, row)
    sums = total(f.values)
    over, none = sums > 1 + SUM_TOLERANCE, sums <= 0
    if none.any() or (over.any() and not normalize):
        row = int((none if none.any() else over).argmax())
        expected = f"a positive sum of at most 1 (within {SUM_TOLERANCE})"
        raise RowError("values", expected, f"{sums[row]:.6g}", row)
    if over.any():
        scaled = f.values / np.maximum(sums, 1)[:, None]
        return replace(f, values=scaled.astype(np.result_type(f.values.dtype, np.float32)))
    return f


def check_largest(f: TopK) -> None:
    """Raise RowError where the classes that are not listed would be the more probable ones."""
    _, top = f.best()
    rest, full = f.rest, f.lengths >= f.n_classes
    bad = (rest > 1.01 * top + 1e-6) & ~full
    bad |= full & (total(f.values) < 1 - SUM_TOLERANCE)
    if bad.any():
        row = int(bad.argmax())
        got = f"a sum of {total(f.values[row : row + 1])[0]:.6g}, largest {top[row]:.6g}"
        expected = f"the largest of {f.n_classes} probabilities"
        raise RowError("values", expected, got, row)


def complete(f: NDArray[np.floating] | TopK, n_classes: int) -> NDArray[np.floating] | TopK:
    """What rules take: top-k rows that know K, made dense where there are few classes."""
    if not isinstance(f, TopK):
        return f
    f = replace(f, n_classes=n_classes)
    return f if n_classes > DENSE_CLASSES else f.dense()


class TopKRule(Protocol):
    """A fitted rule for top-k rows; see :class:`adacorr.core.lrt.Rule`."""

    @property
    def summary(self) -> dict[str, Any]: ...
    def decide(self, labels: NDArray[np.int64], pred_probs: TopK) -> Decision: ...


@dataclass(frozen=True)
class TopKThreshold:
    """Procedure 1 on listed probabilities: as on dense rows with the rest spread evenly."""

    delta: Array

    @property
    def summary(self) -> dict[str, Any]:
        return {"rule": "threshold", "noise_rate": None, "note": ""}

    def decide(self, labels: NDArray[np.int64], pred_probs: TopK) -> Decision:
        m, top = pred_probs.best()
        ratio = np.minimum(pred_probs.at(labels) / top, 1)
        delta = self.delta if self.delta.ndim == 0 else self.delta[m, labels]
        return Decision(m, ratio, (ratio < delta) & (m != labels))


def largest(pred_probs: NDArray[np.floating], width: int = LARGEST) -> TopK:
    """The `width` largest entries of each dense row.

    >>> largest(np.array([[0.1, 0.6, 0.3]]), 2).indices.tolist()
    [[1, 2]]
    """
    n, k = pred_probs.shape
    indices = np.empty((n, min(width, k)), np.int64)
    for i, row in enumerate(pred_probs):  # row by row: no copy of the size of all of them
        top = np.argpartition(-row, indices.shape[1] - 1)[: indices.shape[1]]
        indices[i] = top[np.lexsort((top, -row[top]))]
    return TopK(indices, np.take_along_axis(pred_probs, indices, axis=1), k)


@dataclass(frozen=True)
class LargestOnly:
    """A rule for top-k rows, applied to dense rows of so many classes that K x K is too much."""

    rule: TopKRule

    @property
    def summary(self) -> dict[str, Any]:
        return self.rule.summary

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision:
        return self.rule.decide(labels, largest(pred_probs))


def confident_noise_rate(labels: NDArray[np.int64], f: TopK) -> float | None:
    """Share of rows confidently in another class than the given one (Northcutt et al. 2021).

    None where too few rows are confidently in any class.

    The same number as ``estimate_transition(labels, f.dense()).noise_rate``, where the rest of a
    row is below every threshold.
    """
    from adacorr.core.by_class import MIN_ROWS

    k = f.n_classes
    size = np.bincount(labels, minlength=k)
    threshold = np.bincount(labels, f.at(labels), minlength=k) / np.maximum(size, 1)
    threshold[size == 0] = np.inf
    above = (f.indices >= 0) & (f.values >= threshold[np.maximum(f.indices, 0)])
    likely, value = TopK(f.indices, np.where(above, f.values, -1), k).best()
    sure = value >= 0
    return float((likely[sure] != labels[sure]).mean()) if sure.sum() >= MIN_ROWS else None


def fit_top_k(
    codes: NDArray[np.int64],
    pred_probs: TopK,
    *,
    delta: Any = "auto",
    T: Any = None,
    max_flip_error: float | None = None,
) -> TopKRule:
    """:func:`adacorr.correction.arrays.fit_rule` for listed probabilities of many classes."""
    from adacorr.core.auto import fit_auto
    from adacorr.core.validation import check_delta, check_number

    k = pred_probs.n_classes
    if not isinstance(delta, str):
        for name, value in (("T", T), ("max_flip_error", max_flip_error)):
            if value is not None:
                raise InputError(f"{name}: expected only with delta='auto', got delta={delta}")
        return TopKThreshold(check_delta(delta, k))
    if delta != "auto":
        raise InputError(f"delta: expected 'auto' or a number in (0, 1], got {delta!r}")
    if T is not None:
        raise InputError(f"T: expected none with top-k probabilities of {k} classes, got one")
    if max_flip_error is not None:
        check_number(max_flip_error, "max_flip_error", above=0, at_most=1)
    return fit_auto(codes, pred_probs, max_flip_error=max_flip_error)

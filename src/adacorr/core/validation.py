"""Every check of the user's arrays, in one place and one wording: expected ..., got ..."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

SUM_TOLERANCE = 1e-2
"""Rows of ``pred_probs`` must sum to one within this; the likelihood ratio is scale free."""

SURE_TOLERANCE = SUM_TOLERANCE - 1e-3
"""Within this a sum taken in the input's own precision needs no second look."""

MAX_CONDITION = 1e12
"""A transition matrix beyond this condition number counts as singular."""

_CHUNK_ELEMENTS = 1 << 16  # rows are checked in pieces that stay in cache


class InputError(ValueError):
    """The user's input is not usable; the message is one line: expected ..., got ..."""


def one_line(error: BaseException) -> str:
    """What an error of another package says, short enough to quote in one of ours.

    >>> one_line(OSError("no\\n  space")), one_line(TimeoutError())
    ('no space', 'TimeoutError')
    """
    return " ".join(str(error).split())[:300] or type(error).__name__


class RowError(InputError):
    """One row is not usable; readers of files say which file and which column that is.

    Attributes
    ----------
    name, expected, got : the parts of the message.
    row : its number, counted from 0 in the whole input.
    column : the column of ``pred_probs``; None where the row as a whole, or its label, is wrong.
    """

    def __init__(
        self, name: str, expected: str, got: str, row: int, column: int | None = None
    ) -> None:
        place = f"row {row}" if column is None else f"row {row}, column {column}"
        super().__init__(f"{name}: expected {expected}, got {got} in {place}")
        self.name, self.expected, self.got = name, expected, got
        self.row, self.column = row, column


def as_pred_probs(pred_probs: ArrayLike, name: str = "pred_probs") -> NDArray[np.floating]:
    """`pred_probs` as an (N, K) float array, N >= 1, K >= 2, without looking at the values."""
    f = _array(pred_probs, name, "an array of shape (N, K)")
    if f.ndim != 2:
        raise InputError(f"{name}: expected shape (N, K), got {f.shape}")
    if f.shape[0] == 0:
        raise InputError(f"{name}: expected at least one row, got none")
    if f.shape[1] < 2:
        raise InputError(f"{name}: expected at least 2 classes (columns), got {f.shape[1]}")
    if f.dtype.kind not in "fiub":
        raise InputError(f"{name}: expected numbers, got dtype {f.dtype}")
    return f if f.dtype in (np.float16, np.float32, np.float64) else f.astype(np.float64)


def check_pred_probs(
    pred_probs: ArrayLike, *, normalize: bool = False, name: str = "pred_probs", first_row: int = 0
) -> NDArray[np.floating]:
    """Return `pred_probs` as an (N, K) float array without copying, or say what is wrong.

    Parameters
    ----------
    pred_probs : array-like of shape (N, K), K >= 2, N >= 1
    normalize : accept rows of any positive sum; the result is then a normalised copy.
    name, first_row : how messages name the array and number its rows.
    """
    f = as_pred_probs(pred_probs, name)
    check_rows(f, normalize=normalize, name=name, first_row=first_row)
    if normalize:
        f = f.astype(np.float64 if f.dtype == np.float64 else np.float32)
        f /= f.sum(axis=1, keepdims=True, dtype=np.float64)
    return f


def check_rows(
    f: NDArray[np.floating],
    *,
    normalize: bool = False,
    name: str = "pred_probs",
    first_row: int = 0,
) -> None:
    """Raise RowError at the first row that is not a distribution (or, to normalise, a measure)."""
    step = max(1, _CHUNK_ELEMENTS // f.shape[1])
    for start in range(0, len(f), step):
        block = f[start : start + step]
        if normalize or not surely_distributions(block):
            _check_block(block, normalize, name, first_row + start)


def surely_distributions(block: NDArray[np.floating]) -> bool:
    """Whether all rows pass at first glance; False asks for the exact check.

    Sums are a matrix product in the input's precision: many times faster than a sum along short
    rows. NaN and infinity survive it, and the minimum finds negative entries.
    """
    if block.dtype == np.float16:
        block = block.astype(np.float32)
    with np.errstate(all="ignore"):
        off = np.abs(block @ np.ones(block.shape[1], block.dtype) - 1).max()
        return bool(off <= SURE_TOLERANCE and block.min() >= 0)


def _check_block(block: NDArray[np.floating], normalize: bool, name: str, first_row: int) -> None:
    bad = ~(np.isfinite(block) & (block >= 0))
    if bad.any():
        row, column = divmod(int(bad.argmax()), block.shape[1])
        hint = " (logits? apply softmax)" if block.min() < -1 else ""  # NaN: no hint
        got = f"{block[row, column]}{hint}"
        raise RowError(name, "finite probabilities >= 0", got, first_row + row, column)
    sums = block.sum(axis=1, dtype=np.float64)
    off = sums <= 0 if normalize else np.abs(sums - 1) > SUM_TOLERANCE
    if off.any():
        row = int(off.argmax())
        expected = "a positive sum" if normalize else f"a sum of 1 (within {SUM_TOLERANCE})"
        raise RowError(name, f"rows with {expected}", f"{sums[row]:.6g}", first_row + row)


def _array(values: ArrayLike, name: str, expected: str) -> NDArray[Any]:
    """``np.asarray``, whose many ways to refuse (ragged lists, tensors on a device) become one."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = one_line(error)
        raise InputError(f"{name}: expected {expected}, got one that cannot be: {reason}") from None


def check_codes(
    y: NDArray[np.integer], n_classes: int, *, name: str = "labels", first_row: int = 0
) -> NDArray[np.int64]:
    """Class indices in [0, n_classes), as int64."""
    bad = (y < 0) | (y >= n_classes)
    if bad.any():
        row = int(bad.argmax())
        raise RowError(name, f"integers in [0, {n_classes})", str(y[row]), first_row + row)
    return y.astype(np.int64, copy=False)


def check_same_length(labels: NDArray[Any], pred_probs: NDArray[Any]) -> None:
    """Labels and probabilities describe the same samples."""
    if len(labels) != len(pred_probs):
        raise InputError(
            f"labels and pred_probs: expected the same length, "
            f"got {len(labels)} and {len(pred_probs)}"
        )


def check_delta(delta: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    """A threshold in (0, 1], or a (K, K) array ``delta[suggested, given]``, 0 for never."""
    try:
        d = np.asarray(delta, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError(f"delta: expected a number in (0, 1], got {delta!r}") from None
    if d.shape not in ((), (n_classes, n_classes)):
        raise InputError(
            f"delta: expected a number or shape ({n_classes}, {n_classes}), got shape {d.shape}"
        )
    if d.ndim == 0 and not 0 < d <= 1:
        raise InputError(f"delta: expected a number in (0, 1], got {d}")
    if not (np.isfinite(d) & (d >= 0)).all():
        raise InputError("delta: expected finite thresholds >= 0, got others")
    return d


def check_transition(T: ArrayLike, n_classes: int | None = None) -> NDArray[np.float64]:
    """A row-stochastic (K, K) matrix, ``T[i, j] = P(given = j | true = i)``."""
    matrix = as_numbers(T, "T")
    k = n_classes if n_classes is not None else (matrix.shape[0] if matrix.ndim else 0)
    if matrix.shape != (k, k) or k < 2:
        raise InputError(
            f"T: expected shape ({k}, {k}) with at least 2 classes, got {matrix.shape}"
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InputError("T: expected finite entries >= 0, got others")
    sums = matrix.sum(axis=1)
    if (np.abs(sums - 1) > 1e-6).any():
        row = int(np.abs(sums - 1).argmax())
        raise InputError(f"T: expected rows that sum to 1, got {sums[row]:.6g} in row {row}")
    return matrix


def check_invertible(T: ArrayLike, n_classes: int | None = None) -> NDArray[np.float64]:
    """A transition matrix that has an inverse: else labels do not tell the classes apart.

    >>> check_invertible([[0.5, 0.5], [0.5, 0.5]])
    Traceback (most recent call last):
    adacorr.core.validation.InputError: T: expected an invertible matrix, got a singular one
    """
    matrix = check_transition(T, n_classes)
    if not float(np.linalg.cond(matrix, 1)) < MAX_CONDITION:
        raise InputError("T: expected an invertible matrix, got a singular one")
    return matrix


def check_rate(rate: float, name: str = "rate") -> float:
    """A noise rate in [0, 1]."""
    value = float(rate)
    if not 0 <= value <= 1:
        raise InputError(f"{name}: expected a number in [0, 1], got {rate}")
    return value


def as_numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """An array of floats, of any shape."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected numbers, got other values") from None


def check_number(
    value: float,
    name: str,
    *,
    above: float = -np.inf,
    at_least: float = -np.inf,
    below: float = np.inf,
    at_most: float = np.inf,
) -> float:
    """A finite number within the limits that are given.

    >>> check_number(0.95, "confidence", above=0, below=1)
    0.95
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if np.isfinite(number) and above < number < below and at_least <= number <= at_most:
        return number
    limits = {">": above, ">=": at_least, "<": below, "<=": at_most}
    wanted = " and ".join(
        f"{sign} {limit:g}" for sign, limit in limits.items() if abs(limit) < np.inf
    )
    raise InputError(f"{name}: expected a number {wanted or 'that is finite'}, got {value}")


def check_count(value: int, name: str, *, at_least: int = 0) -> int:
    """A whole number, not below `at_least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"{name}: expected a whole number, got {value}")
    if value < at_least:
        raise InputError(f"{name}: expected a whole number >= {at_least}, got {value}")
    return int(value)


def check_fields(cls: type, values: Mapping[str, Any], where: str) -> None:
    """Names and types of values that are to become a dataclass, as its annotations state them.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: int | None = None
    >>> check_fields(Point, {"x": "one"}, "point")
    Traceback (most recent call last):
    adacorr.core.validation.InputError: point: expected x of type int | None, got 'one'
    """
    hints = get_type_hints(cls)
    known = [field.name for field in fields(cls) if field.init]
    for name, value in values.items():
        if name not in known:
            raise InputError(f"{where}: expected {', '.join(known) or 'no fields'}, got {name!r}")
        if not _is_a(value, hints[name]):
            kind = getattr(hints[name], "__name__", None) or str(hints[name])
            raise InputError(f"{where}: expected {name} of type {kind}, got {value!r}")


def _is_a(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if get_origin(hint) in (Union, UnionType):
        return any(_is_a(value, choice) for choice in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) in (list, tuple):  # of any length; TOML knows lists only
        of = get_args(hint)[0]
        return isinstance(value, list | tuple) and all(_is_a(entry, of) for entry in value)
    if isinstance(value, bool | np.bool_):
        return hint is bool
    if hint in (int, float):
        return isinstance(value, (Integral,) if hint is int else Real)
    return isinstance(value, hint)

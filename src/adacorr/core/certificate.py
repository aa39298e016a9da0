"""What can be promised about corrected labels, and under which assumption.

Three kinds of statement, from the weakest assumption to the strongest:

* the audit (:func:`flip_error_limit`, :func:`reviews_needed`, :func:`choose_delta`): a person
  reviews a random sample of the flips; no assumption about the model or the noise, only that the
  reviewer's verdict is what counts as right;
* diagnostics (:func:`reliability`, :func:`negative_mass`, :func:`flip_sensitivity`): they can
  reject an assumption, never confirm it;
* the certified radius (:func:`certified_radius`): a label is certain *if* the probabilities are
  within the radius of the noisy posterior and T is right. Neither can be known from noisy labels
  alone, so this is an "if", never an error rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import (
    InputError,
    as_numbers,
    check_count,
    check_invertible,
    check_number,
    check_pred_probs,
    check_same_length,
)
from adacorr.labels import encode_labels

_CHUNK_ELEMENTS = 1 << 20


# --- certified radius -------------------------------------------------------------------------


@dataclass(frozen=True)
class CertifiedRadius:
    """Result of :func:`certified_radius`; arrays of length N.

    Attributes
    ----------
    labels : the Bayes label m that T and the probabilities point to (class indices).
    radius : m is the Bayes label as long as every entry of f is closer than this to the noisy
        posterior at x, and T is right.
    """

    labels: NDArray[np.int64]
    radius: NDArray[np.float64]

    def survives(self, eps: float, labels: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Where the certified label stands even if f is wrong by up to `eps` in every entry.

        With `labels` (class indices, say the corrected ones) a row counts only if its label is the
        certified one.
        """
        sure = self.radius > check_number(eps, "eps", at_least=0)
        if labels is None:
            return sure
        y = np.asarray(labels)
        if y.shape != self.labels.shape:
            raise InputError(f"labels: expected shape {self.labels.shape}, got {y.shape}")
        return sure & (y == self.labels)


def certified_radius(pred_probs: ArrayLike, T: ArrayLike | None = None) -> CertifiedRadius:
    """How wrong the probabilities may be, row by row, before the implied Bayes label changes.

    With ``g = f T^-1`` and ``m = argmax g`` the radius is the smallest over j != m of
    ``(g_m - g_j) / ||T^-1[:, m] - T^-1[:, j]||_1``.

    Proof: the noisy posterior is ``eta T``, so ``eta_m - eta_j`` differs from ``g_m - g_j`` by the
    inner product of ``f - eta T`` with ``T^-1[:, m] - T^-1[:, j]``, at most ``||f - eta T||_inf``
    times the 1-norm of that difference (Hölder).

    Parameters
    ----------
    pred_probs : (N, K), out-of-sample probabilities of the *given* labels.
    T : (K, K), ``T[i, j] = P(given = j | true = i)``. None: symmetric noise of any rate below
        (K-1)/K, where the radius is half the gap of the two largest probabilities.

    >>> result = certified_radius([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]])
    >>> result.labels.tolist(), result.radius.round(3).tolist()
    ([0, 0], [0.25, 0.025])
    >>> result.survives(0.1).tolist()
    [True, False]
    """
    f = check_pred_probs(pred_probs)
    n, k = f.shape
    inverse = None if T is None else invert_transition(T, k)
    distance = np.full((k, k), 2.0) if inverse is None else _row_distances(inverse)
    np.fill_diagonal(distance, 1.0)
    labels, radius = np.empty(n, dtype=np.int64), np.empty(n)
    for rows in _chunks(n, k):
        g = f[rows].astype(np.float64)
        g = g if inverse is None else g @ inverse
        m = g.argmax(axis=1)
        gap = (g[np.arange(len(g)), m][:, None] - g) / distance[m]
        gap[np.arange(len(g)), m] = np.inf
        labels[rows], radius[rows] = m, gap.min(axis=1)
    return CertifiedRadius(labels, radius)


def invert_transition(T: ArrayLike, k: int) -> NDArray[np.float64]:
    """T^-1 of a checked (k, k) transition matrix; a singular one is refused."""
    return np.linalg.inv(check_invertible(T, k)).astype(np.float64, copy=False)


def _row_distances(inverse: NDArray[np.float64]) -> NDArray[np.float64]:
    """1-norms of the differences of all pairs of columns of T^-1 (rows of T^-T), (K, K)."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(inverse.T, inverse.T, "cityblock"), dtype=np.float64)


def _chunks(n: int, k: int) -> Iterator[slice]:
    step = max(1, _CHUNK_ELEMENTS // k)
    return (slice(start, start + step) for start in range(0, n, step))


# --- audit ------------------------------------------------------------------------------------


def flip_error_limit(
    n_wrong: int, n_reviewed: int, confidence: float = 0.95, *, n_flips: int | None = None
) -> float:
    """Upper confidence limit on the share of wrong flips, from a reviewed random sample of them.

    Clopper and Pearson (1934), one-sided: over repeated samples the limit is at least the true
    share with probability `confidence` or more, whatever the model, the noise and the threshold.

    Parameters
    ----------
    n_wrong, n_reviewed : flips found wrong, and flips reviewed, of a uniform random sample.
    confidence : in (0, 1).
    n_flips : how many flips the sample was drawn from (without replacement). The limit is then the
        exact one for this finite set (hypergeometric): smaller, and no guess is left when all are
        reviewed. None: a sample from an endless supply (binomial), which is valid for both.

    >>> round(flip_error_limit(0, 59), 4), round(flip_error_limit(2, 100), 4)
    (0.0495, 0.0616)
    >>> flip_error_limit(1, 20, n_flips=20)
    0.05
    """
    wrong = check_count(n_wrong, "n_wrong")
    reviewed = check_count(n_reviewed, "n_reviewed", at_least=0)
    level = check_number(confidence, "confidence", above=0, below=1)
    if wrong > reviewed:
        raise InputError(f"n_wrong: expected at most n_reviewed ({reviewed}), got {wrong}")
    if n_flips is not None:
        total = check_count(n_flips, "n_flips", at_least=max(1, reviewed))
        return _finite_limit(wrong, reviewed, level, total)
    if wrong == reviewed:  # nothing reviewed, or nothing right
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(wrong + 1, reviewed - wrong, level))


def _finite_limit(wrong: int, reviewed: int, level: float, total: int) -> float:
    """The largest number of wrong flips among `total` that the sample does not rule out."""
    low, high = wrong, total - (reviewed - wrong)  # both ends are possible, low always plausible
    while low < high:
        middle = (low + high + 1) // 2
        chance = _hypergeometric_cdf(wrong, total, middle, reviewed)
        plausible = chance > (1 - level) * (1 + 1e-9)  # a tie is one, whatever the rounding
        low, high = (middle, high) if plausible else (low, middle - 1)
    return low / total


def _hypergeometric_cdf(x: int, total: int, marked: int, drawn: int) -> float:
    """P(at most x marked among `drawn` of `total`); in logarithms, by the ratio of neighbours.

    The review page shows a limit as soon as it opens, and ``scipy.stats`` takes a second to load.

    >>> round(_hypergeometric_cdf(1, 10, 4, 5), 6)
    0.261905
    """
    first, last = max(0, drawn - (total - marked)), min(x, marked, drawn)
    if last < first:
        return 0.0
    i = np.arange(first, last, dtype=np.float64)
    steps = np.log((marked - i) * (drawn - i)) - np.log((i + 1) * (total - marked - drawn + i + 1))
    start = _log_choose(marked, first) + _log_choose(total - marked, drawn - first)
    logs = start - _log_choose(total, drawn) + np.concatenate([[0.0], np.cumsum(steps)])
    return float(min(np.exp(logs).sum(), 1.0))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def reviews_needed(
    target: float, confidence: float = 0.95, n_wrong: int = 0, *, n_flips: int | None = None
) -> int:
    """How many flips to review so that `n_wrong` wrong ones still show a flip error <= `target`.

    >>> reviews_needed(0.05), reviews_needed(0.05, n_wrong=1), reviews_needed(0.05, n_flips=100)
    (59, 93, 39)
    """
    goal = check_number(target, "target", above=0, below=1)
    wrong = check_count(n_wrong, "n_wrong")
    if n_flips is not None and wrong > goal * check_count(n_flips, "n_flips", at_least=1):
        raise InputError(
            f"n_wrong: expected at most {goal:g} of {n_flips} flips for this target, got {wrong}"
        )

    def enough(n: int) -> bool:
        return flip_error_limit(wrong, n, confidence, n_flips=n_flips) <= goal

    low, high = wrong, max(wrong, 1)
    while not enough(high):
        low, high = high, 2 * high if n_flips is None else min(2 * high, n_flips)
    while high - low > 1:  # not enough(low), enough(high)
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class DeltaChoice:
    """Result of :func:`choose_delta`; arrays with one entry per threshold, in increasing order.

    Attributes
    ----------
    delta : the largest threshold shown to be safe, or None when not even the first one was.
    deltas : the grid.
    n_reviewed, n_wrong : reviewed flips below each threshold, and the wrong ones among them.
    limit : upper limit of the flip error at each threshold, each at `confidence` on its own.
    passed : which thresholds passed before the sequence stopped.
    target, confidence : P(flip error at `delta` <= target) >= confidence.
    """

    delta: float | None
    deltas: NDArray[np.float64]
    n_reviewed: NDArray[np.int64]
    n_wrong: NDArray[np.int64]
    limit: NDArray[np.float64]
    passed: NDArray[np.bool_]
    target: float
    confidence: float


def choose_delta(
    ratio: ArrayLike,
    wrong: ArrayLike,
    deltas: ArrayLike,
    target: float = 0.05,
    confidence: float = 0.95,
) -> DeltaChoice:
    """The largest threshold whose flip error is at most `target`, shown by reviewed flips.

    Fixed-sequence testing: the grid is walked from the smallest (safest) threshold upwards, each
    hypothesis "the flip error at this delta exceeds target" is tested at level 1 - confidence with
    the reviewed flips below it, and the walk stops at the first that is not rejected. The chosen
    delta is wrong only if the first true hypothesis is rejected, so
    P(flip error <= target) >= confidence without a correction for the size of the grid.

    Thresholds at the start with too few reviews to pass even with none wrong are skipped; that
    depends on the ratios only, not on the verdicts, so the level holds. A grid that starts where
    few reviews lie below the first threshold may end there because of one wrong flip.

    Parameters
    ----------
    ratio : (n,), likelihood ratios of the reviewed flips, a uniform random sample of all flips at
        the largest threshold.
    wrong : (n,), the reviewer's verdict, True where the flip is wrong.
    deltas : thresholds in (0, 1], fixed before the review.

    >>> ratio = np.linspace(0.001, 0.9, 300)
    >>> choose_delta(ratio, ratio > 0.6, deltas=[0.3, 0.5, 0.7, 0.9]).delta
    0.5
    """
    r, bad = _reviewed(ratio, wrong)
    grid = _delta_grid(deltas)
    check_number(target, "target", above=0, below=1)
    order = np.argsort(r, kind="stable")
    n_reviewed = np.searchsorted(r[order], grid, side="left")  # flipped when ratio < delta
    n_wrong = np.concatenate([[0], np.cumsum(bad[order])])[n_reviewed]
    limit = np.array(
        [
            flip_error_limit(int(w), int(n), confidence)
            for w, n in zip(n_wrong, n_reviewed, strict=True)
        ]
    )
    possible = n_reviewed >= reviews_needed(target, confidence)
    passed = possible & np.logical_and.accumulate((limit <= target) | ~possible)
    chosen = float(grid[passed][-1]) if passed.any() else None
    return DeltaChoice(chosen, grid, n_reviewed, n_wrong, limit, passed, target, confidence)


def _reviewed(ratio: ArrayLike, wrong: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    r, bad = _ratios(ratio), np.asarray(wrong)
    if bad.shape != r.shape:
        raise InputError(f"wrong: expected one verdict per ratio {r.shape}, got shape {bad.shape}")
    if bad.dtype.kind not in "biu" or not np.isin(bad, (0, 1)).all():
        raise InputError("wrong: expected True or False, got other values")
    return r, bad.astype(bool)


def _ratios(ratio: ArrayLike) -> NDArray[np.float64]:
    r = as_numbers(ratio, "ratio")
    if r.ndim != 1:
        raise InputError(f"ratio: expected shape (N,), got {r.shape}")
    if not ((r >= 0) & np.isfinite(r)).all():
        raise InputError("ratio: expected finite values >= 0, got others")
    return r


def _delta_grid(deltas: ArrayLike) -> NDArray[np.float64]:
    grid = np.unique(as_numbers(deltas, "deltas"))
    if grid.size == 0:
        raise InputError("deltas: expected at least one value, got none")
    if not ((grid > 0) & (grid <= 1)).all():
        raise InputError(f"deltas: expected values in (0, 1], got {grid[0]:g} to {grid[-1]:g}")
    return grid


# --- diagnostics ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reliability:
    """Result of :func:`reliability`; arrays with one entry per bin that has samples.

    Attributes
    ----------
    confidence : mean predicted probability of the predicted class.
    frequency : how often the given label is the predicted class.
    count : samples in the bin.
    error : expected calibration error, the count-weighted mean of |confidence - frequency|.
    """

    confidence: NDArray[np.float64]
    frequency: NDArray[np.float64]
    count: NDArray[np.int64]
    error: float


def reliability(labels: ArrayLike, pred_probs: ArrayLike, bins: int = 15) -> Reliability:
    """Are the probabilities calibrated to the *given* labels, as the theory needs?

    The paper's f estimates the noisy posterior, so among samples predicted with probability p the
    given label should agree with the prediction with frequency p; agreement with the true label is
    a different question. Use out-of-fold probabilities. A straight diagonal does not prove that
    f is close to the noisy posterior at every x (calibration is an average); a bent one disproves
    it.

    >>> reliability([0, 0, 1, 1], [[0.75, 0.25]] * 4, bins=10).frequency
    array([0.5])
    """
    f = check_pred_probs(pred_probs)
    y = encode_labels(labels, f.shape[1]).codes
    check_same_length(y, f)
    bins = check_count(bins, "bins", at_least=1)
    top = f.argmax(axis=1)
    p = f[np.arange(len(f)), top].astype(np.float64)
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    used = count > 0
    confidence = np.bincount(place, p, minlength=bins)[used] / count[used]
    frequency = np.bincount(place, top == y, minlength=bins)[used] / count[used]
    error = float(np.abs(confidence - frequency) @ count[used] / len(y))
    return Reliability(confidence, frequency, count[used], error)


@dataclass(frozen=True)
class NegativeMass:
    """Result of :func:`negative_mass`; arrays of length N.

    Attributes
    ----------
    mass : the sum of the negative entries of ``f T^-1``, without sign.
    implied_error : if T is right, some entry of f is off by at least this much at x.
    """

    mass: NDArray[np.float64]
    implied_error: NDArray[np.float64]


def negative_mass(pred_probs: ArrayLike, T: ArrayLike) -> NegativeMass:
    """How far ``f T^-1`` is from being a probability vector, row by row.

    With the right T and f equal to the noisy posterior, ``f T^-1`` is the clean posterior and has
    no negative entry. An entry ``g_j < 0`` means that f is off by at least
    ``-g_j / ||T^-1[:, j]||_1`` somewhere, or that T is wrong: rows with a large implied error
    reject T or the calibration. The absence of negative entries confirms neither.

    >>> result = negative_mass([[0.9, 0.1], [1.0, 0.0]], [[0.8, 0.2], [0.2, 0.8]])
    >>> result.mass.round(3).tolist(), result.implied_error.round(3).tolist()
    ([0.167, 0.333], [0.1, 0.2])
    """
    f = check_pred_probs(pred_probs)
    n, k = f.shape
    inverse = invert_transition(T, k)
    norm = np.abs(inverse).sum(axis=0)
    mass, implied = np.empty(n), np.empty(n)
    for rows in _chunks(n, k):
        negative = np.maximum(-(f[rows].astype(np.float64) @ inverse), 0.0)
        mass[rows] = negative.sum(axis=1)
        implied[rows] = (negative / norm).max(axis=1)
    return NegativeMass(mass, implied)


def flip_sensitivity(ratio: ArrayLike, deltas: ArrayLike) -> NDArray[np.int64]:
    """Number of flips at each threshold: a steep curve means that the choice of delta matters.

    >>> flip_sensitivity([0.1, 0.4, 0.95, 1.0], [0.2, 0.5, 1.0])
    array([1, 2, 3])
    """
    r = np.sort(_ratios(ratio))
    grid = np.atleast_1d(as_numbers(deltas, "deltas"))
    _delta_grid(grid)
    return np.searchsorted(r, grid, side="left")

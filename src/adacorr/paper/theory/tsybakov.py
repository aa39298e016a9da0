"""The Tsybakov margin condition: how much data lies close to the decision boundary.

The condition asks for constants with ``P[margin <= t] <= C t^lambda`` for all ``t <= t0``. The
margin is ``|eta - 1/2|`` for two classes (Theorem 1 and the corollary) and the gap of the two
largest entries of eta otherwise (Theorems 2 and 3); for two classes the gap is twice the margin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import (
    InputError,
    as_numbers,
    check_count,
    check_number,
    check_pred_probs,
)

BINARY_GRID = np.linspace(0.01, 0.5, 50)
"""Where the paper's synthetic constants come out; its text says (0, 0.9], which does not."""

MULTICLASS_GRID = np.linspace(0.01, 0.9, 90)

MIN_SAMPLES = 20
MIN_POINTS = 3


@dataclass(frozen=True)
class TsybakovFit:
    """Ordinary least squares of log p on log t, as in the paper.

    Attributes
    ----------
    C, lam : ``C = exp(intercept)`` and the slope lambda; ``p`` is about ``C t^lambda``.
    r2 : coefficient of determination of that line. Its points are cumulative, hence dependent:
        a high value is no test of the condition.
    grid, p : t and the share of margins <= t.
    """

    C: float
    lam: float
    r2: float
    grid: NDArray[np.float64] = field(repr=False)
    p: NDArray[np.float64] = field(repr=False)

    @property
    def envelope(self) -> float:
        """The smallest C that makes ``C t^lambda`` an upper envelope of `p` on the grid.

        The least squares line runs through the points, so about half of them lie above it and the
        condition fails there; a bound needs this constant (or :func:`envelope_constant`).
        """
        return float((self.p / self.grid**self.lam).max())

    @property
    def p_value(self) -> float:
        """Of the slope, two-sided, as the paper states it: P(such a line | points without one).

        It takes the points for independent. They are cumulative, so it is far too small, and no
        test of the condition either: any distribution has more mass below a larger t.
        """
        from scipy.stats import t

        left = int((self.p > 0).sum()) - 2
        rest = 1 - self.r2
        if rest <= 0:
            return 0.0
        return float(2 * t.sf((self.r2 * left / rest) ** 0.5, left))

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON, with the key ``lambda``."""
        return {
            "C": self.C,
            "lambda": self.lam,
            "r2": self.r2,
            "p_value": self.p_value,
            "envelope": self.envelope,
            "grid": self.grid.tolist(),
            "p": self.p.tolist(),
        }


@dataclass(frozen=True)
class TsybakovInterval:
    """Percentile bootstrap intervals (low, high) at `confidence`, resampling the margins."""

    C: tuple[float, float]
    lam: tuple[float, float]
    envelope: tuple[float, float]
    confidence: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "C": list(self.C),
            "lambda": list(self.lam),
            "envelope": list(self.envelope),
            "confidence": self.confidence,
        }


def binary_margin(eta: ArrayLike) -> NDArray[np.float64]:
    """``|eta - 1/2|`` for (N,) probabilities of class 1, or an (N, 2) array.

    >>> binary_margin([0.5, 0.9]).round(2).tolist()
    [0.0, 0.4]
    """
    e = as_numbers(eta, "eta")
    e = np.column_stack([1 - e, e]) if e.ndim == 1 else e
    e = check_pred_probs(e, name="eta")
    if e.shape[1] != 2:
        raise InputError(f"eta: expected two classes, got {e.shape[1]}")
    return np.abs(e[:, 1] - 0.5)


def multiclass_margin(eta: ArrayLike) -> NDArray[np.float64]:
    """``eta_u - eta_s``: the largest minus the second largest entry of each row of (N, K).

    >>> multiclass_margin([[0.7, 0.2, 0.1], [0.4, 0.2, 0.4]]).round(2).tolist()
    [0.5, 0.0]
    """
    e = check_pred_probs(eta, name="eta")
    out = np.empty(len(e))
    step = max(1, (1 << 20) // e.shape[1])
    for start in range(0, len(e), step):
        top = np.partition(e[start : start + step].astype(np.float64), -2, axis=1)
        out[start : start + step] = top[:, -1] - top[:, -2]
    return out


def fit_tsybakov(margins: ArrayLike, grid: ArrayLike = MULTICLASS_GRID) -> TsybakovFit:
    """Fit C and lambda to margins by least squares on the log-log scale (Section 2.4 of the paper).

    Parameters
    ----------
    margins : (N,), from :func:`binary_margin` or :func:`multiclass_margin`.
    grid : values of t > 0; those below the smallest margin have frequency 0 and no logarithm, and
        are left out of the fit.

    >>> share = np.linspace(0.00001, 1, 100_000)
    >>> fit = fit_tsybakov(np.sqrt(share))  # P[margin <= t] = t^2
    >>> round(fit.C, 1), round(fit.lam, 1), round(fit.r2, 2)
    (1.0, 2.0, 1.0)
    """
    values, points = _check_margins(margins), _check_grid(grid)
    p = np.searchsorted(np.sort(values), points, side="right") / len(values)
    if (p > 0).sum() < MIN_POINTS:
        raise InputError(
            f"margins: expected at least {MIN_POINTS} grid points with samples below them, "
            f"got {(p > 0).sum()}: too few samples near the decision boundary to fit"
        )
    C, lam, r2 = (float(value[0]) for value in _least_squares(points, p[None, :]))
    if not lam > 0:
        raise InputError(f"margins: expected frequencies that grow with t, got lambda = {lam:.3g}")
    return TsybakovFit(C, lam, r2, points, p)


def bootstrap_tsybakov(
    margins: ArrayLike,
    rng: np.random.Generator | int,
    grid: ArrayLike = MULTICLASS_GRID,
    n_resamples: int = 1000,
    confidence: float = 0.95,
) -> TsybakovInterval:
    """Bootstrap intervals for C, lambda and the envelope; cost does not grow with N.

    The frequencies on the grid depend on a resample only through the number of margins between
    grid points, which is multinomial, so that is what is drawn.
    """
    values, points = _check_margins(margins), _check_grid(grid)
    fit = fit_tsybakov(values, points)
    check_count(n_resamples, "n_resamples", at_least=10)
    level = check_number(confidence, "confidence", above=0, below=1)
    share = np.diff(np.concatenate([[0.0], fit.p, [1.0]]))
    counts = np.random.default_rng(rng).multinomial(len(values), share, size=n_resamples)
    p = np.cumsum(counts[:, :-1], axis=1) / len(values)
    p = p[(p > 0).sum(axis=1) >= MIN_POINTS]
    C, lam, _ = _least_squares(points, p)
    envelope = (p / points ** lam[:, None]).max(axis=1)

    def interval(sample: NDArray[np.float64]) -> tuple[float, float]:
        low, high = np.quantile(sample, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    return TsybakovInterval(interval(C), interval(lam), interval(envelope), level)


def envelope_constant(margins: ArrayLike, lam: float, t0: float = 1.0) -> float:
    """The smallest C with ``share of margins <= t  <=  C t^lam`` for *every* t in (0, t0].

    Where the envelope of a fit looks at the grid only, this looks at every sample, so bounds that
    use it hold exactly for the sample at hand. Infinite when a margin is 0 (a tie in eta).

    >>> round(envelope_constant(np.linspace(0.05, 1, 20), lam=1.0), 6)
    1.0
    """
    values = np.sort(_check_margins(margins))
    power = check_number(lam, "lambda", above=0)
    limit = check_number(t0, "t0", above=0, at_most=1)
    share = np.arange(1, len(values) + 1) / len(values)
    inside = values <= limit
    if not inside.any():
        return 0.0
    if values[0] == 0:
        return float("inf")
    return float((share[inside] / values[inside] ** power).max())


def _least_squares(grid: NDArray[np.float64], p: NDArray[np.float64]) -> tuple[NDArray, ...]:
    """C, lambda and R^2 for each row of p (B, G); points with p = 0 have weight 0."""
    weight = (p > 0).astype(np.float64)
    x = np.broadcast_to(np.log(grid), p.shape)
    y = np.log(np.where(p > 0, p, 1.0))
    total = weight.sum(axis=1)

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return (weight * values).sum(axis=1) / total

    x_mean, y_mean = mean(x), mean(y)
    dx, dy = x - x_mean[:, None], y - y_mean[:, None]
    slope = mean(dx * dy) / mean(dx * dx)
    spread = mean(dy * dy)
    rest = mean((dy - slope[:, None] * dx) ** 2)
    r2 = 1 - np.divide(rest, spread, out=np.ones_like(rest), where=spread > 0)
    return np.exp(y_mean - slope * x_mean), slope, r2


def _check_margins(margins: ArrayLike) -> NDArray[np.float64]:
    values = as_numbers(margins, "margins")
    if values.ndim != 1:
        raise InputError(f"margins: expected shape (N,), got {values.shape}")
    if len(values) < MIN_SAMPLES:
        raise InputError(
            f"margins: expected at least {MIN_SAMPLES} samples to fit, got {len(values)}"
        )
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1 + 1e-6):
        raise InputError("margins: expected values in [0, 1], got others")
    return values


def _check_grid(grid: ArrayLike) -> NDArray[np.float64]:
    points = np.unique(as_numbers(grid, "grid"))
    if len(points) < MIN_POINTS or not (points[0] > 0 and points[-1] <= 1):
        raise InputError(
            f"grid: expected at least {MIN_POINTS} different values of t in (0, 1], got {grid}"
        )
    return points

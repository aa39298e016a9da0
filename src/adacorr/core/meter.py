"""The far meter: how many labels that the model opposes are wrong, without knowing the truth.

One classifier cannot tell its own errors from wrong labels by how often it disagrees. Two facts
can. Model errors are *near misses*: the true class is among the next most probable ones. And they
vanish where the model is sure. Wrong labels do neither. So call a disagreement *far* when the given
label ranks beyond the nearest third of the other classes:

* `NEAR_MISS` of the model's errors are far (a premise, measured between .02 and .13 on models from
  a linear probe to a large network; up to .27 in the tenth of the rows where a probe is least sure;
  it is checked, see below);
* of wrong labels the share is read off the disagreements of the surest rows, where hardly any model
  error is left.

Between the two, the share of wrong labels among the disagreements of each tenth of difficulty
follows from its far share by interpolation. The premise can be checked: model errors get *farther*
as the model gets less sure, so the far share must fall with difficulty for wrong labels to be
there. Where it does not, by three standard errors, the meter shows nothing.

Lists of the most probable classes are enough: a given label beyond the list is beyond its rank.
Where lists end within the nearest third, "far" begins at their end, and the premise gives way to
what the model itself expects beyond them.

A :class:`Line` turns the counts into a probability for each row: the log ratio of the best other
class and the given one decides, as in the paper's likelihood ratio test, with a threshold that the
meter sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adacorr.core.sparse import TopK, beyond, first_choice, given_probs

Array = NDArray[np.float64]

MIN_CLASSES = 6  # with fewer, the nearest third is one class at most, and near misses look far
NEAR_MISS = 0.10  # share of model errors that are far: the estimate
NEAR_MISS_MOST = 0.13  # the largest measured, for limits and for the test
TENTHS = 10
SURE_TENTHS = 3  # wrong labels are all but alone there
ENOUGH = 50  # disagreements, for a share of them to be worth reading
MARGIN = 0.1  # of the lower limit, for model errors that are left among the sure rows
PROOF = 3.0  # standard errors
_TINY = 1e-12


@dataclass(frozen=True)
class Line:
    """P(label is wrong) = sigmoid(shift + slope * log odds), and the same for any such score."""

    shift: float
    slope: float

    def __call__(self, log_odds: Array) -> Array:
        return sigmoid(self.shift + self.slope * log_odds)


@dataclass(frozen=True)
class Meter:
    """What the far meter shows.

    Attributes
    ----------
    shown : the far share falls with difficulty, beyond chance: there are wrong labels.
    rate, low : wrong labels among the disagreements, as a share of all rows, and its lower limit.
    line : the probability that a label is wrong, by the log odds of the best other class.
    far_sure, far_hard : the far share of disagreements in the surer half and the hardest 30%.
    """

    shown: bool
    rate: float = 0.0
    low: float = 0.0
    line: Line | None = None
    far_sure: float = float("nan")
    far_hard: float = float("nan")


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(x, -60, 60)))


def log_odds(p: Array) -> Array:
    """The inverse of :func:`sigmoid`, finite at 0 and 1."""
    return np.log(p + _TINY) - np.log(1 - p + _TINY)


def best_other(
    labels: NDArray[np.int64], f: NDArray[np.floating] | TopK
) -> tuple[NDArray[np.int64], Array]:
    """The most probable class other than the given one, and log f[it] / f[given].

    >>> best_other(np.array([0]), np.array([[0.5, 0.2, 0.3]]))[0]
    array([2])
    """
    if isinstance(f, TopK):
        best, top = f.best_other(labels)
        return best, _log(top) - _log(given_probs(labels, f))
    rows = np.arange(len(labels))
    others = f.copy()
    others[rows, labels] = -1
    best = others.argmax(axis=1)
    return best, _log(others[rows, best]) - _log(f[rows, labels])


def _log(p: NDArray[np.floating]) -> Array:
    return np.log(np.maximum(p.astype(np.float64), _TINY))


def read_meter(labels: NDArray[np.int64], f: NDArray[np.floating] | TopK) -> Meter:
    """Count wrong labels among the disagreements of the rows of a sample."""
    k = f.shape[1]
    if k < MIN_CLASSES:
        return Meter(False)
    predicted, top = first_choice(f)
    opposed = np.flatnonzero(predicted != labels)
    if len(opposed) < TENTHS:
        return Meter(False)
    tenth = tenths(predicted, top)
    far, unlisted = beyond(labels[opposed], f[opposed], max(1, round((k - 1) / 3)))
    near, most = max(NEAR_MISS, unlisted), max(NEAR_MISS_MOST, unlisted)
    size = np.bincount(tenth, minlength=TENTHS)
    counts = Counts(
        np.bincount(tenth[opposed], minlength=TENTHS),
        np.bincount(tenth[opposed], far, minlength=TENTHS).astype(np.float64),
    )
    sure, hard = counts.far_share(slice(0, 5)), counts.far_share(slice(7, 10))
    if not counts.proof(most):
        return Meter(False, far_sure=sure, far_hard=hard)
    wrong, least = counts.wrong_share(near), counts.wrong_share(most)
    _, odds = best_other(labels[opposed], f[opposed])
    line = _fit_line(odds, tenth[opposed], counts.opposed, wrong)
    rate, low = (float(part @ counts.opposed / size.sum()) for part in (wrong, least))
    return Meter(True, rate, low * (1 - MARGIN), line, sure, hard)


@dataclass(frozen=True)
class Counts:
    """Disagreements in each tenth of difficulty, and how many of them are far."""

    opposed: NDArray[np.int64]
    far: Array

    def far_share(self, tenths: slice) -> float:
        return float(self.far[tenths].sum() / max(self.opposed[tenths].sum(), 1))

    def error(self, tenths: slice) -> float:
        """Standard error of :meth:`far_share`, two rows added to each side."""
        n = self.opposed[tenths].sum() + 4
        share = (self.far[tenths].sum() + 2) / n
        return float(np.sqrt(share * (1 - share) / n))

    def beyond_near_misses(self, tenths: slice, near_miss: float) -> bool:
        """Whether so many far labels come by chance less often than `PROOF` standard errors do."""
        from scipy.stats import binom, norm

        far, n = self.far[tenths].sum(), self.opposed[tenths].sum()
        return bool(binom.sf(far - 1, n, near_miss) < norm.sf(PROOF))

    def proof(self, near_miss: float = NEAR_MISS_MOST) -> bool:
        """Whether sure rows have more far labels than model errors explain, and than hard rows.

        Few wrong labels show in the surest tenth alone; a few more only in a larger part.
        """
        hard = slice(7, 10)
        return any(
            self.beyond_near_misses(sure, near_miss)
            and self.far_share(sure) - self.far_share(hard)
            > PROOF * np.hypot(self.error(sure), self.error(hard))
            for sure in (slice(0, 1), slice(0, SURE_TENTHS), slice(0, 5))
        )

    def noise_share(self) -> float:
        """The far share of wrong labels: the largest among the surest one, two, three tenths.

        Model errors that are left among the sure rows make it smaller, and counts too high; so
        may chance, and a standard error is added.
        """
        cuts = [slice(0, j + 1) for j in range(SURE_TENTHS)]
        enough = [c for c in cuts if self.opposed[c].sum() >= ENOUGH] or cuts[-1:]
        return min(max(self.far_share(c) for c in enough) + self.error(enough[-1]), 1.0)

    def wrong_share(self, near_miss: float) -> Array:
        """(10,) share of disagreements that are wrong labels; it falls with difficulty."""
        pooled = _falling(self.far / np.maximum(self.opposed, 1), self.opposed + 1e-9)
        noise = self.noise_share()
        return np.clip((pooled - near_miss) / max(noise - near_miss, 1e-6), 0, 1)


def tenths(predicted: NDArray[np.int64], top: NDArray[np.floating]) -> NDArray[np.int64]:
    """0 for the surest tenth of the rows of each predicted class, 9 for the least sure."""
    order = np.lexsort((-top, predicted))
    size = np.bincount(predicted)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    out = np.empty(len(predicted), np.int64)
    sorted_class = predicted[order]
    place = np.arange(len(order)) - start[sorted_class]
    out[order] = TENTHS * place // size[sorted_class]
    return out


def _falling(values: NDArray[np.floating], weights: NDArray[np.floating]) -> Array:
    """The nearest sequence that never rises (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, wa, na), (b, wb, nb) = blocks[-2:]
            blocks[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    return np.repeat([b[0] for b in blocks], [b[2] for b in blocks])


def _fit_line(odds: Array, tenth: NDArray[np.int64], size: NDArray[np.int64], wrong: Array) -> Line:
    """Shift and slope for which each tenth has its share of wrong labels, by maximum likelihood.

    A weak prior (a slope of one, more right labels than wrong ones) settles what ten shares leave
    open. Newton's method with a numerical derivative: two numbers, a few steps.
    """
    from scipy.optimize import minimize

    weight = size / max(size.sum(), 1)

    def loss(theta: Array) -> float:
        p = sigmoid(theta[0] + theta[1] * odds)
        mean = np.bincount(tenth, p, minlength=TENTHS) / np.maximum(size, 1)
        mean = np.clip(mean, 1e-4, 1 - 1e-4)
        fit = wrong * np.log(mean) + (1 - wrong) * np.log(1 - mean)
        return float(-weight @ fit + 1e-3 * ((theta[1] - 1) ** 2 + (theta[0] + 2) ** 2))

    shift, slope = minimize(loss, np.array([-2.0, 1.0]), method="BFGS").x
    return Line(float(shift), float(max(slope, 0.05)))

"""Limits that hold whenever one stops looking: random sampling from finite sets of rows.

Rows of a set are looked at one by one in a random order; some of them are marked (a wrong label,
say). How many are marked in the whole set? A confidence *sequence* answers at every moment, and
the chance that any of its answers is ever wrong is at most alpha, so one may look after each row
and stop when the limit pleases.

For a supposed number `s` of marked rows the data have a likelihood (sampling without replacement).
A bet against `s` predicts each next row by a Beta mixture of the rates below `s`; the ratio of its
probability to that likelihood is a martingale with mean one if `s` is true, so it exceeds 1/alpha
with probability at most alpha, ever (Ville). The limit is the largest `s` not excluded. (Waudby-
Smith and Ramdas 2020, arXiv 2006.04347, whose mixture is over all rates: that gives both limits at
once, each wider.) Of two sets sampled apart, three quarters of the stake are on the second alone,
which is the larger one here, a fifth is on both bets one after the other, and the rest on the first
alone (the other way round for a lower limit); the limit of the sum is the largest sum of two
numbers not excluded. Any split is valid; of those tried, this came out tightest from 20 to 500
answers.

Marks that depend on a rule chosen by looking ("wrong after the rule") need a limit that holds for
all rules at once. The stake is then shared out evenly among the rules, each bet on a set among the
rules that mark it differently: rules that differ on one set only cost nothing on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError, check_number

_GRID = 256  # numbers per set that are tried at once; what lies between them counts as possible
_PRIOR = (0.5, 0.5)  # of the rates, before they are cut off
_BOTH, _SECOND = 0.2, 0.75  # of the stake on two sets; what is left is on the first alone


@dataclass(frozen=True)
class Part:
    """A set of rows of which some were looked at, in random order.

    Attributes
    ----------
    size : rows in the set.
    seen : how many of them were looked at.
    marked : how many of those were marked. A fraction is allowed, for plans.
    """

    size: int
    seen: float = 0
    marked: float = 0

    def __post_init__(self) -> None:
        if not 0 <= self.marked <= self.seen <= self.size:
            raise InputError(
                f"part: expected marked <= seen <= size, got {self.marked:g}, {self.seen:g} "
                f"and {self.size}"
            )

    @property
    def complement(self) -> Part:
        """The same rows, with the unmarked ones marked."""
        return Part(self.size, self.seen, self.seen - self.marked)


def most_marked(parts: Sequence[Part], alpha: float, rules: Sequence[int] | None = None) -> int:
    """Upper limit for the number of marked rows in all parts together (two parts at most).

    Parameters
    ----------
    parts : sets without common rows, each sampled in a random order of its own.
    alpha : the chance of ever stating a limit below the truth is at most this.
    rules : for each part, in how many ways it may have been marked, of which one was then chosen;
        by default one.

    >>> most_marked([Part(1000, 59, 0)], 0.05), most_marked([Part(20, 20, 1)], 0.05)
    (60, 1)
    >>> parts = Part(200, 40, 4), Part(800, 80, 1)
    >>> most_marked(parts, 0.05), most_marked(parts, 0.05, (12, 1))
    (100, 113)
    """
    check_number(alpha, "alpha", above=0, below=1)
    blank = sum(part.size for part in parts if not part.seen)  # nothing is known of these
    ways = [1] * len(parts) if rules is None else list(rules)
    known = [(part, count) for part, count in zip(parts, ways, strict=True) if part.seen]
    limit = -float(np.log(alpha))
    if len(known) > 2:
        raise InputError(f"parts: expected at most 2 that were looked at, got {len(known)}")
    if len(known) == 2:
        both, counts = zip(*known, strict=True)
        return blank + _most_of_two(both, counts, limit)
    return blank + sum(_most_of_one(part, limit + float(np.log(count))) for part, count in known)


def least_marked(parts: Sequence[Part], alpha: float) -> int:
    """Lower limit for the number of marked rows in all parts together; see :func:`most_marked`.

    Most of the stake is on the first part here: it is the one with many marked rows.

    >>> least_marked([Part(200, 40, 30), Part(800, 80, 1)], 0.05)
    109
    """
    size = sum(part.size for part in parts)
    return size - most_marked([part.complement for part in reversed(parts)], alpha)


def _most_of_one(part: Part, limit: float) -> int:
    """Bets win the more the larger the supposed number is, from the observed share on."""
    low, high = _likeliest(part), _largest(part)
    while low < high:
        grid = _grid(low, high)
        last = int((_bet(part, grid) < limit).nonzero()[0].max(initial=0))
        low, high = int(grid[last]), int(grid[last + 1]) - 1 if last + 1 < len(grid) else high
    return low


def _most_of_two(parts: Sequence[Part], rules: Sequence[int], limit: float) -> int:
    """Largest sum on a grid, narrowed once; between two points of it everything is possible."""
    lows = [_smallest(part) for part in parts]
    highs = [_largest(part) for part in parts]
    sums, possible = np.zeros((1, 1)), np.ones((1, 1), dtype=bool)
    for _ in range(2):
        grids = [
            np.union1d(_grid(low, high), min(_likeliest(part), high))
            for part, low, high in zip(parts, lows, highs, strict=True)
        ]
        ends = [np.append(grid[1:] - 1, high) for grid, high in zip(grids, highs, strict=True)]
        possible = _bet_on_two(parts, grids, rules) < limit
        sums = ends[0][:, None] + ends[1]
        highs = [int(ends[axis][possible.any(axis=1 - axis)].max()) for axis in (0, 1)]
    return int(sums[possible].max())


def _bet_on_two(
    parts: Sequence[Part], numbers: Sequence[NDArray[np.int64]], rules: Sequence[int] = (1, 1)
) -> NDArray[np.float64]:
    """Log winnings against all combinations of numbers."""
    a, b = (_bet(part, marked) for part, marked in zip(parts, numbers, strict=True))
    stakes = np.log([_BOTH / max(rules), (1 - _BOTH - _SECOND) / rules[0], _SECOND / rules[1]])
    alone = np.logaddexp(a[:, None] + stakes[1], b + stakes[2])
    return np.logaddexp(a[:, None] + b + stakes[0], alone)


def _smallest(part: Part) -> int:
    return int(np.ceil(part.marked))


def _largest(part: Part) -> int:
    return int(part.size - np.ceil(part.seen - part.marked))


def _likeliest(part: Part) -> int:
    guess = round(part.size * part.marked / part.seen)
    return min(max(guess, _smallest(part)), _largest(part))


def _grid(low: int, high: int) -> NDArray[np.int64]:
    """Whole numbers from low to high, both included; all of them where they are few."""
    return np.unique(np.linspace(low, high, min(_GRID, high - low + 1)).astype(np.int64))


def _bet(part: Part, marked: NDArray[np.int64]) -> NDArray[np.float64]:
    """Log winnings against each number of marked rows: Beta mixture of smaller rates."""
    from scipy.special import betainc, betaln

    (a, b), w, r = _PRIOR, part.marked, part.seen - part.marked
    rate = marked / part.size
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.log(betainc(a + w, b + r, rate)) - np.log(betainc(a, b, rate))
        won = betaln(a + w, b + r) - betaln(a, b) + below - _log_likelihood(part, marked)
    return np.where(np.isnan(won), -np.inf, won)  # no rate below none


def _log_likelihood(part: Part, marked: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the rows seen, in their order, if `marked` rows of the set are marked."""
    plain = part.size - marked
    right = part.seen - part.marked
    return (
        _log_falling(marked, part.marked)
        + _log_falling(plain, right)
        - _log_falling(np.asarray(part.size), part.seen)
    )


def _log_falling(n: NDArray[np.integer], k: float) -> NDArray[np.float64]:
    """log of n (n - 1) ... (n - k + 1)."""
    from scipy.special import gammaln

    return gammaln(n + 1.0) - gammaln(n - k + 1.0)

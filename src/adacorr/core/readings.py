"""Explanations of the labels that fit the data, and how much noise each of them leaves possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEARNT_MOST = 4.0  # a model may have learnt three wrong labels for each one that it opposes
MAJORITY = 0.5  # more wrong labels than that are not thought of, unless the model opposes as many
CHANGE = 0.1  # of a rate by class: what its fits were off by on labels with known noise
DOUBT_SHARE = 0.25  # of the model's own errors may pass for noise, or noise for them
CALIBRATION = 2.0  # the odds of a change may be off by this factor, see docs/auto-rule.md
_SMALL = 1e-6
ANSWERS = 50  # settle two readings on every set tried, see docs/answers.md

Interval = tuple[float, float]


@dataclass(frozen=True)
class Reading:
    """One explanation of the labels, and what it would mean; shares are of all rows."""

    name: str
    changes: float
    noise_rate: float

    def __str__(self) -> str:
        return f"{self.name}: {self.changes:.1%} to change, {self.noise_rate:.1%} wrong"


def interval_by_class(rate: float, rows: int, doubt: float, opposed: float) -> Interval:
    """Of a fitted rate: chance, a tenth of the rate, and model errors that pass for noise.

    That errors go by class is what the fit assumes. Where they grow with difficulty instead, they
    look like doubts of the model; so the upper end is no less than the share of labels that the
    model opposes.

    >>> low, high = interval_by_class(0.2, 2000, 0.05, opposed=0.23)
    >>> round(low, 2), round(high, 2)
    (0.15, 0.25)
    >>> round(interval_by_class(0.02, 2000, 0.05, opposed=0.1)[1], 2)
    0.11
    """
    margin = _chance(rate, rows) + CHANGE * rate + DOUBT_SHARE * doubt
    high = max(rate + margin, opposed + _chance(opposed, rows))
    return float(max(rate - margin, 0.0)), float(min(high, 1.0))


def _chance(rate: float, rows: int) -> float:
    return 2 * float(np.sqrt(rate * (1 - rate) / rows))


def interval_open(opposed: float, rows: int) -> Interval:
    """While nothing tells model errors from wrong labels; `opposed` is the share of disagreements.

    >>> low, high = interval_open(0.04, 1000)
    >>> low, round(high, 2)
    (0.0, 0.21)
    """
    found = max(opposed, 1 / rows)
    found += _chance(found, rows)
    return 0.0, min(max(found, min(LEARNT_MOST * found, MAJORITY)), 1.0)


@dataclass(frozen=True)
class WrongChanges:
    """How many of some changes are expected to be wrong; of two parts of the rows they add up.

    Attributes
    ----------
    count : the sum of the doubts of the changes.
    low, high : the same if the noise rate is at the upper or lower end of its interval (the odds of
        each change move as those of the rate do), and the odds are twice or half as stated.
    """

    count: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def of(cls, confidence: NDArray[np.float64], rate: float, interval: Interval) -> WrongChanges:
        """Of changes that are right with these probabilities.

        >>> found = WrongChanges.of(np.full(100, 0.8), 0.1, (0.05, 0.15))
        >>> round(found.count), round(found.low), round(found.high)
        (20, 7, 51)
        """
        odds = confidence / np.maximum(1 - confidence, _SMALL)
        ends = [end / (1 - end) for end in np.clip([rate, *interval], _SMALL, 1 - _SMALL)]
        low = (1 / (1 + CALIBRATION * odds * ends[2] / ends[0])).sum()
        high = (1 / (1 + odds / CALIBRATION * ends[1] / ends[0])).sum()
        return cls(float((1 - confidence).sum()), float(low), float(high))

    def merge(self, other: WrongChanges) -> WrongChanges:
        return WrongChanges(self.count + other.count, self.low + other.low, self.high + other.high)

    def interval(self, changes: int) -> Interval:
        """With two standard deviations of chance, between none and all of the changes."""
        chance = 2 * np.sqrt(self.count)
        low, high = max(self.low - chance, 0.0), min(self.high + chance, changes)
        return float(low), float(max(high, 0.0))


def both_readings(opposed: float) -> tuple[Reading, Reading]:
    """The labels are right, or the model is; the harmless one first."""
    return (
        Reading("the labels are right and the model errs", 0.0, 0.0),
        Reading("the model is right and the labels err", opposed, opposed),
    )


def open_note(opposed: float, interval: Interval) -> str:
    """Both readings in one sentence, and what settles them."""
    return (
        f"two readings fit: the labels are right and the model errs (0 changes), or the model is "
        f"right and the labels err ({opposed:.1%} to change); between 0% and {interval[1]:.1%} of "
        f"the labels may be wrong. Nothing is changed; about {ANSWERS} answers settle it"
    )


def summary_of(
    ground: str, rate: float | None, note: str, interval: Interval, readings: tuple[Reading, ...]
) -> dict[str, Any]:
    """What a rule says of itself, in plain values."""
    return {
        "rule": "auto",
        "ground": ground,
        "noise_rate": rate,
        "note": note,
        "interval": list(interval),
        "readings": [str(reading) for reading in readings],
    }

"""Explanations of the labels that fit the data, and how much noise each of them leaves possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LEARNT_MOST = 4.0  # a model may have learnt three wrong labels for each one that it opposes
MAJORITY = 0.5  # more wrong labels than that are not thought of, unless the model opposes as many
CHANGE = 0.1  # of a rate by class: what its fits were off by on labels with known noise
DOUBT_SHARE = 0.25  # of the model's own errors may pass for noise, or noise for them
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


def interval_by_class(rate: float, rows: int, doubt: float) -> Interval:
    """Of a fitted rate: chance, a tenth of the rate, and model errors that pass for noise.

    >>> low, high = interval_by_class(0.2, 2000, 0.05)
    >>> round(low, 2), round(high, 2)
    (0.15, 0.25)
    """
    margin = 2 * np.sqrt(rate * (1 - rate) / rows) + CHANGE * rate + DOUBT_SHARE * doubt
    return float(max(rate - margin, 0.0)), float(min(rate + margin, 1.0))


def interval_open(opposed: float, rows: int) -> Interval:
    """While nothing tells model errors from wrong labels; `opposed` is the share of disagreements.

    >>> interval_open(0.04, 1000)
    (0.0, 0.16)
    """
    most = max(opposed, min(LEARNT_MOST * opposed, MAJORITY))
    return 0.0, float(min(max(most, 1 / rows), 1.0))


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

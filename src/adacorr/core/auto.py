"""The automatic rule: which reading of the labels the data support, and what it says of each row.

A disagreement between model and label has two explanations, and each has its own evidence:

* **noise by class** (:mod:`adacorr.core.posterior`): P(given | true) is one matrix T for all rows.
  Its evidence is the likelihood of the given labels and what the surest rows of each class show.
* **noise by difficulty** (:mod:`adacorr.core.meter`): people and rules err more on hard rows. Its
  evidence is how far the given label is from the model's first choice.

The first is taken if it finds noise; the second if it shows more than twice the noise that the
first one admits. If neither shows any, both "the labels are right" and "the model is right" fit:
nothing is changed, both readings are stated, and a few answers of a person settle it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.inputs import input_warnings
from adacorr.core.lrt import Decision
from adacorr.core.meter import Array, Meter, best_other, read_meter, sigmoid
from adacorr.core.posterior import MIN_ROWS, PosteriorRule, fit_posterior
from adacorr.core.sampling import sample_rows

DENIED = 2.0  # the meter must show this many times the noise by class before it is believed instead
LEARNT_MOST = 4.0  # a model may have learnt three wrong labels for each one that it opposes
EVEN = 0.5  # odds of the two readings while nothing tells them apart
ANSWERS = 50  # settle two readings on every set tried, see docs/answers.md
_METER_ROWS = 50_000
_CHUNK_ELEMENTS = 1 << 18


class Ground(Enum):
    """What the rule acts on."""

    CLASSES = "noise by class"
    DIFFICULTY = "noise by difficulty"
    OPEN = "two readings"
    NONE = "too little to go by"


@dataclass(frozen=True)
class Reading:
    """One explanation of the labels, and what it would mean; shares are of all rows."""

    name: str
    changes: float
    noise_rate: float

    def __str__(self) -> str:
        return f"{self.name}: {self.changes:.1%} to change, {self.noise_rate:.1%} wrong"


@dataclass(frozen=True)
class AutoRule:
    """A fitted rule, applied row by row.

    Attributes
    ----------
    ground : what it acts on.
    by_class, meter : the two fits.
    readings : the explanations that fit, the one in force first.
    interval : the share of wrong labels lies between these two.
    summary : plain values that describe the fit.
    max_flip_error : changes whose probability of being wrong reaches this are withheld.
    """

    ground: Ground
    by_class: PosteriorRule
    meter: Meter
    readings: tuple[Reading, ...]
    interval: tuple[float, float]
    summary: dict[str, Any]
    max_flip_error: float | None = None

    @property
    def T(self) -> Array | None:
        """P(given | true), where noise by class is what the rule acts on."""
        return self.by_class.T if self.ground is Ground.CLASSES else None

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision:
        """Suggest another label where it is more probable than the given one."""
        if self.ground is Ground.CLASSES:
            return self.by_class.decide(labels, pred_probs)
        wrong, other = np.empty(len(labels)), np.empty(len(labels), np.int64)
        step = max(1, _CHUNK_ELEMENTS // pred_probs.shape[1])
        for start in range(0, len(labels), step):
            part = slice(start, start + step)
            other[part], wrong[part] = self._suspicion(labels[part], pred_probs[part])
        flipped = wrong > 0.5
        suggested = np.where(flipped, other, labels)
        if self.ground is not Ground.DIFFICULTY:
            unknown = np.full(len(labels), np.nan)
            review = None if self.max_flip_error is None else np.zeros(len(labels), bool)
            return Decision(suggested, np.ones(len(labels)), flipped, unknown, review, wrong, other)
        ratio = np.where(flipped, (1 - wrong) / np.maximum(wrong, 1e-300), 1.0)
        confidence = np.where(flipped, wrong, 1 - wrong)
        if self.max_flip_error is None:
            return Decision(suggested, ratio, flipped, confidence, None, wrong, other)
        review = flipped & (1 - wrong >= self.max_flip_error)
        confidence = np.where(review, 1 - wrong, confidence)
        return Decision(suggested, ratio, flipped & ~review, confidence, review, wrong, other)

    def _suspicion(
        self, labels: NDArray[np.int64], f: NDArray[np.floating]
    ) -> tuple[NDArray[np.int64], Array]:
        """The best other class, and P(given label is wrong)."""
        other, odds = best_other(labels, f)
        if self.ground is Ground.DIFFICULTY:
            assert self.meter.line is not None
            return other, self.meter.line(odds)
        if self.ground is Ground.OPEN:  # the model as it is, and as calibrated to the labels
            own = self.by_class.clean(f)[labels, np.arange(len(labels))]
            odds = (odds + np.log((1 - own + 1e-12) / (own + 1e-12))) / 2
        return other, np.minimum(EVEN * sigmoid(odds), EVEN)


def fit_auto(
    labels: NDArray[np.int64],
    pred_probs: NDArray[np.floating],
    T: Array | None = None,
    max_flip_error: float | None = None,
) -> AutoRule:
    """Fit both explanations to the rows of a sample, and choose; a given `T` is believed."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # small matrices: threads wait for each other
        by_class = fit_posterior(labels, pred_probs, T, max_flip_error)
        rows = sample_rows(len(labels), _METER_ROWS)
        meter = read_meter(labels[rows], pred_probs[rows]) if T is None else Meter(False)
    warnings = input_warnings(labels, pred_probs)
    rule = _choose(by_class, meter, labels, pred_probs, stop=bool(warnings))
    summary = {
        **rule.summary,
        "interval": list(rule.interval),
        "readings": [str(reading) for reading in rule.readings],
        "warnings": list(warnings),
    }
    return replace(rule, summary=summary, max_flip_error=max_flip_error)


def _choose(
    by_class: PosteriorRule,
    meter: Meter,
    labels: NDArray[np.int64],
    f: NDArray[np.floating],
    *,
    stop: bool,
) -> AutoRule:
    """The reading that the data support; none where the inputs themselves are in doubt."""
    opposed = float((f.argmax(axis=1) != labels).mean())
    rate = by_class.summary["noise_rate"] or 0.0
    acts = by_class.active and not stop
    if not stop and meter.shown and meter.low > DENIED * (rate if acts else 0.0):
        return _by_difficulty(by_class, meter, labels, f, opposed)
    if acts:
        return _by_class(by_class, rate, labels, f)
    return _open(by_class, meter, opposed, len(labels), f.shape[1])


def _by_difficulty(
    by_class: PosteriorRule,
    meter: Meter,
    labels: NDArray[np.int64],
    f: NDArray[np.floating],
    opposed: float,
) -> AutoRule:
    rows = sample_rows(len(labels), _METER_ROWS)
    _, odds = best_other(labels[rows], f[rows])
    assert meter.line is not None
    wrong = meter.line(odds)
    rate = float(wrong.mean())
    hidden = float(np.where(odds < 0, wrong, 0).mean())
    changes = float((wrong > 0.5).mean())
    reading = Reading("people or rules erred, more on hard rows", changes, rate)
    note = (
        f"about {rate:.1%} of the labels look wrong, more of them where rows are hard: given "
        "labels are further from the model's first choice than its own errors are"
    )
    return AutoRule(
        Ground.DIFFICULTY,
        by_class,
        meter,
        (reading,),
        (meter.low, min(opposed + hidden, 1.0)),
        _summary(Ground.DIFFICULTY, rate, note),
    )


def _by_class(
    by_class: PosteriorRule, rate: float, labels: NDArray[np.int64], f: NDArray[np.floating]
) -> AutoRule:
    """The interval: chance, a tenth of the rate, and confident errors that pass for noise."""
    rows = sample_rows(len(labels), MIN_ROWS * 40)
    decided = by_class.decide(labels[rows], f[rows])
    doubt = float(1 - by_class.clean(f[rows]).max(axis=0).mean())
    margin = 2 * np.sqrt(rate * (1 - rate) / len(rows)) + 0.1 * rate + 0.25 * doubt
    low, high = max(rate - margin, 0.0), min(rate + margin, 1.0)
    reading = Reading("labels are wrong by class", float(decided.flipped.mean()), rate)
    note = by_class.summary["note"]
    summary = _summary(Ground.CLASSES, rate, note)
    return AutoRule(
        Ground.CLASSES, by_class, Meter(False), (reading,), (float(low), float(high)), summary
    )


def _open(by_class: PosteriorRule, meter: Meter, opposed: float, n: int, k: int) -> AutoRule:
    """Both readings, and nothing changed."""
    most = max(opposed, min(LEARNT_MOST * opposed, 0.5))
    interval = (0.0, float(min(max(most, 1 / n), 1.0)))
    readings = (
        Reading("the labels are right and the model errs", 0.0, 0.0),
        Reading("the model is right and the labels err", opposed, opposed),
    )
    why = by_class.summary["note"].removesuffix(": nothing is changed")
    ground = Ground.NONE if by_class.blind else Ground.OPEN
    note = (
        f"two readings fit: the labels are right and the model errs (0 changes), or the model is "
        f"right and the labels err ({opposed:.1%} to change); between 0% and {interval[1]:.1%} of "
        f"the labels may be wrong. Nothing is changed; about {ANSWERS} answers settle it"
    )
    if ground is Ground.NONE:
        note = f"{why}: nothing is changed"
    return AutoRule(ground, by_class, meter, readings, interval, _summary(ground, None, note))


def _summary(ground: Ground, rate: float | None, note: str) -> dict[str, Any]:
    return {"rule": "auto", "ground": ground.value, "noise_rate": rate, "note": note}

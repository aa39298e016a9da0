"""The automatic rule: which reading of the labels the data support, and what it says of each row.

A disagreement between model and label has two explanations, and each has its own evidence:

* **noise by class** (:mod:`adacorr.core.by_class`): P(given | true) is one matrix T for all rows.
  Its evidence is the likelihood of the given labels and what the surest rows of each class show.
* **noise by difficulty** (:mod:`adacorr.core.meter`): people and rules err more on hard rows. Its
  evidence is how far the given label is from the model's first choice.

The first is taken if it finds noise and the rows bear it out (:mod:`adacorr.core.plateau`); the
second if it shows more than twice the noise that the first one admits; neither where the model is
hardly better than guessing even in its surest rows. If neither shows any, both "the labels are
right" and "the model is right" fit: nothing is changed, both readings are stated, and a few answers
of a person settle it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adacorr.core.by_class import fit_by_class
from adacorr.core.inputs import input_warnings
from adacorr.core.lrt import Decision, decided
from adacorr.core.meter import PROOF, Array, Meter, best_other, log_odds, read_meter, sigmoid
from adacorr.core.plateau import read_plateau
from adacorr.core.readings import (
    Reading,
    both_readings,
    interval_by_class,
    interval_open,
    open_note,
    summary_of,
)
from adacorr.core.sampling import sample_rows
from adacorr.core.sparse import TopK, elements_per_row, first_choice, given_probs
from adacorr.core.sparse_by_class import fit_sparse_by_class

DENIED = 2.0  # the meter must show this many times the noise by class before it is believed instead
EVEN = 0.5  # odds of the two readings while nothing tells them apart
_METER_ROWS = 50_000
_INTERVAL_ROWS = 2_000
_CHUNK_ELEMENTS = 1 << 18


Probs: TypeAlias = NDArray[np.floating] | TopK  # of all classes, or of the most probable ones
ByClass: TypeAlias = Any  # ClassNoiseRule, or SparseClassNoiseRule for listed probabilities


class Ground(Enum):
    """What the rule acts on."""

    CLASSES = "noise by class"
    DIFFICULTY = "noise by difficulty"
    OPEN = "two readings"
    NONE = "too little to go by"


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
    by_class: ByClass
    meter: Meter
    readings: tuple[Reading, ...]
    interval: tuple[float, float]
    summary: dict[str, Any]
    max_flip_error: float | None = None

    @property
    def T(self) -> Array | None:
        """P(given | true), where noise by class is what the rule acts on."""
        return self.by_class.T if self.ground is Ground.CLASSES else None

    def decide(self, labels: NDArray[np.int64], pred_probs: Probs) -> Decision:
        """Suggest another label where it is more probable than the given one."""
        if self.ground is Ground.CLASSES:
            return self.by_class.decide(labels, pred_probs)
        n = len(labels)
        wrong, other, odds = np.empty(n), np.empty(n, np.int64), np.empty(n)
        step = max(1, _CHUNK_ELEMENTS // elements_per_row(pred_probs))
        for start in range(0, n, step):
            part = slice(start, start + step)
            other[part], odds[part], wrong[part] = self._suspicion(labels[part], pred_probs[part])
        limit = self.max_flip_error
        withheld = None if limit is None else 1 - wrong >= limit
        if self.ground is Ground.DIFFICULTY:
            return decided(labels, other, wrong > 0.5, 1 - wrong, wrong, wrong, withheld)
        unknown, kept = np.full(n, np.nan), np.zeros(n, bool)
        decision = decided(labels, other, kept, unknown, unknown, wrong, withheld)
        return replace(decision, ratio=np.exp(-np.maximum(odds, 0)))  # nothing acts on it

    def _suspicion(
        self, labels: NDArray[np.int64], f: Probs
    ) -> tuple[NDArray[np.int64], Array, Array]:
        """The best other class, its log odds against the given one, and P(given is wrong)."""
        other, odds = best_other(labels, f)
        if self.ground is Ground.DIFFICULTY:
            assert self.meter.line is not None
            return other, odds, self.meter.line(odds)
        doubt = log_odds(1 - given_probs(labels, f).astype(np.float64))
        if self.ground is Ground.OPEN:  # the model as it is, and as calibrated to the labels
            doubt = (doubt + log_odds(1 - self.by_class.own(labels, f))) / 2
        return other, odds, EVEN * sigmoid(doubt)


def fit_auto(
    labels: NDArray[np.int64],
    pred_probs: Probs,
    T: Array | None = None,
    max_flip_error: float | None = None,
) -> AutoRule:
    """Fit both explanations to the rows of a sample, and choose; a given `T` is believed."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # small matrices: threads wait for each other
        if isinstance(pred_probs, TopK):
            by_class = fit_sparse_by_class(labels, pred_probs, max_flip_error)
        else:
            by_class = fit_by_class(labels, pred_probs, T, max_flip_error)
        rows = sample_rows(len(labels), _METER_ROWS)
        plateau = read_plateau(labels[rows], pred_probs[rows])
        shows = T is None and plateau.clear
        meter = read_meter(labels[rows], pred_probs[rows]) if shows else Meter(False)
    borne_out = plateau.clear and plateau.flat and by_class.evidence > PROOF
    acts = by_class.active and (borne_out or T is not None)
    warnings = input_warnings(labels, pred_probs)
    rule = _choose(by_class, meter, labels, pred_probs, acts=acts, stop=bool(warnings))
    summary = {**rule.summary, "warnings": list(warnings)}
    return replace(rule, summary=summary, max_flip_error=max_flip_error)


def _choose(
    by_class: ByClass,
    meter: Meter,
    labels: NDArray[np.int64],
    f: Probs,
    *,
    acts: bool,
    stop: bool,
) -> AutoRule:
    """The reading that the data support; none where the inputs themselves are in doubt."""
    opposed = float((first_choice(f)[0] != labels).mean())
    rate = by_class.summary["noise_rate"] or 0.0
    acts = acts and not stop
    if not stop and meter.shown and meter.low > DENIED * (rate if acts else 0.0):
        return _by_difficulty(by_class, meter, labels, f, opposed)
    if acts:
        rule = _by_class(by_class, rate, labels, f, opposed)
        if meter.shown or rule.interval[0] > 0:
            return rule
    return _open(by_class, meter, opposed, len(labels))


def _by_difficulty(
    by_class: ByClass,
    meter: Meter,
    labels: NDArray[np.int64],
    f: Probs,
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
    interval = (meter.low, min(opposed + hidden, 1.0))
    summary = summary_of(Ground.DIFFICULTY.value, rate, note, interval, (reading,))
    return AutoRule(Ground.DIFFICULTY, by_class, meter, (reading,), interval, summary)


def _by_class(
    by_class: ByClass, rate: float, labels: NDArray[np.int64], f: Probs, opposed: float
) -> AutoRule:
    rows = sample_rows(len(labels), _INTERVAL_ROWS)
    decided = by_class.decide(labels[rows], f[rows])
    doubt = by_class.doubt(f[rows])
    reading = Reading("labels are wrong by class", float(decided.flipped.mean()), rate)
    interval = interval_by_class(rate, len(rows), doubt, opposed)
    found = by_class.summary["note"]
    note = (
        f"{found}, if errors depend on the class and not on the row; else up to {interval[1]:.0%}"
    )
    summary = summary_of(Ground.CLASSES.value, rate, note, interval, (reading,))
    return AutoRule(Ground.CLASSES, by_class, Meter(False), (reading,), interval, summary)


def _open(by_class: ByClass, meter: Meter, opposed: float, n: int) -> AutoRule:
    """Both readings, and nothing changed."""
    interval, readings = interval_open(opposed, n), both_readings(opposed)
    ground = Ground.NONE if by_class.blind else Ground.OPEN
    note = by_class.summary["note"] if by_class.blind else open_note(opposed, interval)
    summary = summary_of(ground.value, None, note, interval, readings)
    return AutoRule(ground, by_class, meter, readings, interval, summary)

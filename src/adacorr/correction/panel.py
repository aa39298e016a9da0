"""Labels of several annotators, (N, M) with gaps: a rule fitted once and applied row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.annotators import GAP, Panel, Quality, fit_panel
from adacorr.core.auto import fit_auto
from adacorr.core.inputs import input_warnings
from adacorr.core.lrt import Decision, decided
from adacorr.core.meter import Array, read_meter
from adacorr.core.readings import Reading
from adacorr.core.sampling import sample_rows, sample_size
from adacorr.core.validation import InputError, RowError, check_number
from adacorr.labels import Codec, encode_labels

DENIED = 1.25  # times the errors that agreement grants, and agreement is not believed
MARGIN = 0.25  # of the rate: what assumptions that hold roughly may cost
_CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Annotator:
    """One of several annotators, as the consensus sees them.

    Attributes
    ----------
    name : the column's name, or its number.
    n_labels : how many rows they labelled.
    quality, standard_error : share of their labels that is right, estimated.
    confusion : (K, K) P(they say j | true i).
    """

    name: Any
    n_labels: int
    quality: float
    standard_error: float
    confusion: Array

    def worst(self, classes: Sequence[str]) -> str:
        """The most frequent of this annotator's mistakes, in words.

        >>> person = Annotator("ann", 9, 0.8, 0.1, np.array([[0.7, 0.3], [0.1, 0.9]]))
        >>> person.worst(["cat", "dog"])
        'cat as dog (30%)'
        """
        errors = self.confusion * (1 - np.eye(len(self.confusion)))
        true, said = divmod(int(np.nan_to_num(errors).argmax()), len(errors))
        return f"{classes[true]} as {classes[said]} ({errors[true, said]:.0%})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in JSON and run directories."""
        return {
            "name": str(self.name),
            "labels": self.n_labels,
            "quality": self.quality,
            "standard_error": self.standard_error,
            "confusion": self.confusion.round(6).tolist(),
        }

    def __repr__(self) -> str:
        return (
            f"Annotator({self.name!r}, {self.n_labels:,} labels, "
            f"{self.quality:.1%} +- {self.standard_error:.1%} right)"
        )


def is_panel(labels: Any) -> bool:
    """Whether the labels have a column for each annotator.

    >>> is_panel([[0, 1], [1, None]]), is_panel([0, 1])
    (True, False)
    """
    if isinstance(labels, list | tuple):
        return bool(labels) and isinstance(labels[0], list | tuple | np.ndarray)
    return getattr(labels, "ndim", 1) == 2


def encode_panel(
    labels: ArrayLike,
    n_classes: int,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    order: Sequence[Any] | None = None,
) -> tuple[NDArray[np.int64], Codec]:
    """(N, M) codes with gaps (-1), and the codec of the labels that are there.

    A gap is a masked entry, None, NaN, an empty text, or -1 where -1 is no class.
    """
    minus = classes is None or "-1" not in map(str, classes)
    values, here = _table(labels, minus)
    empty = np.flatnonzero(~here.any(axis=1))
    if len(empty):
        raise InputError(
            f"labels: expected at least one label in each row, got none in row {empty[0]}"
        )
    rows, who = np.nonzero(here)
    present = values[here]
    if present.dtype == object:
        present = [int(v) if isinstance(v, float) and v.is_integer() else v for v in present]
    try:
        known = encode_labels(present, n_classes, classes, columns=columns, order=order)
    except RowError as error:
        at = error.row
        raise RowError("labels", error.expected, error.got, int(rows[at]), int(who[at])) from None
    codes = np.full(values.shape, GAP, np.int64)
    codes[rows, who] = known.codes
    return codes, known.codec


def _table(labels: ArrayLike, minus: bool) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """(N, M) labels, and where there is one; minus: -1 stands for none."""
    masked = np.ma.getmaskarray(labels) if isinstance(labels, np.ma.MaskedArray) else None
    try:
        values = np.asarray(labels) if hasattr(labels, "dtype") else np.asarray(labels, object)
    except ValueError:
        values = np.empty(0, object)
    if values.ndim != 2 or values.size == 0:
        got = f"shape {values.shape}" if values.size else "none, or rows of different length"
        raise InputError(
            f"labels: expected one per row, or (N, M) with one column per annotator, got {got}"
        )
    if values.dtype.kind in "iu":
        here = values != GAP if minus else np.ones(values.shape, bool)
    else:
        values = values.astype(object)
        gaps = [_is_gap(value, minus) for value in values.ravel().tolist()]
        here = ~np.array(gaps).reshape(values.shape)
    return values, here if masked is None else here & ~masked


def _is_gap(value: Any, minus: bool) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str):
        return not value.strip() or (minus and value == "-1")
    return value != value or (minus and value == GAP)


@dataclass(frozen=True)
class Judged:
    """What a panel says of some rows; the majority vote stands for the given label."""

    majority: NDArray[np.int64]
    decision: Decision
    quality: Quality


@dataclass(frozen=True)
class PanelRule:
    """Who is how good, and what a row with these labels is.

    Attributes
    ----------
    names : of the annotators.
    freed : frees the model's opinion of the noise that it has learnt; None where there is none.
    panel : quality of all, fitted.
    readings, interval, summary : as of :class:`~adacorr.core.auto.AutoRule`.
    max_flip_error : changes whose probability of being wrong reaches this are withheld.
    """

    names: tuple[Any, ...]
    freed: Any
    panel: Panel
    readings: tuple[Reading, ...] = ()
    interval: tuple[float, float] = (0.0, 1.0)
    summary: dict[str, Any] = field(default_factory=dict)
    max_flip_error: float | None = None

    def opinion(self, f: NDArray[np.floating]) -> NDArray[np.floating]:
        """The model without the noise by class that it has learnt."""
        return f if self.freed is None else self.freed.clean(f).T

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision:
        """The more probable label where it is not the majority's."""
        return self.judge(labels, pred_probs).decision

    def judge(self, labels: NDArray[np.int64], f: NDArray[np.floating]) -> Judged:
        """Majority vote, decision, and what the rows say of each annotator, in bounded memory."""
        step = max(1, _CHUNK_ELEMENTS // f.shape[1])
        parts = [slice(start, start + step) for start in range(0, len(labels), step)]
        judged = [self._judge(labels[part], f[part]) for part in parts]
        return Judged(
            np.concatenate([part.majority for part in judged]),
            Decision.joined([part.decision for part in judged]),
            reduce(Quality.merge, [part.quality for part in judged]),
        )

    def _judge(self, labels: NDArray[np.int64], f: NDArray[np.floating]) -> Judged:
        majority = majority_vote(labels, f)
        posterior = self.panel.posterior(labels, self.opinion(f))
        quality = Quality.of(labels, posterior)
        return Judged(majority, _decide(majority, posterior, self.max_flip_error), quality)

    def people(self, quality: Quality) -> tuple[Annotator, ...]:
        """The annotators, by what all rows say of them."""
        found = (quality.count, quality.share, quality.standard_error)
        columns = (self.names, *(values.tolist() for values in found), self.panel.T)
        return tuple(Annotator(*each) for each in zip(*columns, strict=True))


def fit_panel_rule(
    codes: NDArray[np.int64],
    f: NDArray[np.floating],
    names: Sequence[Any],
    max_flip_error: float | None = None,
) -> PanelRule:
    """Fit a rule for several annotators to the rows of a sample; see core/annotators.py.

    Parameters
    ----------
    codes : (N, M) class indices with gaps (-1; at least one label in each row).
    f : (N, K) out-of-sample probabilities.
    names : of the annotators.

    >>> codes, f = np.array([[0, 0, 1], [1, 1, -1]] * 60), np.array([[0.8, 0.2], [0.2, 0.8]] * 60)
    >>> rule = fit_panel_rule(codes, f, ["ann", "bob", "cy"])
    >>> [person.quality > 0.9 for person in rule.people(rule.judge(codes, f).quality)]
    [True, True, False]
    """
    if max_flip_error is not None:
        check_number(max_flip_error, "max_flip_error", above=0, at_most=1)
    rows = sample_rows(len(codes), sample_size(f.shape[1]))
    codes, f = codes[rows], f[rows]
    majority = majority_vote(codes, f)
    warnings = input_warnings(majority, f)
    plain = fit_auto(majority, f)
    freed = plain.by_class if plain.by_class.active else None
    opinion = f if freed is None else freed.clean(f).T
    rule = PanelRule(tuple(names), freed, fit_panel(codes, opinion), max_flip_error=max_flip_error)
    judged = rule.judge(codes, f)
    suspicion = judged.decision.suspicion
    assert suspicion is not None
    rate = float(suspicion.mean())
    opposed = float((opinion.argmax(axis=1) != majority).mean())
    margin = MARGIN * rate + 2 * np.sqrt(rate * (1 - rate) / len(majority))
    interval = float(max(rate - margin, 0.0)), float(min(max(rate + margin, opposed), 1.0))
    changes = float(judged.decision.flipped.mean())
    reading = Reading("annotators err each on their own", changes, rate)
    shared = _shared_errors(codes, f, judged.quality.share, names) if len(warnings) == 0 else ""
    summary = {
        "rule": "annotators",
        "noise_rate": None if shared else rate,
        "note": _note(rate, len(names), interval, bool(shared)),
        "interval": list(interval),
        "readings": [str(reading)],
        "warnings": [*warnings, *([shared] if shared else [])],
    }
    return replace(rule, readings=(reading,), interval=interval, summary=summary)


def _note(rate: float, people: int, interval: tuple[float, float], shared: bool) -> str:
    if shared:
        return (
            f"between {interval[0]:.1%} and {interval[1]:.1%} of the majority labels may be wrong: "
            "the annotators do not err independently"
        )
    return (
        f"about {rate:.1%} of the majority labels look wrong, by what {people} annotators and "
        "the model say together"
    )


def majority_vote(codes: NDArray[np.int64], f: NDArray[np.floating]) -> NDArray[np.int64]:
    """(N,) the most frequent label of each row; among equals the one that the model prefers.

    >>> majority_vote(np.array([[0, 1, 1], [0, 1, -1]]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    array([1, 1])
    """
    rows = np.arange(len(codes))
    votes = np.zeros(f.shape, np.float32)
    for column in codes.T:
        here = column != GAP
        votes[rows[here], column[here]] += 1
    return (votes + np.where(votes > 0, f / 2, 0)).argmax(axis=1)


def _decide(majority: NDArray[np.int64], p: Array, max_flip_error: float | None = None) -> Decision:
    """By the posterior `p` (N, K)."""
    rows = np.arange(len(majority))
    own = p[rows, majority]
    others = p.copy()
    others[rows, majority] = -1
    other = others.argmax(axis=1)
    best = p[rows, other]
    withheld = None if max_flip_error is None else 1 - best >= max_flip_error
    return decided(majority, other, best > own, own, best, 1 - own, withheld)


def alone(
    name: Any, labels: NDArray[np.int64], decision: Decision, k: int
) -> tuple[Annotator, ...]:
    """A single annotator, as far as the plain rule knows; NaN where it does not."""
    if decision.confidence is None or np.isnan(decision.confidence).any():
        return (Annotator(name, len(labels), np.nan, np.nan, np.full((k, k), np.nan)),)
    assert decision.suspicion is not None
    assert decision.other is not None
    posterior = np.zeros((len(labels), k))
    rows = np.arange(len(labels))
    posterior[rows, labels] = 1 - decision.suspicion
    posterior[rows, decision.other] += decision.suspicion
    counts = np.zeros((k, k))
    np.add.at(counts, labels, posterior)
    confusion = counts.T + np.eye(k) / k
    confusion /= confusion.sum(axis=1, keepdims=True)
    found = Quality.of(labels[:, None], posterior)
    share, error = float(found.share[0]), float(found.standard_error[0])
    return (Annotator(name, len(labels), share, error, confusion),)


def _shared_errors(
    codes: NDArray[np.int64], f: NDArray[np.floating], quality: Array, names: Sequence[Any]
) -> str:
    """Whether an annotator alone shows far more errors than the agreement of all grants them."""
    for m, column in enumerate(codes.T):
        rows = np.flatnonzero(column != GAP)
        rows = rows[sample_rows(len(rows), 50_000)]
        meter = read_meter(column[rows], f[rows])
        if meter.shown and meter.low > DENIED * (1 - quality[m]):
            return (
                f"annotator {names[m]}: at least {meter.low:.1%} of the labels look wrong to the "
                f"model, {1 - quality[m]:.1%} by agreement with the others: annotators share "
                "errors, or one column is made from another; correct that column on its own instead"
            )
    return ""

"""``correct`` for labels of several annotators: (N, M), gaps allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.annotators import GAP, Panel, fit_panel
from adacorr.core.auto import fit_auto
from adacorr.core.inputs import input_warnings
from adacorr.core.lrt import Decision
from adacorr.core.meter import Array, read_meter
from adacorr.core.readings import Reading
from adacorr.core.sampling import sample_rows, sample_size
from adacorr.core.validation import InputError, RowError, check_same_length
from adacorr.labels import Encoded, column_names, encode_labels

DENIED = 1.25  # times the errors that agreement grants, and agreement is not believed
MARGIN = 0.25  # of the rate: what assumptions that hold roughly may cost


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

    def __repr__(self) -> str:
        return (
            f"Annotator({self.name!r}, {self.n_labels:,} labels, "
            f"{self.quality:.1%} +- {self.standard_error:.1%} right)"
        )


@dataclass(frozen=True)
class Consensus:
    """What several annotators and the model say together; the majority vote is "given"."""

    given: Encoded
    decision: Decision
    annotators: tuple[Annotator, ...]
    readings: tuple[Reading, ...]
    interval: tuple[float, float]
    summary: dict[str, Any]


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
) -> tuple[NDArray[np.int64], Encoded]:
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
        known = encode_labels(present, n_classes, classes, columns=columns)
    except RowError as error:
        at = error.row
        raise RowError("labels", error.expected, error.got, int(rows[at]), int(who[at])) from None
    codes = np.full(values.shape, GAP, np.int64)
    codes[rows, who] = known.codes
    return codes, known


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


def consensus(
    labels: ArrayLike,
    f: NDArray[np.floating],
    *,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    max_flip_error: float | None = None,
) -> Consensus:
    """Who is how good, and what each row is; see :mod:`adacorr.core.annotators`.

    >>> labels = [["cat", "cat", "dog"], ["dog", "dog", None]] * 60
    >>> f = np.array([[0.8, 0.2], [0.2, 0.8]] * 60)
    >>> [person.quality > 0.9 for person in consensus(labels, f).annotators]
    [True, True, False]
    """
    codes, known = encode_panel(labels, f.shape[1], classes, columns)
    check_same_length(codes, f)
    names = column_names(labels) or list(range(codes.shape[1]))
    majority = majority_vote(codes, f)
    given = Encoded(majority, known.codec)
    warnings = input_warnings(majority, f)
    rows = sample_rows(len(codes), sample_size(f.shape[1]))
    plain = fit_auto(majority[rows], f[rows])
    if codes.shape[1] == 1:
        decision = plain.decide(majority, f)
        people = _alone(names[0], majority, decision, f.shape[1])
        return Consensus(given, decision, people, plain.readings, plain.interval, plain.summary)
    opinion = plain.by_class.clean(f).T if plain.by_class.active else f
    panel = fit_panel(codes, opinion)
    share, error, count = panel.quality(codes)
    people = tuple(
        Annotator(*each)
        for each in zip(names, count.tolist(), share.tolist(), error.tolist(), panel.T, strict=True)
    )
    decision = decide(majority, panel, max_flip_error)
    assert decision.suspicion is not None
    rate = float(decision.suspicion.mean())
    opposed = float((opinion.argmax(axis=1) != majority).mean())
    margin = MARGIN * rate + 2 * np.sqrt(rate * (1 - rate) / len(majority))
    interval = float(max(rate - margin, 0.0)), float(min(max(rate + margin, opposed), 1.0))
    reading = Reading("annotators err each on their own", float(decision.flipped.mean()), rate)
    shared = _shared_errors(codes, f, share, names) if len(warnings) == 0 else ""
    summary = {
        "rule": "annotators",
        "noise_rate": None if shared else rate,
        "note": _note(rate, len(people), interval, bool(shared)),
        "interval": list(interval),
        "warnings": [*warnings, *([shared] if shared else [])],
    }
    return Consensus(given, decision, people, (reading,), interval, summary)


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


def decide(
    majority: NDArray[np.int64], panel: Panel, max_flip_error: float | None = None
) -> Decision:
    """The more probable label where it is not the majority's."""
    rows, p = np.arange(len(majority)), panel.posterior
    own = p[rows, majority]
    others = p.copy()
    others[rows, majority] = -1
    other = others.argmax(axis=1)
    best = p[rows, other]
    flipped = best > own
    ratio = np.divide(own, best, out=np.ones(len(own)), where=flipped)
    confidence = np.where(flipped, best, own)
    suggested = np.where(flipped, other, majority)
    if max_flip_error is None:
        return Decision(suggested, ratio, flipped, confidence, None, 1 - own, other)
    review = flipped & (1 - best >= max_flip_error)
    confidence = np.where(review, own, confidence)
    return Decision(suggested, ratio, flipped & ~review, confidence, review, 1 - own, other)


def _alone(
    name: Any, majority: NDArray[np.int64], decision: Decision, k: int
) -> tuple[Annotator, ...]:
    """A single annotator, as far as the plain rule knows; NaN where it does not."""
    if decision.confidence is None or np.isnan(decision.confidence).any():
        return (Annotator(name, len(majority), np.nan, np.nan, np.full((k, k), np.nan)),)
    assert decision.suspicion is not None
    assert decision.other is not None
    right = 1 - decision.suspicion
    posterior = np.zeros((len(majority), k))
    rows = np.arange(len(majority))
    posterior[rows, majority] = right
    posterior[rows, decision.other] += decision.suspicion
    counts = np.zeros((k, k))
    np.add.at(counts, majority, posterior)
    confusion = counts.T + np.eye(k) / k
    confusion /= confusion.sum(axis=1, keepdims=True)
    panel = Panel(posterior, confusion[None], 1.0)
    share, error, count = panel.quality(majority[:, None])
    return (Annotator(name, int(count[0]), float(share[0]), float(error[0]), confusion),)


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

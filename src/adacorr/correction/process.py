"""The second pass: a fitted rule applied to one file, giving new columns and counts.

:func:`correct_source` is all that an engine has to run per file; counts of files merge.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.annotators import Quality
from adacorr.core.answers import DECIDERS, Answers
from adacorr.core.certify import Tally, tallied
from adacorr.core.lrt import Decision, Rule
from adacorr.core.readings import WrongChanges
from adacorr.core.sparse import DENSE_CLASSES, TopK, TopKRule, check_largest, complete
from adacorr.core.validation import RowError
from adacorr.correction.arrays import with_answers
from adacorr.correction.pairs import PairCounts
from adacorr.correction.panel import PanelRule
from adacorr.labels import Codec
from adacorr.tables.arrow import compute, from_numpy
from adacorr.tables.decode import Place, decode_models, pooled
from adacorr.tables.labels import (
    corrected_column,
    encode_given,
    given_labels,
    label_column,
    with_gaps,
)
from adacorr.tables.layout import Layout
from adacorr.tables.pipeline import ahead
from adacorr.tables.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa


SUSPECTS = 5  # named in a summary; the column of suspicion ranks all rows


@dataclass(frozen=True)
class Plan:
    """All that is decided before the second pass; the same for every file."""

    layout: Layout
    codec: Codec
    rule: Rule | TopKRule | PanelRule
    normalize: bool
    batch_rows: int
    typed: bool = False  # text columns become numbers: a CSV that is written as parquet
    answers: Answers | None = None  # of people; None: nobody was asked
    seed: int = 0  # of the order in which rows are asked

    @property
    def lists_only(self) -> bool:
        """Rows are never made dense: top-k probabilities of many classes."""
        return self.layout.top_k and len(self.codec.names) > DENSE_CLASSES

    def complete(self, f: NDArray[np.floating] | TopK) -> Any:
        """What the rule takes; top-k rows are checked against K, which is known by now."""
        k = len(self.codec.names)
        if isinstance(f, TopK):
            check_largest(replace(f, n_classes=k))
        return complete(f, k)


@dataclass(frozen=True)
class Suspected:
    """A row whose label is in doubt; class indices."""

    suspicion: float
    row: int
    given: int
    other: int

    def moved(self, rows: int) -> Suspected:
        """The same row, counted from that many rows earlier."""
        return replace(self, row=self.row + rows)


@dataclass(frozen=True)
class Stats:
    """Counts over rows; of two parts they merge into those of the whole.

    Attributes
    ----------
    rows, flipped, review : how many in all, changed, and withheld for review.
    pairs : how many labels changed from which class to which.
    suspects : the most doubtful rows, most doubtful first.
    wrong, expected_missed_errors : sums of the rule's own doubt; None without one.
    tally : what answers show of the rows; None where nobody was asked.
    quality : how many labels of each annotator are right; None where there is one.
    """

    rows: int = 0
    flipped: int = 0
    review: int = 0
    pairs: PairCounts = field(default_factory=PairCounts)
    suspects: tuple[Suspected, ...] = ()
    wrong: WrongChanges | None = None
    expected_missed_errors: float | None = None
    tally: Tally | None = None
    quality: Quality | None = None

    def merge(self, other: Stats) -> Stats:
        return Stats(
            self.rows + other.rows,
            self.flipped + other.flipped,
            self.review + other.review,
            self.pairs.merge(other.pairs),
            most_doubtful([*self.suspects, *(one.moved(self.rows) for one in other.suspects)]),
            _merged(self.wrong, other.wrong),
            _add(self.expected_missed_errors, other.expected_missed_errors),
            _merged(self.tally, other.tally),
            _merged(self.quality, other.quality),
        )

    @property
    def expected_wrong_flips(self) -> float | None:
        return None if self.wrong is None else self.wrong.count

    @property
    def expected_wrong_flips_interval(self) -> tuple[float, float] | None:
        return None if self.wrong is None else self.wrong.interval(self.flipped)

    @classmethod
    def of(
        cls,
        codes: NDArray[np.int64],
        decision: Decision,
        n_classes: int,
        summary: Mapping[str, Any],
        tally: Tally | None = None,
        quality: Quality | None = None,
    ) -> Stats:
        """Of some rows; `summary` is what the rule says of itself."""
        flipped = decision.flipped
        pairs = PairCounts.of(codes[flipped] * n_classes + decision.suggested[flipped])
        wrong = missed = None
        if decision.confidence is not None and not np.isnan(decision.confidence).any():
            missed = float((1 - decision.confidence[~flipped]).sum())
            rate, ends = summary.get("noise_rate"), summary.get("interval")
            ends = (0.0, 1.0) if rate is None or ends is None else ends
            wrong = WrongChanges.of(decision.confidence[flipped], rate or 0.5, ends)
        review = 0 if decision.review is None else int(decision.review.sum())
        suspects = most_doubtful(_suspected(codes, decision))
        return cls(
            len(codes),
            int(flipped.sum()),
            review,
            pairs,
            suspects,
            wrong,
            missed,
            tally,
            quality,
        )


def _suspected(codes: NDArray[np.int64], decision: Decision) -> list[Suspected]:
    doubt, other = decision.suspicion, decision.other
    if doubt is None or other is None:
        return []
    few = min(SUSPECTS, len(doubt))
    least = np.partition(doubt, len(doubt) - few)[len(doubt) - few] if few else 0
    rows = np.flatnonzero(doubt >= least)[: 10 * SUSPECTS]
    rows = rows[np.argsort(-doubt[rows], kind="stable")][:SUSPECTS]
    return [Suspected(float(doubt[i]), int(i), int(codes[i]), int(other[i])) for i in rows]


def most_doubtful(found: Sequence[Suspected]) -> tuple[Suspected, ...]:
    """The first few by doubt; of ties the earlier rows."""
    return tuple(sorted(found, key=lambda one: (-one.suspicion, one.row))[:SUSPECTS])


def _merged(a: Any, b: Any) -> Any:
    """Of two parts that merge; None is nothing."""
    return b if a is None else a if b is None else a.merge(b)


def _add(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


@dataclass(frozen=True)
class Corrected:
    """One batch after the rule: the table to write, and the arrays behind it.

    `codes` are the given labels, of several annotators the majority.
    """

    table: pa.RecordBatch
    codes: NDArray[np.int64]
    pred_probs: NDArray[np.floating] | TopK
    decision: Decision
    tally: Tally | None = None
    quality: Quality | None = None
    said: NDArray[np.int64] | None = None  # by each annotator, where there are several


def correct_source(
    source: Source, plan: Plan, write: Callable[[Corrected], None], start: int = 0
) -> Generator[Stats]:
    """Correct one file batch by batch, handing each batch to `write`; yields its counts.

    `start` is the number of its first row in the whole input.
    """
    row = 0
    for batch in ahead(source.batches(None, plan.batch_rows)):
        if batch.num_rows:
            place = Place(source, plan.layout, row)
            done = correct_batch(batch, place, plan, source.kept, start + row)
            write(done)
            row += batch.num_rows
            k = len(plan.codec.names)
            about = plan.rule.summary
            yield Stats.of(done.codes, done.decision, k, about, done.tally, done.quality)


def correct_batch(
    batch: pa.RecordBatch, place: Place, plan: Plan, kept: Sequence[str], first_row: int = 0
) -> Corrected:
    """The batch with its new columns; rows were checked by the survey, labels are again."""
    import pyarrow as pa

    read = decode_models(batch, place, check=False, normalize=plan.normalize)
    codes = encode_given(plan.codec, given_labels(batch, place), place)
    try:
        f = plan.complete(pooled(read))
        said = codes if plan.layout.annotators else None
        codes, decision, quality = _judged(plan.rule, codes, f)
    except RowError as error:
        raise place.of(error) from None
    tally = None
    if plan.answers is not None:
        tally = tallied(codes, f, decision, plan.answers, plan.seed, first_row)
        decision = with_answers(decision, codes, plan.answers, first_row)
    columns = {name: batch.column(name) for name in kept}
    if plan.typed:
        columns |= _typed(batch, place, read, plan)
    columns |= _new_columns(columns.get(plan.layout.label), batch, plan, codes, decision)
    by = (plan.answers or Answers.of([], [])).deciders(decision.flipped, first_row)
    columns["adacorr_decided_by"] = pa.array(DECIDERS).take(from_numpy(by))
    return Corrected(pa.record_batch(columns), codes, f, decision, tally, quality, said)


def _judged(
    rule: Rule | TopKRule | PanelRule, codes: NDArray[np.int64], f: Any
) -> tuple[NDArray[np.int64], Decision, Quality | None]:
    """The given label of each row (of several annotators the majority), and what a rule says."""
    if isinstance(rule, PanelRule):
        judged = rule.judge(codes, f)
        return judged.majority, judged.decision, judged.quality
    return codes, rule.decide(codes, f), None


def _new_columns(
    labels: pa.Array | None,
    batch: pa.RecordBatch,
    plan: Plan,
    codes: NDArray[np.int64],
    decision: Decision,
) -> dict[str, pa.Array]:
    given: Any = batch.column(plan.layout.label) if labels is None else labels
    new: dict[str, pa.Array] = {}
    kind = _panel_type(given.type) if plan.layout.annotators else given.type
    if plan.layout.annotators:
        final = np.where(decision.flipped, decision.suggested, codes)
        new["adacorr_majority"] = label_column(plan.codec, kind, codes)
        new["adacorr_label"] = label_column(plan.codec, kind, final)
    else:
        new["adacorr_label"] = corrected_column(
            plan.codec, given, decision.suggested, decision.flipped
        )
    new["adacorr_ratio"] = from_numpy(decision.ratio)
    new["adacorr_flipped"] = from_numpy(decision.flipped)
    if decision.confidence is not None:
        new["adacorr_confidence"] = from_numpy(decision.confidence)
    if decision.suspicion is not None:
        new["adacorr_suspicion"] = from_numpy(decision.suspicion)
    if decision.other is not None:
        new["adacorr_alternative"] = label_column(plan.codec, kind, decision.other)
    if decision.review is not None:
        new["adacorr_review"] = from_numpy(decision.review)
    return new


def _panel_type(kind: pa.DataType) -> pa.DataType:
    """Of the agreed labels: integers with gaps may come as floats, and gaps alone as nothing."""
    import pyarrow as pa

    return pa.int64() if pa.types.is_floating(kind) or pa.types.is_null(kind) else kind


def _typed(
    batch: pa.RecordBatch, place: Place, models: Sequence[NDArray[np.floating] | TopK], plan: Plan
) -> dict[str, pa.Array]:
    """Labels and probabilities that were text, as the types they stand for."""
    import pyarrow as pa

    pc = compute()
    layout, out = plan.layout, {}
    for name in layout.labels if plan.codec.integers else ():
        column = batch.column(name)
        if layout.annotators:
            column = with_gaps(column, place.in_column(name))
        out[name] = pc.cast(column, pa.int64())
    for f, columns in zip(models, (model.columns for model in layout.models), strict=True):
        if isinstance(f, TopK):
            ends = from_numpy(np.concatenate([[0], f.lengths.cumsum()]).astype(np.int32))
            for name, entries in zip(columns, (f.indices, f.values), strict=True):
                out[name] = pa.ListArray.from_arrays(ends, from_numpy(entries[f.indices >= 0]))
        elif layout.is_list:
            flat = from_numpy(f.ravel())
            out[columns[0]] = pa.FixedSizeListArray.from_arrays(flat, f.shape[1])
        else:
            out |= {name: from_numpy(f[:, j]) for j, name in enumerate(columns)}
    return out


def output_fields(source: Source, plan: Plan) -> list[tuple[str, pa.DataType]]:
    """Names and types of the output, known before the first row (a file may have none)."""
    import pyarrow as pa

    k, m = len(plan.codec.names), len(plan.layout.annotators)
    row: Any = np.full((1, k), 1 / k)
    if plan.layout.top_k:
        row = TopK(np.zeros((1, 1), np.int32), np.ones((1, 1)), k)
    codes = np.zeros((1, m) if m else 1, np.int64)
    _, decision, _ = _judged(plan.rule, codes, plan.complete(row))
    types = {name: source.types[name] for name in source.kept}
    empty = pa.record_batch({name: pa.array([], kind) for name, kind in types.items()})
    columns: dict[str, pa.Array] = {}
    if plan.typed:
        models = [row[:0]] * len(plan.layout.models)
        columns = _typed(empty, Place(source, plan.layout), models, plan)
    none = np.zeros(1, bool)
    labels = columns.get(plan.layout.label)
    columns |= _new_columns(labels, empty, plan, np.zeros(0, np.int64), decision.where(none))
    columns["adacorr_decided_by"] = pa.array([], pa.string())
    return list((types | {name: column.type for name, column in columns.items()}).items())

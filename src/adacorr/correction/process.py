"""The second pass: a fitted rule applied to one file, giving new columns and counts.

:func:`correct_source` is all that an engine has to run per file; counts of files merge.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers
from adacorr.core.certify import Tally, tallied
from adacorr.core.lrt import Decision, Rule
from adacorr.core.sparse import DENSE_CLASSES, TopK, TopKRule, check_largest, complete
from adacorr.core.validation import RowError
from adacorr.correction.arrays import with_answers
from adacorr.correction.pairs import PairCounts
from adacorr.labels import Codec
from adacorr.tables.arrow import compute, from_numpy
from adacorr.tables.decode import Place, decode_probs
from adacorr.tables.labels import corrected_column, encode_column, label_type
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
    rule: Rule | TopKRule
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
    expected_wrong_flips, expected_missed_errors : sums of the rule's own doubt; None without one.
    tally : what answers show of the rows; None where nobody was asked.
    """

    rows: int = 0
    flipped: int = 0
    review: int = 0
    pairs: PairCounts = field(default_factory=PairCounts)
    suspects: tuple[Suspected, ...] = ()
    expected_wrong_flips: float | None = None
    expected_missed_errors: float | None = None
    tally: Tally | None = None

    def merge(self, other: Stats) -> Stats:
        return Stats(
            self.rows + other.rows,
            self.flipped + other.flipped,
            self.review + other.review,
            self.pairs.merge(other.pairs),
            most_doubtful([*self.suspects, *(one.moved(self.rows) for one in other.suspects)]),
            _add(self.expected_wrong_flips, other.expected_wrong_flips),
            _add(self.expected_missed_errors, other.expected_missed_errors),
            _merged(self.tally, other.tally),
        )

    @classmethod
    def of(
        cls,
        codes: NDArray[np.int64],
        decision: Decision,
        n_classes: int,
        tally: Tally | None = None,
    ) -> Stats:
        flipped = decision.flipped
        pairs = PairCounts.of(codes[flipped] * n_classes + decision.suggested[flipped])
        wrong = missed = None
        if decision.confidence is not None and not np.isnan(decision.confidence).any():
            doubt = 1 - decision.confidence
            wrong, missed = float(doubt[flipped].sum()), float(doubt[~flipped].sum())
        review = 0 if decision.review is None else int(decision.review.sum())
        suspects = most_doubtful(_suspected(codes, decision))
        return cls(len(codes), int(flipped.sum()), review, pairs, suspects, wrong, missed, tally)


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


def _merged(a: Tally | None, b: Tally | None) -> Tally | None:
    return b if a is None else a if b is None else a.merge(b)


def _add(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


@dataclass(frozen=True)
class Corrected:
    """One batch after the rule: the table to write, and the arrays behind it."""

    table: pa.RecordBatch
    codes: NDArray[np.int64]
    pred_probs: NDArray[np.floating] | TopK
    decision: Decision
    tally: Tally | None = None


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
            yield Stats.of(done.codes, done.decision, len(plan.codec.names), done.tally)


def correct_batch(
    batch: pa.RecordBatch, place: Place, plan: Plan, kept: Sequence[str], first_row: int = 0
) -> Corrected:
    """The batch with its new columns; rows were checked by the survey, labels are again."""
    import pyarrow as pa

    read = decode_probs(batch, place, check=False, normalize=plan.normalize)
    labels = batch.column(plan.layout.label)
    codes = encode_column(plan.codec, labels, place)
    try:
        f = plan.complete(read)
        decision = plan.rule.decide(codes, f)
    except RowError as error:
        raise place.of(error) from None
    tally = None
    if plan.answers is not None:
        tally = tallied(codes, f, decision, plan.answers, plan.seed, first_row)
        decision = with_answers(decision, codes, plan.answers, first_row)
    columns = {name: batch.column(name) for name in kept}
    if plan.typed:
        columns |= _typed(columns, read, plan)
        labels = columns[plan.layout.label]
    new = corrected_column(plan.codec, labels, decision.suggested, decision.flipped)
    columns["adacorr_label"] = new
    columns["adacorr_ratio"] = from_numpy(decision.ratio)
    columns["adacorr_flipped"] = from_numpy(decision.flipped)
    if decision.confidence is not None:
        columns["adacorr_confidence"] = from_numpy(decision.confidence)
    if decision.suspicion is not None:
        columns["adacorr_suspicion"] = from_numpy(decision.suspicion)
    if decision.review is not None:
        columns["adacorr_review"] = from_numpy(decision.review)
    return Corrected(pa.record_batch(columns), codes, f, decision, tally)


def _typed(
    columns: Mapping[str, pa.Array], f: NDArray[np.floating] | TopK, plan: Plan
) -> dict[str, pa.Array]:
    """Labels and probabilities that were text, as the types they stand for."""
    import pyarrow as pa

    pc = compute()
    layout, out = plan.layout, {}
    if plan.codec.integers:
        out[layout.label] = pc.cast(columns[layout.label], pa.int64())
    if isinstance(f, TopK):
        ends = from_numpy(np.concatenate([[0], f.lengths.cumsum()]).astype(np.int32))
        for name, entries in zip(layout.columns, (f.indices, f.values), strict=True):
            flat = from_numpy(entries[f.indices >= 0])
            out[name] = pa.ListArray.from_arrays(ends, flat)
    elif layout.is_list:
        out[layout.columns[0]] = pa.FixedSizeListArray.from_arrays(
            from_numpy(f.ravel()), f.shape[1]
        )
    else:
        out |= {name: from_numpy(f[:, j]) for j, name in enumerate(layout.columns)}
    return out


def output_fields(source: Source, plan: Plan) -> list[tuple[str, pa.DataType]]:
    """Names and types of the output, known before the first row (a file may have none)."""
    import pyarrow as pa

    k = len(plan.codec.names)
    row: Any = np.full((1, k), 1 / k)
    if plan.layout.top_k:
        row = TopK(np.zeros((1, 1), np.int32), np.ones((1, 1)), k)
    probe = plan.rule.decide(np.zeros(1, np.int64), plan.complete(row))
    types = {name: source.types[name] for name in source.kept}
    if plan.typed:
        empty = {name: pa.array([], kind) for name, kind in types.items()}
        types |= {n: a.type for n, a in _typed(empty, row[:0], plan).items()}
    types["adacorr_label"] = label_type(plan.codec, types[plan.layout.label])
    types["adacorr_ratio"], types["adacorr_flipped"] = pa.float64(), pa.bool_()
    if probe.confidence is not None:
        types["adacorr_confidence"] = pa.float64()
    if probe.suspicion is not None:
        types["adacorr_suspicion"] = pa.float64()
    if probe.review is not None:
        types["adacorr_review"] = pa.bool_()
    return list(types.items())

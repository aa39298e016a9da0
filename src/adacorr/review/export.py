"""The final labels: accepted changes, rejected ones put back, other classes as chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers
from adacorr.core.validation import InputError
from adacorr.files import atomic
from adacorr.review.answers import AnswerLog, Said, settled
from adacorr.review.store import ACCEPT, OPEN, OTHER, REJECT, SKIP, Store
from adacorr.runs.reader import RunData
from adacorr.tables import parquet

if TYPE_CHECKING:
    import pyarrow as pa

Unreviewed = Literal["keep", "accept"]
APPLIED = "final-labels.parquet"
"""In the run: what the page's button wrote, a label for each row."""
FORMATS = ("parquet", "csv")
_WORDS = np.array(["unreviewed", "accepted", "rejected", "other", "unreviewed"])


def export(data: RunData, store: Store, path: Path, unreviewed: Unreviewed = "keep") -> Path:
    """Write every row of the run with its final label to a ``.parquet`` or ``.csv`` file.

    Columns: ``index`` (the row number in the source, whatever part of it the run took), ``id``
    where the source names its rows, ``given`` and ``label`` (class names, before and final),
    ``given_index`` and ``label_index``, ``decision`` (unchanged, accepted, rejected, other,
    unreviewed, answered, rule) and ``reviewer``. Where the page's button has applied a rule, its
    labels stand in all rows that nobody decided or answered. The run itself is not touched.

    Parameters
    ----------
    unreviewed : where no rule was applied: what becomes of changes that nobody decided (skipped
        ones too): "keep" the given label, or "accept" the change. Withheld ones keep it either
        way: the run did not apply them, so only a person's acceptance does.
    """
    kind = path.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise InputError(f"export: expected a name that ends in .parquet or .csv, got {path.name}")
    if path.parent.resolve() == data.run.path.resolve() and path.name == "labels.parquet":
        raise InputError(
            "export: expected a name other than the run's own labels.parquet, which keeps the "
            "given labels"
        )
    source = data.section("data").get("source")
    if isinstance(source, str) and path.resolve() == Path(source).resolve():
        raise InputError(f"export: expected a name other than the run's own data, got {path}")
    store.refresh()
    with atomic(path) as temporary:
        _write(temporary, kind, final_labels(data, store, unreviewed))
    return path


def decisions(store: Store) -> dict[str, int]:
    """How many proposed changes were accepted, rejected, given another class, not decided."""
    state = store.current()  # a suspect that nobody decided is no change that waits for anyone
    words = _WORDS[state[~store.flips.suspect | (state != OPEN) & (state != SKIP)]]
    return {word: int((words == word).sum()) for word in dict.fromkeys([*_WORDS[1:], _WORDS[0]])}


def final_labels(
    data: RunData, store: Store, unreviewed: Unreviewed = "keep"
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`export` in batches; memory does not grow with the run."""
    import pyarrow as pa

    names = pa.array(data.run.class_names(), pa.string())
    who, answers = store.reviewers(), AnsweredRows.of(AnswerLog(store, data.n).standing())
    flips, state, chosen = store.flips, store.state.copy(), store.label.copy()
    applied = applied_labels(data)
    for batch in data.batches(texts=True):
        rule = batch.given if applied is None else applied[batch.start :][: len(batch.given)]
        label = rule.copy()
        decision = np.where(label != batch.given, "rule", np.array("unchanged", dtype="U10"))
        first, last = np.searchsorted(flips.row, (batch.start, batch.start + len(label)))
        at, status = flips.row[first:last] - batch.start, state[first:last]
        undecided = (status != ACCEPT) & (status != REJECT) & (status != OTHER)
        made = ~flips.withheld[first:last] & ~flips.suspect[first:last]
        by_policy = undecided & made & (unreviewed == "accept")
        accepted = (status == ACCEPT) | by_policy
        proposed = np.where(accepted, flips.proposed[first:last], batch.given[at])
        decided = np.where(status == OTHER, chosen[first:last], proposed)
        left = undecided & (flips.suspect[first:last] | (applied is not None))
        label[at] = np.where(left, rule[at], decided)
        decision[at] = np.where(left, decision[at], _WORDS[status])
        people = np.full(len(label), None, dtype=object)
        people[at] = [who.get(flip) for flip in range(first, last)]
        for row, (answer, person) in answers.between(batch.start, len(label)):
            if people[row] is None:  # a decision, which was made with all in view, stands
                label[row], decision[row], people[row] = answer, "answered", person
        yield pa.RecordBatch.from_pydict(
            {
                "index": batch.index,
                **({} if batch.id is None else {"id": pa.array(batch.id, pa.string())}),
                "given": names.take(pa.array(batch.given)),
                "label": names.take(pa.array(label)),
                "given_index": batch.given,
                "label_index": label,
                "decision": pa.array(decision),
                "reviewer": pa.array(people, pa.string()),
            }
        )


def applied_labels(data: RunData) -> NDArray[np.int64] | None:
    """What the rule says of each row, as the page applied it; None where it did not."""
    path = data.run.file(APPLIED)
    if path.is_symlink() or not path.is_file():
        return None
    found = parquet.read(path)
    wanted = ("given_index", "label_index")
    if found.num_rows != data.n or not set(wanted) <= set(found.column_names):
        raise InputError(
            f"{path}: expected labels of the run's {data.n:,} rows, got {found.num_rows:,} rows "
            f"with columns {', '.join(found.column_names)}"
        )
    given, labels = (found[name].to_numpy().astype(np.int64) for name in wanted)
    ours = np.concatenate([batch.given for batch in data.batches()])
    if not ((labels >= 0) & (labels < data.n_classes)).all() or (given != ours).any():
        raise InputError(f"{path}: expected labels of this run, got others; apply the rule again")
    return labels


@dataclass(frozen=True)
class AnsweredRows:
    """Rows whose label people named when asked: row -> (class index, who)."""

    rows: dict[int, tuple[int, str]]

    @classmethod
    def of(cls, said: Sequence[Said]) -> AnsweredRows:
        people: dict[int, dict[str, None]] = {}
        for one in said:
            people.setdefault(one.row, {})[one.reviewer] = None
        labels = {row: label for row, label in settled(said).items() if label >= 0}
        return cls({row: (label, ", ".join(people[row])) for row, label in labels.items()})

    def between(self, start: int, count: int) -> list[tuple[int, tuple[int, str]]]:
        """Those among `count` rows, counted from `start`."""
        return [(row - start, v) for row, v in self.rows.items() if 0 <= row - start < count]


def write_applied(data: RunData, path: Path, labels: NDArray[np.int64], answers: Answers) -> Path:
    """Write every row with the label that the rule and the answers give it; columns as above.

    ``decision`` is "answered" where people settled the label, "rule" where the rule changed it.
    """
    import pyarrow as pa

    names = pa.array(data.run.class_names(), pa.string())
    known = np.zeros(data.n, dtype=bool)
    known[answers.definite.rows] = True

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in data.batches(texts=True):
            rows = slice(batch.start, batch.start + len(batch.given))
            new = labels[rows]
            said = np.where(known[rows], "answered", "rule")
            yield pa.RecordBatch.from_pydict(
                {
                    "index": batch.index,
                    **({} if batch.id is None else {"id": pa.array(batch.id, pa.string())}),
                    "given": names.take(pa.array(batch.given)),
                    "label": names.take(pa.array(new)),
                    "given_index": batch.given,
                    "label_index": new,
                    "decision": pa.array(
                        np.where(known[rows] | (new != batch.given), said, "unchanged")
                    ),
                }
            )

    with atomic(path) as temporary:
        _write(temporary, path.suffix.lstrip("."), batches())
    return path


def _write(path: Path, kind: str, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow.csv as pc

    first = next(batches)  # a run has at least one row
    writer = (
        parquet.writer(path, first.schema)
        if kind == "parquet"
        else pc.CSVWriter(path, first.schema)
    )
    with writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)

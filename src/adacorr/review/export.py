"""The final labels: accepted changes, rejected ones put back, other classes as chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from adacorr.core.validation import InputError
from adacorr.files import atomic
from adacorr.review.store import ACCEPT, OTHER, REJECT, Store
from adacorr.runs.reader import RunData
from adacorr.tables import parquet

if TYPE_CHECKING:
    import pyarrow as pa

Unreviewed = Literal["keep", "accept"]
FORMATS = ("parquet", "csv")
_WORDS = np.array(["unreviewed", "accepted", "rejected", "other", "unreviewed"])


def export(data: RunData, store: Store, path: Path, unreviewed: Unreviewed = "keep") -> Path:
    """Write every row of the run with its final label to a ``.parquet`` or ``.csv`` file.

    Columns: ``index`` (the row number in the source, whatever part of it the run took), ``id``
    where the source names its rows, ``given`` and ``label`` (class names, before and final),
    ``given_index`` and ``label_index``, ``decision`` (unchanged, accepted, rejected, other,
    unreviewed) and ``reviewer``. The run itself is not touched.

    Parameters
    ----------
    unreviewed : what becomes of changes that nobody decided (skipped ones too): "keep" the given
        label, or "accept" the change. Withheld ones keep it either way: the run did not apply
        them, so only a person's acceptance does.
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
    words = _WORDS[store.current()]
    return {word: int((words == word).sum()) for word in dict.fromkeys([*_WORDS[1:], _WORDS[0]])}


def final_labels(
    data: RunData, store: Store, unreviewed: Unreviewed = "keep"
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`export` in batches; memory does not grow with the run."""
    import pyarrow as pa

    names = pa.array(data.run.class_names(), pa.string())
    who = store.reviewers()
    flips, state, chosen = store.flips, store.state.copy(), store.label.copy()
    for batch in data.batches(texts=True):
        label = batch.given.copy()
        decision = np.full(len(label), "unchanged", dtype="U10")
        first, last = np.searchsorted(flips.row, (batch.start, batch.start + len(label)))
        at, status = flips.row[first:last] - batch.start, state[first:last]
        undecided = (status != ACCEPT) & (status != REJECT) & (status != OTHER)
        by_policy = undecided & ~flips.withheld[first:last] & (unreviewed == "accept")
        accepted = (status == ACCEPT) | by_policy
        proposed = np.where(accepted, flips.proposed[first:last], batch.given[at])
        label[at] = np.where(status == OTHER, chosen[first:last], proposed)
        decision[at] = _WORDS[status]
        people = np.full(len(label), None, dtype=object)
        people[at] = [who.get(flip) for flip in range(first, last)]
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

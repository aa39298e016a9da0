"""A finished run for other tools: Label Studio, cleanlab, TensorBoard."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adacorr.core.validation import InputError
from adacorr.data import open_source
from adacorr.files import atomic
from adacorr.runs.directory import Run
from adacorr.runs.reader import Batch, RunData
from adacorr.runs.samples import Items

LABEL_STUDIO_COLUMNS = (
    "index",
    "sample",
    "given",
    "suggested",
    "label",
    "changed",
    "ratio",
    "confidence",
)
CLEANLAB_COLUMNS = ("index", "is_label_issue", "label_quality", "given_label", "predicted_label")
"""``id`` follows where the source names its rows."""


def write_label_studio(run: Run, path: Path, *, changed_only: bool = False) -> int:
    """Write the decisions as a CSV that Label Studio imports, one task per row; return the rows.

    ``index`` is the row number in the source, ``sample`` what the source calls the row (an id, a
    file name inside an image folder), else its number. `changed_only` leaves the changed labels and
    the changes that were withheld for review: there ``suggested`` differs from ``label``. A table
    that was corrected adds its other columns, cut to a length that a person reads.
    """
    data = RunData.open(run)
    names = data.class_names
    name_of = _names_of_rows(data)
    more, fields = _fields(data, changed_only)

    def rows(batch: Batch) -> Iterator[tuple[Any, ...]]:
        asked = np.flatnonzero(batch.flipped | batch.withheld)
        for i in asked if changed_only else range(len(batch.index)):
            number = int(batch.index[i])
            sure = None if batch.confidence is None else batch.confidence[i]
            yield (
                number,
                name_of(batch, int(i)),
                names[batch.given[i]],
                names[batch.suggested[i]],
                names[batch.corrected[i]],
                bool(batch.flipped[i]),
                f"{batch.ratio[i]:.6g}",
                "" if sure is None or np.isnan(sure) else f"{sure:.6g}",
                *fields(number),
            )

    header = (*LABEL_STUDIO_COLUMNS, *more)
    return _write_csv(path, header, (r for b in data.batches(texts=True) for r in rows(b)))


def write_cleanlab(run: Run, path: Path) -> int:
    """Write the columns of ``CleanLearning.get_label_issues()`` as CSV; return the rows.

    ``label_quality`` is P(the given label is right), or the likelihood ratio of a fixed threshold.
    """
    data = RunData.open(run)
    names = data.class_names

    def rows(batch: Batch) -> Iterator[tuple[Any, ...]]:
        doubt = 1 - batch.ratio if batch.suspicion is None else batch.doubt
        for i in range(len(batch.index)):
            yield (
                int(batch.index[i]),
                bool(batch.flipped[i] or batch.withheld[i]),
                f"{1 - doubt[i]:.6g}",
                names[batch.given[i]],
                names[batch.suggested[i]],
                *(() if batch.id is None else (batch.id[i],)),
            )

    header = (*CLEANLAB_COLUMNS, *(("id",) if "id" in data.columns else ()))
    return _write_csv(path, header, (r for b in data.batches(texts=True) for r in rows(b)))


def write_tensorboard(run: Run, folder: Path) -> int:
    """Write every number of every epoch as a TensorBoard scalar; return how many."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise InputError(
            f"tensorboard: expected the package, got {error}; pip install 'adacorr[tensorboard]'"
        ) from error
    records = RunData.open(run).metrics()
    if not records:
        raise InputError(f"{run.file('metrics.jsonl')}: expected a line per epoch, got none")
    writer, count = EventFileWriter(str(folder)), 0
    try:
        for number, record in enumerate(records, start=1):
            step = int(record.get("epoch", number))
            values = [
                Summary.Value(tag=name, simple_value=value)
                for name, value in record.items()
                if name != "epoch"
            ]
            writer.add_event(Event(step=step, summary=Summary(value=values)))
            count += len(values)
    finally:
        writer.close()
    return count


def _names_of_rows(data: RunData) -> Callable[[Batch, int], str]:
    """The name of a row of a batch: the run's own, else that in the source, else its number."""
    if "id" in data.columns:
        return lambda batch, i: batch.id[i] if batch.id is not None else ""
    source = open_source(data.section("data"))
    ids = None if source is None else source.ids
    return lambda batch, i: str(batch.index[i] if ids is None else ids[batch.index[i]])


def _fields(
    data: RunData, changed_only: bool
) -> tuple[tuple[str, ...], Callable[[int], list[str]]]:
    """The other columns of a corrected table, and their texts by row; none of other sources."""
    wanted = np.concatenate(
        [b.index[b.flipped | b.withheld] if changed_only else b.index for b in data.batches()]
    )
    if data.section("method") or not data.section("correct") or not len(wanted):
        return (), lambda number: []
    items = Items(data, wanted, side=1)
    first = items.get(int(wanted[0])).fields
    more = tuple(name for name in first if name not in LABEL_STUDIO_COLUMNS)

    def fields(number: int) -> list[str]:
        found = items.get(number).fields
        return [found.get(name, "") for name in more]

    return more, fields


def _write_csv(path: Path, header: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> int:
    count = 0
    with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(header)
        for row in rows:
            writer.writerow(row)
            count += 1
    return count

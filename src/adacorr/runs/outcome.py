"""The result of a run as one table for people: what the source said, and what came out.

Every run exports the same columns, whatever command wrote it, after all columns of its table:
``adacorr_row`` (number in the source, from 0), ``adacorr_id`` (the source's own name of the row: an
id, a path in a folder), ``adacorr_given`` and ``adacorr_label`` (class names, before and final),
``adacorr_suspicion`` (how likely the given label is wrong), ``adacorr_alternative`` (what may be
right instead) and ``adacorr_decided_by`` (given, rule, answers from a file, or the person's name).
The review page adds ``adacorr_decision`` and ``adacorr_note``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.data.identity import source_digest
from adacorr.files import atomic
from adacorr.runs.reader import Batch, RunData
from adacorr.tables import parquet
from adacorr.tables.arrow import from_numpy
from adacorr.tables.remote import is_url
from adacorr.tables.sources import CSV_SUFFIXES, Source, files_behind, open_sources

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".csv", ".parquet")
_ROWS = 1 << 16


@dataclass(frozen=True)
class Final:
    """Final labels that people's decisions made of a run: (N,) class indices, and who decided.

    `more` : further columns of text by name, (N,) each.
    """

    labels: NDArray[np.int64]
    decided_by: NDArray[np.object_]
    more: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)

    @classmethod
    def with_answers(cls, data: RunData, answers: Mapping[int, str]) -> Final:
        """The labels of the run with those that people gave in another tool."""
        codes = {name: code for code, name in enumerate(data.run.class_names())}
        labels, people = [], []
        for batch in data.batches(texts=True):
            label, by = batch.corrected.copy(), deciders(batch).copy()
            for i, row in enumerate(batch.index.tolist()):
                code = codes.get(answers.get(row, ""))
                if code is not None:
                    label[i], by[i] = code, "answers"
            labels.append(label)
            people.append(by)
        return cls(np.concatenate(labels), np.concatenate(people))


def write_outcome(data: RunData, path: Path, final: Final | None = None) -> str | None:
    """Write the table to a ``.csv`` or ``.parquet`` file; what could not be shown, in words.

    Parameters
    ----------
    final : what people decided; None: the labels as the run corrected them.
    """
    import pyarrow.csv as pc

    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    sources, note = _table_behind(data)
    new = _new_columns(data, final)
    batches = iter([*new.to_batches(_ROWS)]) if sources is None else _joined(sources, new)
    flat = path.suffix.lower() == ".csv"
    with atomic(path) as temporary:
        first = next(batches)
        first = _flat(first) if flat else first
        writer = (
            pc.CSVWriter(temporary, first.schema)
            if flat
            else parquet.writer(temporary, first.schema)
        )
        with writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(_flat(batch) if flat else batch)
    return note


def _table_behind(data: RunData) -> tuple[list[Source] | None, str | None]:
    """The files whose rows the run's rows are; None, and why, where they are not to be had."""
    settings = data.section("data")
    source = settings.get("source")
    if not isinstance(source, str) or not source.lower().endswith((*CSV_SUFFIXES, ".parquet")):
        return None, None
    if is_url(source):  # nothing is fetched because a run says so
        return None, f"the columns of {source} are left out: adacorr_row says which row is which"
    try:
        files = files_behind(source)
        stored = settings.get("source_sha256")
        if isinstance(stored, str) and source_digest([Path(str(f)) for f in files]) != stored:
            return None, f"{source} has changed since the run: its columns are left out"
        return open_sources(source), None
    except (InputError, OSError) as error:
        return None, f"the columns of the source are left out: {error}"


def _new_columns(data: RunData, final: Final | None) -> pa.Table:
    """What the run adds, a row per sample."""
    import pyarrow as pa

    names = pa.array(data.run.class_names(), pa.string())
    pieces = []
    for batch in data.batches(texts=True):
        rows = slice(batch.start, batch.start + len(batch.given))
        label = batch.corrected if final is None else final.labels[rows]
        columns: dict[str, Any] = {"adacorr_row": from_numpy(batch.index)}
        if batch.id is not None:
            columns["adacorr_id"] = pa.array(batch.id, pa.string())
        columns |= {
            "adacorr_given": names.take(from_numpy(batch.given)),
            "adacorr_label": names.take(from_numpy(label)),
            "adacorr_suspicion": from_numpy(batch.doubt),
            "adacorr_alternative": names.take(_gaps(batch.other)),
            "adacorr_decided_by": pa.array(
                list(deciders(batch) if final is None else final.decided_by[rows]), pa.string()
            ),
        }
        for name, values in ({} if final is None else final.more).items():
            columns[name] = pa.array(list(values[rows]), pa.string())
        pieces.append(pa.table(columns))
    return pa.concat_tables(pieces)


def deciders(batch: Batch) -> NDArray[np.object_]:
    """Whose word each label of the run is."""
    if batch.decided_by is not None:
        return np.array(batch.decided_by, dtype=object)
    return np.where(batch.flipped, "rule", "given").astype(object)


def _gaps(codes: NDArray[np.int64]) -> pa.Array:
    """Class indices with a gap for -1."""
    import pyarrow as pa

    return pa.array([code if code >= 0 else None for code in codes.tolist()], pa.int64())


def _joined(sources: list[Source], new: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of the source that the run took, in the source's order, with the new columns."""
    import pyarrow as pa

    numbers = new.column("adacorr_row").to_numpy()
    order = np.argsort(numbers, kind="stable")
    ranked, start = numbers[order], 0
    for source in sources:
        for batch in source.batches(None, _ROWS):
            first, last = np.searchsorted(ranked, (start, start + batch.num_rows))
            old = batch.take(from_numpy(ranked[first:last] - start))
            added = new.take(from_numpy(order[first:last])).combine_chunks()
            start += batch.num_rows
            taken = {
                name: old.column(name) for name in source.kept if name not in added.column_names
            }
            taken |= {name: added.column(name).combine_chunks() for name in added.column_names}
            yield pa.RecordBatch.from_pydict(taken)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without columns of lists and the like, which a CSV file cannot hold."""
    import pyarrow.types as kinds

    plain = [f.name for f in batch.schema if not (kinds.is_nested(f.type) or _is_bytes(f.type))]
    return batch.select(plain)


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return kinds.is_binary(kind) or kinds.is_large_binary(kind)

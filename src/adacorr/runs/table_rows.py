"""The rows of a table that people will look at, gathered once and kept on disk."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.runs.telling import Known, most_telling
from adacorr.tables.arrow import compute, from_numpy, to_numpy
from adacorr.tables.sources import Source, open_sources

if TYPE_CHECKING:
    import pyarrow as pa

MAX_COLUMNS = 16
TEXT_LENGTH = 4000
SHORT_TEXT_LENGTH = 200
_MANY_ROWS = 20_000  # beyond this texts are cut shorter: the gathered rows stay small


class TableRows:
    """Columns and values of chosen rows of a csv or parquet file, as text.

    A csv file has no rows to jump to, and parquet reads whole groups; so one pass in the background
    copies the chosen rows to an unnamed temporary file. Memory holds two offsets per row.

    Parameters
    ----------
    path : the table.
    wanted : row numbers that may be asked for, in any order.
    hidden : columns to leave out: the labels and probabilities, which the page shows by itself.
    ids, id_column : the names of the wanted rows by row number, and the column that holds them:
        rows are then found by name, wherever they stand now, once all have been looked at.
    known : classes of some rows: the columns that tell most about them are shown, these first.
    """

    def __init__(
        self,
        path: Path,
        wanted: NDArray[np.int64],
        hidden: Collection[str] = (),
        *,
        ids: Mapping[int, str] | None = None,
        id_column: str | None = None,
        known: Known | None = None,
    ) -> None:
        self._wanted = np.unique(wanted)
        self._names = [(ids or {}).get(row, "") for row in self._wanted.tolist()]
        self._key = id_column if ids else None
        self._first = np.full(len(self._wanted), -1, dtype=np.int64)
        self._last = np.zeros(len(self._wanted), dtype=np.int64)
        self._twice = np.zeros(len(self._wanted), dtype=bool)
        self._written = 0
        self._finished = False
        self._changed = Condition()
        self._file = tempfile.TemporaryFile(prefix="adacorr-rows-")  # noqa: SIM115
        sources = open_sources(path)
        readable = [
            n for n, kind in sources[0].types.items() if _readable(kind) and n not in hidden
        ]
        if known is not None:
            readable = most_telling(sources, readable, known)
        self._columns = readable[:MAX_COLUMNS]
        name = id_column or "id"  # by which people know the row, and look for it
        if name in readable[MAX_COLUMNS:]:
            self._columns[-1] = name
        if self._key is not None and self._key not in sources[0].types:
            raise InputError(f"{path}: expected a column {self._key!r} as in the run, got none")
        Thread(target=self._gather, args=(sources,), daemon=True).start()

    def get(self, row: int) -> dict[str, str]:
        """The fields of a row; empty for one that was not wanted or does not exist."""
        place = int(np.searchsorted(self._wanted, row))
        if place == len(self._wanted) or self._wanted[place] != row:
            return {}
        with self._changed:
            known = self._key is None  # a name may come up a second time, up to the end
            self._changed.wait_for(lambda: self._finished or (known and self._first[place] >= 0))
            first, last = int(self._first[place]), int(self._last[place])
        if self._key is not None and (first < 0 or self._twice[place]):
            note = "no longer in the source" if first < 0 else "more than once in the source"
            return {self._key: self._names[place], "note": note}
        if first < 0:
            return {}
        return json.loads(os.pread(self._file.fileno(), last - first, first))

    def search(self, text: str) -> list[int]:
        """The wanted rows with a field that holds this text (casefolded), ascending."""
        with self._changed:
            self._changed.wait_for(lambda: self._finished)
        return [
            row
            for row in self._wanted.tolist()
            if any(text in value.casefold() for value in self.get(row).values())
        ]

    def _gather(self, sources: Sequence[Source]) -> None:
        try:
            start = 0
            for source in sources:
                key = self._key
                columns = [*self._columns, *([] if key in (None, *self._columns) else [key])]
                for batch in source.batches(columns, 1 << 16):
                    self._keep(batch, *self._places(batch, start))
                    start += batch.num_rows
        except (InputError, OSError):
            pass  # what was read until then is shown, the rest is not
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    def _places(
        self, batch: pa.RecordBatch, start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the batch that are wanted, and their places among the wanted ones."""
        import pyarrow as pa

        if self._key is None:
            first, last = np.searchsorted(self._wanted, (start, start + batch.num_rows))
            return self._wanted[first:last] - start, np.arange(first, last)
        names = compute().cast(batch.column(self._key), pa.string())
        found = compute().index_in(names, value_set=pa.array(self._names, pa.string()))
        rows = np.flatnonzero(to_numpy(found.is_valid()))
        return rows, to_numpy(found.take(from_numpy(rows))).astype(np.int64)

    def _keep(
        self, batch: pa.RecordBatch, rows: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        shown = batch.select(self._columns)
        lines = [json.dumps(fields).encode() for fields in _texts(shown, rows, self._length)]
        if not lines:
            return
        self._file.write(b"".join(lines))
        self._file.flush()
        with self._changed:
            ends = self._written + np.cumsum([len(line) for line in lines])
            self._twice[places] |= self._first[places] >= 0
            repeated, counts = np.unique(places, return_counts=True)
            self._twice[repeated] |= counts > 1
            self._first[places] = np.concatenate([[self._written], ends[:-1]])
            self._last[places] = ends
            self._written = int(ends[-1])
            self._changed.notify_all()

    @property
    def _length(self) -> int:
        return TEXT_LENGTH if len(self._wanted) <= _MANY_ROWS else SHORT_TEXT_LENGTH


def _readable(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return not (kinds.is_nested(kind) or kinds.is_binary(kind) or kinds.is_large_binary(kind))


def _texts(batch: pa.RecordBatch, rows: NDArray[np.int64], length: int) -> Iterator[dict[str, str]]:
    import pyarrow as pa

    picked = batch.take(pa.array(rows))
    columns: dict[str, list[Any]] = {
        name: picked.column(name).to_pylist() for name in picked.schema.names
    }
    for i in range(len(rows)):
        yield {
            name: "" if values[i] is None else str(values[i])[:length]
            for name, values in columns.items()
        }

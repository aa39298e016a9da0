"""Where corrected batches go: parquet, csv, or the labels alone as .npy. Never half a file."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from adacorr.core.validation import InputError, one_line
from adacorr.correction.process import Corrected, Plan, output_fields
from adacorr.tables import parquet
from adacorr.tables.arrow import compute
from adacorr.tables.remote import Remote
from adacorr.tables.sources import (
    CSV_SUFFIXES,
    ArraySource,
    CsvSource,
    ParquetSource,
    Source,
    delimiter,
    suffix_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

OUTPUT_SUFFIXES = (".parquet", ".pq", *CSV_SUFFIXES)
PACE = 256 << 20  # bytes between two syncs


class Sink(Protocol):
    """Takes batches; `close` completes the file."""

    def write(self, done: Corrected) -> None: ...
    def close(self) -> None: ...


class OutputError(OSError):
    """The result cannot be written; one line, as for bad input."""


@contextmanager
def writing(path: Path | Remote) -> Iterator[None]:
    """A full disk or a missing right becomes one line with the path the user gave."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = os.strerror(error.errno) if error.errno else one_line(error)
        taken = error.errno in (errno.ENOTEMPTY, errno.EEXIST)
        expected = "enough room on the disk" if full else "a writable place"
        expected = "a new or empty folder" if taken else expected
        raise OutputError(f"{path}: expected {expected}, got: {reason}") from error


def open_sink(temporary: Path, output: Path | Remote, source: Source, plan: Plan) -> Sink:
    """A sink for `output` (its suffix decides) that writes to `temporary`."""
    suffix = suffix_of(output)
    if suffix == ".npy":
        return NpySink(temporary, source, plan)
    if suffix in CSV_SUFFIXES:
        return CsvSink(temporary, output, [name for name, _ in output_fields(source, plan)])
    return ParquetSink(temporary, source, plan)


class ParquetSink:
    """Compressed as the input was; one row group per batch."""

    def __init__(self, path: Path, source: Source, plan: Plan) -> None:
        import pyarrow as pa

        fields = dict(output_fields(source, plan))
        schema = pa.schema(list(fields.items()))
        codec = "ZSTD"
        if isinstance(source, ParquetSource):
            codec = source.compression
            given = {field.name: field for field in source.schema}
            schema = pa.schema(
                [given.get(name, pa.field(name, kind)) for name, kind in fields.items()],
                metadata=source.schema.metadata,
            )
        self._schema = schema
        text = [name for name, kind in fields.items() if _repeats(kind)]
        # floats hardly repeat: trying to build a dictionary of them is most of the encoding time
        self._writer = parquet.writer(
            path,
            schema,
            compression="NONE" if codec == "UNCOMPRESSED" else codec,
            use_dictionary=text or False,  # pyright: ignore[reportArgumentType]
            write_statistics=text or False,  # pyright: ignore[reportArgumentType]
        )

    def write(self, done: Corrected) -> None:
        import pyarrow as pa

        batch = pa.RecordBatch.from_arrays(done.table.columns, schema=self._schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


def _repeats(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return not (kinds.is_nested(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind))


class CsvSink:
    """Text as it came; lists as ``[0.1, 0.9]``."""

    def __init__(self, path: Path, output: Path | Remote, names: Sequence[str]) -> None:
        import pyarrow as pa

        self._raw = pa.OSFile(str(path), "wb")
        self._file: Any = self._raw
        if suffix_of(output).endswith(".gz"):
            self._file = pa.CompressedOutputStream(self._raw, "gzip")
        self._delimiter = delimiter(output)
        header = io.StringIO()
        csv.writer(header, delimiter=self._delimiter, lineterminator="\n").writerow(names)
        self._file.write(header.getvalue().encode())

    def write(self, done: Corrected) -> None:
        table = done.table
        cells = [_cell(table.column(n), n, self._delimiter) for n in table.schema.names]
        cells[-1] = _joined([cells[-1], "\n"], "")
        lines = _joined(cells, self._delimiter)
        # the characters of an arrow string column lie one after the other: that is the text
        _, offsets, data = lines.buffers()
        first = lines.offset
        ends = np.frombuffer(offsets, np.int32)[[first, first + len(lines)]]
        self._file.write(memoryview(data)[ends[0] : ends[1]])

    def close(self) -> None:
        self._file.close()
        self._raw.close()


def _cell(column: pa.Array, name: str, separator: str) -> pa.Array:
    """A column as CSV text: lists in brackets, quotes only where a value needs them."""
    import pyarrow as pa
    import pyarrow.types as kinds

    pc = compute()
    kind: Any = column.type
    if kinds.is_dictionary(kind):
        column = column.dictionary_decode()
    try:
        if kinds.is_nested(kind):
            lists = pc.cast(pc.cast(column, pa.list_(kind.value_type)), pa.list_(pa.string()))
            filled = pc.fill_null(lists.values, "null")
            text = pa.ListArray.from_arrays(lists.offsets, filled)
            column = _joined(["[", pc.binary_join(text, ", "), "]"], "")
            column = pc.if_else(lists.is_valid(), column, "")
        text = pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError):
        raise InputError(
            f"expected columns that CSV can hold, got type {kind} in column {name!r}"
        ) from None
    special = pc.match_substring_regex(text, f'[{separator}"\\n\\r]')
    if not pc.any(special).as_py():
        return text
    quoted = _joined(['"', pc.replace_substring(text, '"', '""'), '"'], "")
    return pc.if_else(special, quoted, text)


def _joined(parts: Sequence[Any], separator: str) -> pa.Array:
    return compute().binary_join_element_wise(
        *parts, separator, null_handling="replace", null_replacement=""
    )


class NpySink:
    """The corrected labels alone; the header needs the number of rows before the first."""

    def __init__(self, path: Path, source: Source, plan: Plan) -> None:
        assert isinstance(source, ArraySource)
        self._dtype = source.dtype
        if self._dtype.kind == "U":
            longest = max(self._dtype.itemsize // 4, *(len(name) for name in plan.codec.names))
            self._dtype = np.dtype(f"U{longest}")
        self._file = open_npy(path, (source.n_rows,), self._dtype)

    def write(self, done: Corrected) -> None:
        labels = done.table.column("adacorr_label").to_numpy(zero_copy_only=False)
        self._file.write(labels.astype(self._dtype).tobytes())

    def close(self) -> None:
        self._file.close()


def open_npy(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> io.BufferedWriter:
    """A .npy file with its header written, ready for the rows.

    Written, not memory-mapped: a full disk is then an error instead of a crash.
    """
    file = open(path, "wb")  # noqa: SIM115
    description = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": description, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file


@contextmanager
def completing(sink: Sink, path: Path | Remote) -> Iterator[Callable[[Corrected], None]]:
    """Yield the sink's `write`; complete the file at the end.

    After an error the sink is only released: its file is thrown away by the caller. Errors name
    `path`, which is what the user asked for.
    """

    def write(done: Corrected) -> None:
        with writing(path):
            sink.write(done)

    try:
        yield write
    except BaseException:
        with suppress(Exception):
            sink.close()
        raise
    with writing(path):
        sink.close()


def paced(write: Callable[[Corrected], None], path: Path) -> Callable[[Corrected], None]:
    """`write`, and every `PACE` bytes of `path` go to the disk and out of the page cache.

    Left alone, written pages pile up in memory until the kernel stops the writer to get rid of
    them, and other programs' files with them: 4 GB take two to five times as long to write.
    """
    if not hasattr(os, "posix_fadvise"):
        return write
    flushed = 0

    def paced_write(done: Corrected) -> None:
        nonlocal flushed
        write(done)
        size = path.stat().st_size
        if size - flushed >= PACE:
            with open(path, "rb") as handle:
                os.fdatasync(handle.fileno())
                os.posix_fadvise(handle.fileno(), flushed, size - flushed, os.POSIX_FADV_DONTNEED)
            flushed = size

    return paced_write


def is_csv(source: Source) -> bool:
    return isinstance(source, CsvSource)

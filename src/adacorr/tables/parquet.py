"""Parquet in and out: every page has a checksum, and no file fills memory.

A parquet file of two kilobytes can hold gigabytes: a dictionary of one long text, and runs of
references to it. So rows are counted in bytes before they are read: a batch is so short that it
stays small, and what no honest file holds is refused.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacorr.core.validation import InputError, one_line
from adacorr.tables.arrow import compute
from adacorr.tables.unpacked import check_unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_BYTES = 32 << 20
"""A batch has about so many bytes at most, unless a single row has more."""
GROUP_BYTES = 256 << 20
"""Texts, and nested values of a row group, that hold more must be as honest as a whole file."""
_BUFFER = 1 << 20
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}


def writer(place: Any, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """A writer whose pages carry checksums."""
    import pyarrow.parquet as pq

    return pq.ParquetWriter(place, schema, write_page_checksum=True, **options)


def write(table: pa.Table, path: Path) -> None:
    with writer(path, table.schema) as file:
        file.write_table(table)


@contextmanager
def opened(handle: Any, **options: Any) -> Iterator[pq.ParquetFile]:
    """A file to read page by page (else a row group is held whole), checksums compared."""
    import pyarrow.parquet as pq

    reading: Any = {"buffer_size": _BUFFER, "pre_buffer": False, "page_checksum_verification": True}
    with pq.ParquetFile(handle, **reading, **options) as file:
        yield file


def check_shape(file: pq.ParquetFile, path: object, packed: int) -> None:
    """A byte per cell at least: a few runs of equal values can stand for billions of rows."""
    check_unpacked(path, file.metadata.num_rows * file.metadata.num_columns, packed)


def batches(
    handle: Any, path: object, columns: Sequence[str] | None, rows: int
) -> Iterator[pa.RecordBatch]:
    """Batches of at most `rows` rows, and of about `BATCH_BYTES` bytes at most."""
    packed, texts = size_of(handle), 0
    rows = _rows_of_bytes(handle, path, columns, packed, rows)
    with opened(handle) as file:
        for batch in file.iter_batches(rows, columns=None if columns is None else list(columns)):
            texts += sum(c.nbytes for c in batch.columns if not _fixed(c.type))
            check_unpacked(path, texts, packed, GROUP_BYTES)
            yield batch


def read(path: Path) -> pa.Table:
    """A whole table, or one line that says what is wrong with the file."""
    import pyarrow as pa

    try:
        with opened(path) as file:
            schema = file.schema_arrow
            check_shape(file, path, size_of(path))
        return pa.Table.from_batches(batches(path, path, None, 1 << 20), schema)
    except (OSError, pa.ArrowException) as error:
        reason = one_line(error)
        raise InputError(f"{path}: expected a complete parquet file, got {reason}") from error


def size_of(handle: Any) -> int:
    """Bytes of the file at a path or behind an open handle."""
    if isinstance(handle, str | Path):
        return Path(handle).stat().st_size
    place = handle.tell()
    size = handle.seek(0, os.SEEK_END)
    handle.seek(place)
    return int(size)


# -- how many rows are not too many ----------------------------------------------------------------


def _rows_of_bytes(
    handle: Any, path: object, columns: Sequence[str] | None, packed: int, rows: int
) -> int:
    """Rows whose values, unpacked, have at most `BATCH_BYTES` bytes, in any row group."""
    with opened(handle) as file:
        meta, schema = file.metadata, file.schema
        names = None if columns is None else set(columns)
        wanted = [
            number
            for number in range(meta.num_columns)
            if names is None or _belongs(schema.column(number).path, names)
        ]
        texts = [schema.column(n).path for n in wanted if schema.column(n).physical_type in _TEXT]
    fewest = rows
    with opened(handle, read_dictionary=texts) as file:
        for group in range(meta.num_row_groups):
            part = meta.row_group(group)
            if part.num_rows:
                width = sum(
                    _bytes_per_row(file, group, number, min(rows, part.num_rows), path, packed)
                    for number in wanted
                )
                fewest = min(fewest, int(BATCH_BYTES / max(width, 1)))
    return max(fewest, 1)


_TEXT = ("BYTE_ARRAY",)


def _belongs(path: str, columns: Collection[str]) -> bool:
    """Whether a leaf, such as ``probs.list.element``, is part of one of these columns."""
    while path not in columns:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return False
    return True


def _bytes_per_row(
    file: pq.ParquetFile, group: int, number: int, rows: int, path: object, packed: int
) -> float:
    """Of one leaf column in one row group, unpacked; at most, or on average where rows are even."""
    leaf = file.schema.column(number)
    part = file.metadata.row_group(group)
    chunk = part.column(number)
    nested = leaf.max_repetition_level > 0
    if leaf.physical_type in _TEXT:
        longest = _longest(file, group, leaf.path, chunk, rows)
        plain = chunk.total_uncompressed_size / part.num_rows
        each = max(plain, longest * chunk.num_values / part.num_rows)
        whole = each * part.num_rows if nested else chunk.total_uncompressed_size
    else:
        whole = chunk.num_values * (_WIDTHS.get(leaf.physical_type) or leaf.length)
        each = whole / part.num_rows
    if nested or leaf.physical_type in _TEXT:  # one row may hold it all
        check_unpacked(path, int(whole), packed, GROUP_BYTES)
    return each


def _longest(file: pq.ParquetFile, group: int, leaf: str, chunk: Any, rows: int) -> int:
    """Bytes of the longest text in the dictionary of a column chunk; 0 where that is harmless."""
    if chunk.total_uncompressed_size * rows <= BATCH_BYTES:
        return 0
    column = leaf.partition(".")[0]
    names = [leaf] if leaf in file.schema_arrow.names else [column]
    first = next(file.iter_batches(1, row_groups=[group], columns=names))
    return max((_longest_text(values) for values in _dictionaries(first.column(0))), default=0)


def _longest_text(values: pa.Array) -> int:
    pc = compute()
    return pc.max(pc.binary_length(values)).as_py() or 0 if len(values) else 0


def _dictionaries(column: pa.Array) -> Iterator[pa.Array]:
    """The dictionaries of texts in a column of any nesting."""
    import pyarrow.types as kinds

    kind: Any = column.type
    if kinds.is_dictionary(kind):
        if not _fixed(kind.value_type):
            yield column.dictionary  # pyright: ignore[reportAttributeAccessIssue]
    elif kinds.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _dictionaries(column.field(number))  # pyright: ignore[reportAttributeAccessIssue]
    elif kinds.is_map(kind):
        yield from _dictionaries(column.keys)  # pyright: ignore[reportAttributeAccessIssue]
        yield from _dictionaries(column.items)  # pyright: ignore[reportAttributeAccessIssue]
    elif kinds.is_nested(kind):
        yield from _dictionaries(column.values)  # pyright: ignore[reportAttributeAccessIssue]


def _fixed(kind: pa.DataType) -> bool:
    """Values of one width: numbers, dates and the like."""
    import pyarrow.types as kinds

    return kinds.is_primitive(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind)

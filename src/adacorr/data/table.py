"""CSV and parquet tables: numeric and text columns as features, or a column of images."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError, one_line
from adacorr.data.arrays import encode, match
from adacorr.data.dataset import Dataset
from adacorr.data.identity import id_column
from adacorr.data.images import SUFFIXES, LazyImages, common_form, probe
from adacorr.data.parquet import image_bytes
from adacorr.tables import parquet
from adacorr.tables.unpacked import check_unpacked

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LEVELS = 32
"""A text column with more distinct values than this is no category."""
MAX_LINE = 1 << 24
"""Characters of the first line; no table is that wide."""
LABEL_NAMES = ("label", "labels", "given_label", "noisy_label", "target", "class", "y")
TRUTH = "truth"
"""A column of this name holds the true classes and is never a feature."""


def load_table(
    path: Path,
    label_column: str | None,
    image_column: str | None,
    image_size: int | None,
    skip_unreadable: bool,
    ignore_columns: Sequence[str] = (),
) -> Dataset:
    """A table with labels.

    `label_column` is a name or a position (``-1`` is the last); without it a column called label,
    labels, target, class or y is taken. A column called id with a value of its own in every row
    names the samples. Every other column is a feature, kept in its own units as
    float32 (the MLP standardises); text columns of at most 32 levels become one 0/1 feature per
    level. `ignore_columns` are not. A column of image bytes, or of paths relative to the table,
    makes it a table of images and the other columns are then not used.
    """
    table = read(path)
    label = find_label(table, label_column, path)
    codes, names = encode(values(table, label, path), None, f"{path}: column {label}: ")
    truth = None
    if TRUTH in table.column_names and label != TRUTH:
        truth = match(values(table, TRUTH, path), names, f"{path}: column {TRUTH}")
    ids, name = row_ids(table, label)
    missing = [c for c in ignore_columns if c not in table.column_names]
    if missing:
        raise InputError(
            f"{path}: expected ignore_columns among {some(table.column_names)}, got {missing[0]!r}"
        )
    rest = [c for c in table.column_names if c not in (label, TRUTH, name, *ignore_columns)]
    image = find_image(table, rest, image_column, path)
    if image is not None:
        sources, shown = image_sources(table, image, path)
        size, gray = common_form(sources, shown, image_size, skip_unreadable)
        images = LazyImages(sources, shown, size, gray)
        return Dataset(path.stem, images, codes, names, truth, ids=ids)
    columns = feature_columns(table, rest, path)
    features = encode_features(table, columns, path)
    return Dataset(path.stem, features, codes, names, truth, ids=ids, feature_names=columns)


def row_ids(table: pa.Table, label: str) -> tuple[NDArray[Any] | None, str | None]:
    """What the table calls its rows, and the column that says so; None, None without one."""
    name = id_column([c for c in table.column_names if c != label])
    if name is None or table.column(name).null_count:
        return None, None
    found = table.column(name).to_numpy(zero_copy_only=False)
    if found.dtype.kind not in "iuUO" or len(set(found.tolist())) < len(found):
        return None, None  # a column of that name that names no rows
    return found.astype(str) if found.dtype == object else found, name


def read(path: Path) -> pa.Table:
    """The whole table."""
    table = parquet.read(path) if path.suffix == ".parquet" else _read_csv(path)
    if table.num_rows == 0:
        raise InputError(f"{path}: expected at least one row, got none")
    repeated = sorted(c for c, times in Counter(table.column_names).items() if times > 1)
    if repeated:
        raise InputError(f"{path}: expected distinct column names, got {repeated[0]} twice")
    return table


def _read_csv(path: Path) -> pa.Table:
    """A first line of numbers alone is data: the columns are then called 0, 1, 2, ..."""
    import pyarrow as pa
    from pyarrow import csv

    separator = "\t" if ".tsv" in path.suffixes else ","
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig") as handle:
            line = handle.readline(MAX_LINE)
        if len(line) == MAX_LINE:
            raise InputError(f"{path}: expected lines of a table, got one without an end")
        first = line.strip().split(separator)
        names = [str(i) for i in range(len(first))] if all(map(_is_number, first)) else None
        if path.suffix == ".gz":
            _check_unpacked_size(path)
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=names),
            parse_options=csv.ParseOptions(delimiter=separator),
        )
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, pa.ArrowException) as error:
        reason = one_line(error)
        raise InputError(f"{path}: expected a readable table, got {reason}") from error


def _check_unpacked_size(path: Path) -> None:
    """Unpack once without keeping anything; a bomb shows after its first gigabyte."""
    size = 0
    with gzip.open(path) as handle:
        while piece := handle.read(1 << 22):
            size += len(piece)
            check_unpacked(path, size)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def find_label(table: pa.Table, label_column: str | None, path: Path) -> str:
    """The name of the label column."""
    names = table.column_names
    if label_column is None:
        found = [c for c in names if c.lower() in LABEL_NAMES]
        if len(found) != 1:
            got = f"several columns that may be it: {some(found)}" if found else "none"
            raise InputError(f"{path}: expected label_column, one of {some(names)}, got {got}")
        return found[0]
    if label_column in names:
        return label_column
    if label_column.lstrip("-").isdecimal() and -len(names) <= int(label_column) < len(names):
        return names[int(label_column)]
    raise InputError(f"{path}: expected a column {label_column!r}, got {some(names)}")


def find_image(
    table: pa.Table, columns: Sequence[str], image_column: str | None, path: Path
) -> str | None:
    """The column of images: the one asked for, or the only one that looks like it."""
    if image_column is not None:
        if image_column not in table.column_names:
            raise InputError(
                f"{path}: expected a column {image_column!r}, got {some(table.column_names)}"
            )
        return image_column
    found = [c for c in columns if _looks_like_images(table.column(c))]
    return found[0] if len(found) == 1 else None


def _looks_like_images(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_struct(kind):
        return "bytes" in [kind.field(i).name for i in range(kind.num_fields)]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return any(_opens(value) for value in column.slice(0, 100).to_pylist() if value)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return False
    named = [v.lower().endswith(SUFFIXES) for v in column.slice(0, 100).to_pylist() if v]
    return bool(named) and all(named)


def _opens(value: bytes) -> bool:
    try:
        probe(value, "")
    except InputError:
        return False
    return True


def image_sources(table: pa.Table, column: str, path: Path) -> tuple[list[Any], list[str]]:
    """Files or bytes of an image column, and how errors name them; an empty cell cannot be read."""
    import pyarrow as pa

    kind = table.column(column).type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        files = [path.parent / (value or "") for value in table.column(column).to_pylist()]
        return files, [str(file) for file in files]
    raw = image_bytes(table, column, path, gaps=True)
    return raw, [f"{path}: column {column}, row {i}" for i in range(len(raw))]


def feature_columns(table: pa.Table, columns: Sequence[str], path: Path) -> tuple[str, ...]:
    """Names of the features: a number's column as it is, ``column=level`` for text."""
    import pyarrow as pa

    out: list[str] = []
    for name in columns:
        kind = table.column(name).type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            levels = sorted(set(values(table, name, path).tolist()))
            if len(levels) > MAX_LEVELS:
                raise InputError(
                    f"{path}: expected numbers or at most {MAX_LEVELS} levels in column {name}, "
                    f"got {len(levels)} different texts; leave it out with --ignore-columns {name} "
                    "or name it as images"
                )
            out += [f"{name}={level}" for level in levels]
        else:
            out.append(name)
    if not out:
        raise InputError(f"{path}: expected feature columns beside the labels, got none")
    return tuple(out)


def encode_features(
    table: pa.Table, feature_names: Sequence[str], path: Path
) -> NDArray[np.float32]:
    """The columns that `feature_names` ask for, (N, D); an unseen level of a text is all zeros."""
    out = np.empty((table.num_rows, len(feature_names)), np.float32)
    texts: dict[str, NDArray[Any]] = {}
    known = set(table.column_names)
    for j, name in enumerate(feature_names):
        if name in known:
            out[:, j] = _numbers(table, name, path)
            continue
        column, _, level = name.partition("=")
        if column not in known:
            raise InputError(
                f"{path}: expected a column {column!r}, got {some(table.column_names)}"
            )
        if column not in texts:
            texts[column] = values(table, column, path).astype(str)
        out[:, j] = texts[column] == level
    return out


def _numbers(table: pa.Table, name: str, path: Path) -> NDArray[Any]:
    numbers = values(table, name, path)
    if numbers.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: expected numbers in column {name}, got {table.column(name).type}"
        )
    with np.errstate(over="ignore"):  # features are float32: what overflows is named below
        bad = ~np.isfinite(numbers.astype(np.float32))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{path}: expected a finite number in column {name}, row {row}, got {numbers[row]}"
        )
    return numbers


def values(table: pa.Table, name: str, path: Path) -> NDArray[Any]:
    """A column without gaps."""
    column = table.column(name)
    if column.null_count:
        row = column.is_null().to_numpy(zero_copy_only=False).argmax()
        raise InputError(f"{path}: expected a value in column {name}, row {int(row)}, got none")
    return column.to_numpy(zero_copy_only=False)


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f", ... ({len(names)})" if len(names) > 12 else "")

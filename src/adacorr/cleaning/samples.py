"""What the user points at, told apart: images, text, or columns of values; and their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning import columns as telling
from adacorr.core.sampling import priority
from adacorr.core.validation import InputError
from adacorr.data import table as tables
from adacorr.data.arrays import encode, match
from adacorr.data.folder import class_files
from adacorr.data.images import SUFFIXES, decode
from adacorr.data.load import kind as file_kind
from adacorr.data.load import load
from adacorr.data.named.catalog import CATALOG
from adacorr.labels import Codec, is_integer, plain_labels, stated_order

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["images", "text", "values"]
_EMPTY = 0x5DEECE66D  # the bits of an empty cell
SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing"}


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what; None or empty: found out.

    Attributes
    ----------
    label_column
        The table's column of labels.
    text_column
        The column of text to judge by.
    image_column
        The column of image paths or bytes to judge by.
    group_column
        Rows of one group (a patient, a video) are never on both sides of a fold.
    split_column
        Which rows are for training and which for testing; copies across are reported as leaks.
    ignore_columns
        Columns that must not be used.
    """

    label_column: str | None = None
    text_column: str | None = None
    image_column: str | None = None
    group_column: str | None = None
    split_column: str | None = None
    ignore_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Samples:
    """N samples of one kind.

    Attributes
    ----------
    kind : "images", "text" or "values".
    content : images as a sequence of paths, bytes or (H, W, C) uint8 arrays; text as a list of
        strings; values as a pyarrow table.
    labels : (N,) class indices as given.
    codec : the classes, their order, and how the user writes them.
    name : what the user called it.
    ids, truth, groups, split : (N,) where known, as in :class:`adacorr.data.Dataset`.
    notes : what was found out about the columns, in plain words.
    about : how to open it again, for config.toml.
    """

    kind: Kind
    content: Any
    labels: NDArray[np.int64]
    codec: Codec
    name: str = "data"
    ids: NDArray[Any] | None = None
    truth: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None
    split: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.codec.names


def open_samples(data: str | Path, choice: Columns | None = None) -> Samples:
    """The samples behind a name or path: a folder of images, a table, an .npz, a named dataset.

    >>> samples = open_samples("digits")
    >>> samples.kind, len(samples)
    ('images', 1437)
    """
    choice = choice or Columns()
    path = Path(data).expanduser()
    named = str(data).partition(":")[0] in CATALOG
    if not named and path.is_dir():
        found = _folder(path)
    elif not named and path.exists() and file_kind(path) == "table":
        found = from_table(tables.read(path), choice, path)
    else:
        found = _dataset(str(data))
    source = str(data) if named else str(path.resolve())
    return replace(found, name=path.name, about={"source": source, **_plain(choice), **found.about})


def _plain(choice: Columns) -> dict[str, Any]:
    entries = {k: v for k, v in vars(choice).items() if v}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in entries.items()}


# -- folders and arrays ----------------------------------------------------------------------------


def _folder(folder: Path) -> Samples:
    """One subfolder per class; folders train, val, test at the top are a split of the classes."""
    top = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    parts = top if len(top) > 1 and {p.name.lower() for p in top} <= SPLITS else [folder]
    found = [class_files(part) for part in parts]
    names = tuple(sorted({name for part in found for name in part}))
    files = [
        (path, names.index(c), s) for s, part in enumerate(found) for c in part for path in part[c]
    ]
    paths = [path for path, _, _ in files]
    codes = np.array([[c, s] for _, c, s in files], np.int64)
    return Samples(
        "images",
        paths,
        codes[:, 0],
        _by_name(names),
        ids=np.array([path.relative_to(folder).as_posix() for path in paths]),
        split=codes[:, 1] if len(parts) > 1 else None,
    )


def _dataset(source: str) -> Samples:
    data = load(source).train
    shape = data.input_shape
    if len(shape) == 2:
        raise InputError(f"{source}: expected images, text or values, got samples of shape {shape}")
    content: Any = data.features
    if len(shape) == 1:
        content = values_table(np.asarray(data.features), data.feature_names)
    kind: Kind = "values" if len(shape) == 1 else "images"
    codec = _by_name(data.class_names)
    return Samples(kind, content, data.labels, codec, ids=data.ids, truth=data.truth)


def values_table(x: NDArray[Any], names: Sequence[str] | None = None) -> pa.Table:
    """(N, D) numbers as a table of D columns."""
    import pyarrow as pa

    names = names or [f"column {j}" for j in range(x.shape[1])]
    return pa.table({name: x[:, j] for j, name in enumerate(names)})


# -- tables ----------------------------------------------------------------------------------------


def from_table(table: pa.Table, choice: Columns, path: Path, given: Any = None) -> Samples:
    """The samples of a table; `given` are labels that are not a column of it."""
    table = _plain_strings(table)
    label = None if given is not None else tables.find_label(table, choice.label_column, path)
    if label is None:
        codec, labels = coded(given, "")
    else:
        said = tables.values(table, label, path)
        _check_said(said, f"{path}: column {label}")
        codec, labels = coded(said, f"{path}: column {label}: ")
    ids, name = tables.row_ids(table, label or "")
    reserved = {label, name, tables.TRUTH, choice.group_column, choice.split_column}
    asked = {choice.group_column, choice.split_column, *choice.ignore_columns}
    _check_columns(table, asked, path)
    rest = [c for c in table.column_names if c not in {*reserved, *choice.ignore_columns}]
    truth = None
    if tables.TRUTH in table.column_names and label != tables.TRUTH:
        truth = match(
            tables.values(table, tables.TRUTH, path), codec.names, f"{path}: column truth"
        )
    base = Samples(
        "values",
        None,
        labels,
        codec,
        ids=ids,
        truth=truth,
        groups=_codes_of(table, choice.group_column),
        split=_codes_of(table, choice.split_column),
        about={k: v for k, v in {"label_column": label, "id_column": name}.items() if v},
    )
    return _with_content(base, table, rest, choice, path)


def _plain_strings(table: pa.Table) -> pa.Table:
    """Strings as polars hands them over become the usual ones."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if pa.types.is_string_view(table.column(place).type):
            column = table.column(place).cast(pa.large_string())
            table = table.set_column(place, name, column)
    return table


def _with_content(
    base: Samples, table: pa.Table, rest: list[str], choice: Columns, path: Path
) -> Samples:
    """The columns that a person would judge by."""
    if choice.image_column and choice.text_column:
        raise InputError(f"{path}: expected a text column or an image column, got both")
    image = (
        None if choice.text_column else tables.find_image(table, rest, choice.image_column, path)
    )
    if image is not None:
        sources, _ = tables.image_sources(table, image, path)
        about = {**base.about, "image_column": image}
        return replace(
            base, kind="images", content=sources, about=about, notes=(f"images: {image}",)
        )
    if choice.text_column:
        _check_columns(table, {choice.text_column}, path)
        texts, notes = [choice.text_column], []
    else:
        rest, notes = telling.telling_columns(table, rest, base.labels)
        texts = telling.text_only(table, rest)
    if not rest:
        raise InputError(
            f"{path}: expected columns that tell of the label, got none: {'; '.join(notes)}"
        )
    if texts:
        content = telling.joined_text(table, texts)
        notes = [f"text: {', '.join(texts)}", *notes]
        about = {**base.about, "text_columns": texts}
        return replace(base, kind="text", content=content, notes=tuple(notes), about=about)
    notes = [f"values: {', '.join(rest) if len(rest) < 4 else f'{len(rest)} columns'}", *notes]
    about = {**base.about, "value_columns": rest}
    return replace(base, content=table.select(rest), notes=tuple(notes), about=about)


def _check_said(labels: Any, where: str) -> None:
    """An empty cell of a .csv is a string without characters, and no class."""
    empty = [
        row for row, label in enumerate(labels) if isinstance(label, str) and not label.strip()
    ]
    if empty:
        raise InputError(
            f"{where}: expected a label in each row, got none in row {empty[0]} "
            f"({len(empty):,} such {'row' if len(empty) == 1 else 'rows'})"
        )


def _check_columns(table: pa.Table, names: set[str | None], path: Path) -> None:
    for name in names - {None}:
        if name not in table.column_names:
            raise InputError(
                f"{path}: expected a column {name!r}, got {tables.some(table.column_names)}"
            )


def _codes_of(table: pa.Table, column: str | None) -> NDArray[np.int64] | None:
    """A code per distinct value; empty cells each have their own."""
    if column is None:
        return None
    import pyarrow.compute as pc

    codes = pc.call_function("dictionary_encode", [table.column(column).combine_chunks()])
    found = np.asarray(codes.indices.cast("int64").fill_null(-1), np.int64)
    empty = found < 0
    return np.where(empty, found.max(initial=0) + 1 + np.arange(len(found)), found)


# -- what Python passes ----------------------------------------------------------------------------


def given_samples(data: Any, labels: Any, choice: Columns) -> Samples:
    """The samples of a frame, an array, or a list of texts or image paths."""
    if labels is None:
        raise InputError("labels: expected one per sample, or the name of a column, got none")
    frame = _arrow(data)
    if frame is not None and isinstance(labels, str):
        return from_table(frame, choice, Path("data"))
    n = len(data) if frame is None else frame.num_rows
    if n != len(np.asarray(labels)):
        raise InputError(f"labels: expected {n} of them, one per sample, got {len(labels)}")
    if frame is not None:
        return from_table(frame, choice, Path("data"), labels)
    codec, codes = coded(labels, "")
    kind, content = _content(data)
    return Samples(kind, content, codes, codec)


def _arrow(data: Any) -> pa.Table | None:
    if not hasattr(data, "columns") and not hasattr(data, "column_names"):
        return None
    import pyarrow as pa

    if type(data).__module__.startswith("pandas"):
        return pa.Table.from_pandas(data, preserve_index=False)
    return data if isinstance(data, pa.Table) else pa.table(data)


def coded(labels: Any, prefix: str) -> tuple[Codec, NDArray[np.int64]]:
    """The classes, in the order that the labels state or sort in, and an index per sample."""
    order = stated_order(labels)
    codes, names = encode(np.asarray(labels), order, prefix)
    integers = plain_labels(labels).dtype.kind in "iu"
    if integers and all(is_integer(name) for name in names):
        return Codec(names, np.array(names, np.int64)), codes
    return (Codec.of_indices(names) if integers else _by_name(names)), codes


def _by_name(names: Sequence[str]) -> Codec:
    """Labels are the names of the classes."""
    return Codec(tuple(names), np.array(names, str))


def _content(data: Any) -> tuple[Kind, Any]:
    if not isinstance(data, np.ndarray):
        items = list(data)
        if items and all(isinstance(item, str) for item in items):
            as_paths = all(item.lower().endswith(SUFFIXES) for item in items)
            return ("images", [Path(item) for item in items]) if as_paths else ("text", items)
        if items and all(isinstance(item, Path | bytes) for item in items):
            return "images", items
        data = np.asarray(data)
    if data.ndim == 1 and data.dtype.kind in "UO":
        return "text", [str(text) for text in data]
    if data.ndim == 2 and data.dtype.kind in "biuf":
        return "values", values_table(data)
    if data.ndim in (3, 4) and data.dtype == np.uint8:
        return "images", data if data.ndim == 4 else data[:, :, :, None]
    raise InputError(
        "data: expected a path, a frame, texts, image paths, numbers (N, D) or uint8 images "
        f"(N, H, W, C), got {data.dtype} of shape {data.shape}"
    )


# -- digests ---------------------------------------------------------------------------------------


def digests(samples: Samples) -> NDArray[np.uint64]:
    """(N, 2) a digest of each sample's content: equal contents are equal rows."""
    if samples.kind == "values":
        return _of_cells(samples.content)
    return _of_bytes(_raw(samples), len(samples))


def _of_bytes(items: Iterable[bytes], n: int) -> NDArray[np.uint64]:
    import hashlib

    out = np.empty((n, 2), np.uint64)
    for i, raw in enumerate(items):
        out[i] = np.frombuffer(hashlib.blake2b(raw, digest_size=16).digest(), np.uint64)
    return out


def _raw(samples: Samples) -> Iterator[bytes]:
    """The bytes of each text or image."""
    if samples.kind == "text":
        yield from (text.encode("utf-8", "replace") for text in samples.content)
        return
    for item in samples.content:
        if isinstance(item, Path):
            yield item.read_bytes() if item.is_file() else str(item).encode()
        else:
            yield item if isinstance(item, bytes) else np.ascontiguousarray(item).tobytes()


def _of_cells(table: pa.Table) -> NDArray[np.uint64]:
    """Column by column, since a million rows are too many to look at one by one."""
    out = np.arange(2, dtype=np.uint64) + np.zeros((table.num_rows, 1), np.uint64)
    for column in table.columns:
        out = priority(out ^ _bits(column)[:, None])
    return out


def _bits(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    """64 bits for each cell: a number as it is stored, anything else the digest of its text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        width = pa.float64() if pa.types.is_floating(kind) else pa.int64()
        bits = np.asarray(column.cast(width, safe=False).fill_null(0)).view(np.uint64)
    else:
        levels: Any = column.combine_chunks()
        if not pa.types.is_dictionary(kind):
            levels = levels.dictionary_encode()
        texts = (str(level).encode("utf-8", "replace") for level in levels.dictionary.to_pylist())
        known = _of_bytes(texts, len(levels.dictionary))[:, 0]
        codes = np.asarray(levels.indices.cast(pa.int64()).fill_null(0))
        bits = known[codes] if len(known) else np.zeros(len(codes), np.uint64)
    return np.where(np.asarray(column.is_null()), np.uint64(_EMPTY), bits)


def pixels(item: Any, side: int) -> NDArray[np.uint8]:
    """An image of any source as (side, side, 3); an error where it cannot be read."""
    if isinstance(item, np.ndarray):
        from PIL import Image

        image = Image.fromarray(item[:, :, 0] if item.shape[-1] == 1 else item).convert("RGB")
        return np.asarray(image.resize((side, side), resample=2), np.uint8)
    return decode(item, "image", (side, side))


def shown(samples: Samples, row: int) -> str:
    """A sample in a few words: a file's name, the text, or columns and values."""
    if samples.kind == "text":
        return samples.content[row]
    if samples.kind == "values":
        values = samples.content.slice(row, 1).to_pylist()[0]
        return ", ".join(f"{k} {_short(v)}" for k, v in values.items() if v not in (None, ""))
    if samples.ids is not None:
        return str(samples.ids[row])
    return str(samples.content[row]) if isinstance(samples.content[row], Path) else "image"


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value

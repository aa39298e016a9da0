"""The label column of a table <-> class indices: :class:`adacorr.labels.Codec` on Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.annotators import GAP
from adacorr.core.validation import InputError
from adacorr.labels import Codec
from adacorr.tables.arrow import compute, from_numpy, to_numpy
from adacorr.tables.decode import Place
from adacorr.tables.sources import ParquetSource, Source

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Sighting:
    """Where a label was first met."""

    place: Place
    row: int

    def error(self, expected: str, got: str) -> InputError:
        return self.place.error(expected, got, self.row, self.place.layout.label)


def given_labels(batch: pa.RecordBatch, place: Place) -> pa.Array:
    """The labels of a batch, plain; of several annotators a list per row with null for a gap."""
    if not place.layout.annotators:
        return plain_column(batch.column(place.layout.label), place)
    import pyarrow as pa

    pc = compute()
    names = place.layout.annotators
    columns = [with_gaps(batch.column(name), place.in_column(name)) for name in names]
    kinds = list(dict.fromkeys(c.type for c in columns if c.type != pa.null())) or [pa.int64()]
    if len(kinds) > 1:
        other = next(n for n, c in zip(names, columns, strict=True) if c.type == kinds[1])
        raise InputError(
            f"{place.file.path_of(other)}: expected labels of type {kinds[0]} as of the annotators "
            f"before, got {kinds[1]} in column {other!r}"
        )
    columns = [pc.cast(column, kinds[0]) for column in columns]
    n, m = batch.num_rows, len(names)
    by_row = np.arange(n * m).reshape(m, n).T.ravel()
    flat = pa.concat_arrays(columns).take(from_numpy(by_row))
    here = to_numpy(flat.is_valid()).reshape(n, m)
    if n and not here.any(axis=1).all():
        row = int(np.argmin(here.any(axis=1)))
        raise place.error("at least one label in each row", "none", row, names[0])
    return pa.FixedSizeListArray.from_arrays(flat, m)


def with_gaps(column: pa.Array, place: Place) -> pa.Array:
    """Labels of one annotator as int64 or string; null where there is none.

    A gap is a null, NaN, an empty text, or -1 where -1 is no class.
    """
    import pyarrow as pa

    pc = compute()
    minus = "-1" not in (place.layout.class_names or ())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_floating(kind):  # integers with gaps, as pandas writes them
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        odd = to_numpy(pc.fill_null(pc.not_equal(column, pc.floor(column)), False))
        if odd.any():
            row = int(odd.argmax())
            raise place.error("integers or strings", str(column[row]), row, place.layout.label)
        column = pc.cast(column, pa.int64())
    if pa.types.is_null(column.type):
        return column
    filler = pa.scalar(0 if pa.types.is_integer(column.type) else "", column.type)
    missing = column.is_null()
    column = plain_column(pc.fill_null(column, filler), place)
    if pa.types.is_integer(column.type):
        gap = pc.equal(column, -1)
    else:
        trimmed = pc.utf8_trim_whitespace(column)
        missing = pc.or_(missing, pc.equal(trimmed, ""))
        gap = pc.equal(column, "-1")
    missing = pc.or_(missing, gap) if minus else missing
    return pc.if_else(missing, pa.scalar(None, column.type), column)


def encode_given(codec: Codec, labels: pa.Array, place: Place) -> NDArray[np.int64]:
    """What :func:`given_labels` gave as class indices: (N,), or (N, M) with -1 for a gap."""
    if not place.layout.annotators:
        return encode_column(codec, labels, place)
    pc = compute()
    flat, names = labels.flatten(), place.layout.annotators
    codes = np.empty((len(labels), len(names)), np.int64)
    filler = marks(codec, flat.type)[0]
    for j, name in enumerate(names):
        column = flat.take(from_numpy(np.arange(j, len(flat), len(names))))
        filled = pc.fill_null(column, filler)
        codes[:, j] = encode_column(codec, filled, place.in_column(name))
        codes[to_numpy(column.is_null()), j] = GAP
    return codes


def encode_column(codec: Codec, column: pa.Array, place: Place) -> NDArray[np.int64]:
    """Class indices, or an error at the first label that is none of the classes."""
    import pyarrow as pa

    pc = compute()
    column = plain_column(column, place)
    if codec.by_index and pa.types.is_integer(column.type):
        codes = to_numpy(column)
        bad = (codes < 0) | (codes >= len(codec.names))
        if not bad.any():
            return codes.astype(np.int64, copy=False)
    else:
        found = pc.index_in(column, value_set=marks(codec, column.type))
        if not found.null_count:
            return to_numpy(found).astype(np.int64)
        bad = to_numpy(found.is_null())
    row = int(np.argmax(bad))
    raise place.error(expected_label(codec), repr(column[row].as_py()), row, place.layout.label)


def expected_label(codec: Codec) -> str:
    """What an error says of a label that is none of the classes."""
    return f"a class index from 0 to {len(codec.names) - 1}" if codec.by_index else codec.expected


def marks(codec: Codec, kind: pa.DataType) -> pa.Array:
    """What stands in a label column of that type for each class."""
    import pyarrow as pa

    plain = codec.marks
    column = from_numpy(plain) if plain.dtype.kind == "i" else pa.array(plain.tolist(), pa.string())
    return compute().cast(column, kind)


def label_type(codec: Codec, kind: pa.DataType) -> pa.DataType:
    """The type of corrected labels: the given one, unless some class does not fit into it."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    largest = max(abs(int(mark)) for mark in codec.marks) if codec.integers else 0
    if pa.types.is_integer(kind) and largest > np.iinfo(kind.to_pandas_dtype()).max:
        return pa.int64()
    return kind


def corrected_column(
    codec: Codec, column: pa.Array, suggested: NDArray[np.int64], flipped: NDArray[np.bool_]
) -> pa.Array:
    """The label column with the flips applied; rows that keep their label keep its spelling."""
    import pyarrow as pa

    pc = compute()
    kind = label_type(codec, column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type != kind:
        column = pc.cast(column, kind)
    new = marks(codec, kind).take(from_numpy(suggested))
    return pc.if_else(from_numpy(flipped), new, column)


def label_column(codec: Codec, kind: pa.DataType, codes: NDArray[np.int64]) -> pa.Array:
    """Class indices as labels of the type of a given column."""
    return marks(codec, label_type(codec, kind)).take(from_numpy(codes))


def plain_column(column: pa.Array, place: Place) -> pa.Array:
    """Labels as int64 or string without nulls."""
    import pyarrow as pa

    pc = compute()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if column.null_count:
        row = int(np.argmax(to_numpy(column.is_null())))
        raise place.error("a label", "null", row, place.layout.label)
    if pa.types.is_integer(kind):
        try:
            return column if kind == pa.int64() else pc.cast(column, pa.int64())
        except pa.ArrowInvalid:
            row = int(np.argmax(to_numpy(column) > np.iinfo(np.int64).max))
            got = str(column[row])
            raise place.error("a class index", got, row, place.layout.label) from None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column if kind == pa.string() else pc.cast(column, pa.string())
    raise InputError(
        f"{place.file.path}: expected integers or strings, got type {kind} "
        f"in column {place.layout.label!r}"
    )


def stated_order(source: Source, label: str) -> tuple[str, ...] | None:
    """:func:`order_in_schema` of a parquet file; other files state none."""
    if not isinstance(source, ParquetSource):
        return None
    for batch in source.batches([label], 1):
        return order_in_schema(source.schema, label, batch.column(0))
    return None


def order_in_schema(schema: pa.Schema, label: str, first: pa.Array) -> tuple[str, ...] | None:
    """The classes in the order that the type of a label column states; None where it states none.

    A dictionary alone does not: its order is that of first appearance. pandas says in the schema
    which ones are categoricals, an Enum of polars is an ordered dictionary, and a ClassLabel of
    Hugging Face datasets names its integers.

    Parameters
    ----------
    first : some rows of the column, with the dictionary that they refer to.
    """
    import pyarrow.types as kinds

    metadata = schema.metadata or {}
    features = _json(metadata.get(b"huggingface")).get("info", {}).get("features", {})
    feature = features.get(label, {}) if isinstance(features, dict) else {}
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names"):
        return tuple(str(name) for name in feature["names"])
    kind: Any = first.type
    if not kinds.is_dictionary(kind) or kinds.is_integer(kind.value_type):
        return None
    known = _json(metadata.get(b"pandas")).get("columns", [])
    categorical = any(
        c.get("name") == label and c.get("pandas_type") == "categorical" for c in known
    )
    if not (categorical or kind.ordered):
        return None
    names = first.dictionary.to_pylist()
    return None if None in names else tuple(str(name) for name in names)


def _json(text: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

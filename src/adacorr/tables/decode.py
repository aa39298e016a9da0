"""A record batch -> its probabilities, dense or top-k; errors name file, row and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adacorr.core.models import mean_of
from adacorr.core.sparse import PAD, TopK, check_top_k
from adacorr.core.validation import InputError, RowError, as_pred_probs, check_pred_probs
from adacorr.tables.arrow import compute, to_numpy
from adacorr.tables.layout import MAX_CLASSES, Layout
from adacorr.tables.remote import Remote

if TYPE_CHECKING:
    import pyarrow as pa


class HasPaths(Protocol):
    """The file of the labels, and that of any column; mostly the same."""

    @property
    def path(self) -> Path | Remote: ...
    def path_of(self, column: str) -> Path | Remote: ...


@dataclass(frozen=True)
class Place:
    """Where a batch comes from, for messages; `first_row` counts rows of the file from 0."""

    file: HasPaths
    layout: Layout
    first_row: int = 0

    def error(self, expected: str, got: str, row: int, column: str) -> InputError:
        return InputError(
            f"{self.file.path_of(column)}: expected {expected}, got {got} "
            f"in row {self.first_row + row} (counted from 0), column {column!r}"
        )

    def in_column(self, name: str) -> Place:
        """The same, in the labels of one of several annotators."""
        return replace(self, layout=replace(self.layout, label=name, annotators=()))

    def of(self, error: RowError) -> InputError:
        """The same complaint about probabilities, in terms of the file."""
        columns = self.layout.columns
        if self.layout.top_k:
            column = columns[0] if error.name == "indices" else columns[1]
            entry = "" if error.column is None else f" at position {error.column}"
            return self.error(error.expected, error.got + entry, error.row, column)
        if self.layout.is_list or error.column is None:
            entry = "" if error.column is None else f" at position {error.column}"
            column = columns[0] if self.layout.is_list else f"{columns[0]} to {columns[-1]}"
            return self.error(error.expected, error.got + entry, error.row, column)
        return self.error(error.expected, error.got, error.row, columns[error.column])


def decode_probs(
    batch: pa.RecordBatch, place: Place, *, check: bool, normalize: bool
) -> NDArray[np.floating] | TopK:
    """The probabilities of a batch; `check` looks at the values, `normalize` too.

    Of several models the mean, as for arrays.
    """
    return pooled(decode_models(batch, place, check=check, normalize=normalize))


def pooled(models: Sequence[NDArray[np.floating] | TopK]) -> NDArray[np.floating] | TopK:
    """The mean of the models' probabilities; of one model its own."""
    dense = [model for model in models if not isinstance(model, TopK)]
    return mean_of(dense) if len(dense) > 1 else models[0]


def decode_models(
    batch: pa.RecordBatch, place: Place, *, check: bool, normalize: bool
) -> list[NDArray[np.floating] | TopK]:
    """The probabilities of each model."""
    if place.layout.top_k:
        return [_top_k(batch, place, check=check, normalize=normalize)]
    found: list[NDArray[np.floating] | TopK] = []
    for model in place.layout.models:
        at = replace(place, layout=model)
        f = _dense(batch, at, check=check, normalize=normalize)
        if found and f.shape != found[0].shape:
            expected = f"{found[0].shape[1]} probabilities as in {place.layout.columns[0]!r}"
            raise place.error(expected, str(f.shape[1]), 0, model.columns[0])
        found.append(f)
    return found


def _dense(
    batch: pa.RecordBatch, place: Place, *, check: bool, normalize: bool
) -> NDArray[np.floating]:
    """The probabilities of one model."""
    if place.layout.is_list:
        f = _from_list(batch.column(place.layout.columns[0]), place)
    else:
        f = _from_columns(batch, place)
    if f.shape[1] < 2:
        raise place.error("at least 2 classes", f"{f.shape[1]}", 0, place.layout.columns[0])
    try:
        return check_pred_probs(f, normalize=normalize) if check or normalize else as_pred_probs(f)
    except RowError as error:
        raise place.of(error) from None


def _from_list(column: pa.Array, place: Place) -> NDArray[Any]:
    name = place.layout.columns[0]
    flat, lengths = _lists(column, place, name, "probabilities")
    k = int(lengths[0])
    if (lengths != k).any():
        row = int((lengths != k).argmax())
        raise place.error(f"lists of {k} probabilities", f"{lengths[row]}", row, name)
    return _numbers(flat, place, name, lengths).reshape(len(column), k)


def _lists(
    column: pa.Array, place: Place, name: str, what: str
) -> tuple[pa.Array, NDArray[np.int64]]:
    """The entries of all lists, one after the other and none of them null, and the lengths."""
    import pyarrow.types as kinds

    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        column = _split_text(column)
    kind: Any = column.type
    if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
        raise InputError(
            f"{place.file.path_of(name)}: expected lists of {what}, got type {kind} "
            f"in column {name!r}"
        )
    if column.null_count:
        raise place.error(f"a list of {what}", "null", _first_null(column), name)
    flat = column.flatten()
    if kinds.is_fixed_size_list(kind):
        lengths = np.full(len(column), kind.list_size)
    else:
        lengths = np.diff(to_numpy(column.offsets)).astype(np.int64)
    if flat.null_count:
        raise place.error("numbers", "null", _row_of(_first_null(flat), lengths), name)
    return flat, lengths


def _row_of(entry: int, lengths: NDArray[np.int64]) -> int:
    """Which list the entry with that number, over all lists, belongs to."""
    return int(np.searchsorted(np.cumsum(lengths), entry, side="right"))


def _top_k(batch: pa.RecordBatch, place: Place, *, check: bool, normalize: bool) -> TopK:
    names = place.layout.columns
    parts = [
        _lists(batch.column(name), place, name, what)
        for name, what in zip(names, ("class indices", "probabilities"), strict=True)
    ]
    (indices, lengths), (values, others) = parts
    if (lengths != others).any():
        row = int((lengths != others).argmax())
        expected = f"as many probabilities as class indices ({lengths[row]})"
        raise place.error(expected, f"{others[row]}", row, names[1])
    classes = _class_indices(_numbers(indices, place, names[0], lengths), lengths, place)
    numbers = _numbers(values, place, names[1], others)
    if numbers.dtype.kind != "f":
        numbers = numbers.astype(np.float64)
    width = int(lengths.max()) if len(lengths) else 0
    if (lengths == width).all():
        shape = (len(lengths), width)
        f = TopK(classes.reshape(shape), numbers.reshape(shape), place.layout.known_classes)
    else:
        f = _padded(classes, numbers, lengths, place.layout.known_classes)
    try:
        return check_top_k(f, normalize=normalize) if check or normalize else f
    except RowError as error:
        raise place.of(error) from None


def _padded(
    classes: NDArray[np.int32], numbers: NDArray[Any], lengths: NDArray[np.int64], k: int
) -> TopK:
    real = np.arange(lengths.max()) < lengths[:, None]
    indices, values = np.full(real.shape, PAD, np.int32), np.zeros(real.shape, numbers.dtype)
    indices[real], values[real] = classes, numbers
    return TopK(indices, values, k)


def _class_indices(
    numbers: NDArray[Any], lengths: NDArray[np.int64], place: Place
) -> NDArray[np.int32]:
    k = place.layout.known_classes
    with np.errstate(invalid="ignore"):
        bad = ~((numbers >= 0) & (numbers < (k or MAX_CLASSES)) & (numbers == np.floor(numbers)))
    if bad.any():
        entry = int(bad.argmax())
        row, got = _row_of(entry, lengths), f"{numbers[entry]}"
        expected = f"class indices from 0 to {(k or MAX_CLASSES) - 1}"
        raise place.error(expected, got, row, place.layout.columns[0])
    return numbers.astype(np.int32)


def _from_columns(batch: pa.RecordBatch, place: Place) -> NDArray[Any]:
    arrays = []
    for name in place.layout.columns:
        column = batch.column(name)
        if column.null_count:
            raise place.error("a number", "null", _first_null(column), name)
        arrays.append(_numbers(column, place, name))
    f = np.empty((batch.num_rows, len(arrays)), np.result_type(*arrays))
    for j, array in enumerate(arrays):
        f[:, j] = array
    return f


def _numbers(
    column: pa.Array, place: Place, name: str, lengths: NDArray[np.int64] | None = None
) -> NDArray[Any]:
    """A column without nulls as numpy; text is parsed. `lengths`: of the lists it comes from."""
    import pyarrow as pa
    import pyarrow.types as kinds

    pc = compute()
    kind = column.type
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        try:
            column = pc.cast(column, pa.float64())
        except pa.ArrowInvalid:
            return _parse_slowly(column, place, name, lengths)
    elif kinds.is_decimal(kind):
        column = pc.cast(column, pa.float64())
    elif not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind)):
        raise InputError(
            f"{place.file.path_of(name)}: expected numbers, got type {kind} in column {name!r}"
        )
    return to_numpy(column)


def _parse_slowly(
    column: pa.Array, place: Place, name: str, lengths: NDArray[np.int64] | None
) -> NDArray[Any]:
    values = np.empty(len(column))
    for i, text in enumerate(column.to_pylist()):
        try:
            values[i] = float(text)
        except ValueError:
            row = i if lengths is None else _row_of(i, lengths)
            raise place.error("a number", repr(text[:40]), row, name) from None
    return values


def _split_text(column: pa.Array) -> pa.Array:
    """``[0.1, 0.9]``, ``0.1 0.9`` or ``0.1;0.9`` -> lists of text."""
    pc = compute()
    bare = pc.replace_substring_regex(column, r"[\[\](){},;\s]+", " ")
    return pc.split_pattern(pc.utf8_trim(bare, " "), " ")


def _first_null(column: pa.Array) -> int:
    return int(np.argmax(to_numpy(column.is_null())))

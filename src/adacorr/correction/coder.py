"""Labels in a column -> class indices and back, keeping the kind that the user has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.tables.arrow import compute, from_numpy, to_numpy
from adacorr.tables.decode import Place

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGER = re.compile(r"-?\d{1,18}\Z")


@dataclass(frozen=True)
class Coder:
    """Class names, and whether the labels are those names or indices into them.

    Attributes
    ----------
    names : the K class names.
    by_index : labels are 0 to K - 1; otherwise they are names (or integers spelled as names).
    """

    names: tuple[str, ...]
    by_index: bool

    @property
    def integers(self) -> bool:
        """The labels are integers, perhaps in text."""
        return self.by_index or all(is_integer(name) for name in self.names)

    def encode(self, column: pa.Array, place: Place) -> NDArray[np.int64]:
        """Class indices, or an error at the first label that is none of the classes."""
        import pyarrow as pa

        pc = compute()
        column = plain(column, place)
        text = pa.types.is_string(column.type)
        if self.by_index:
            if text:
                column = self._integers(column, place)
            codes = to_numpy(column)
            bad = (codes < 0) | (codes >= len(self.names))
            if not bad.any():
                return codes.astype(np.int64, copy=False)
            expected = f"a class index from 0 to {len(self.names) - 1}"
        else:
            found = pc.index_in(column, value_set=self.values(column.type))
            if not found.null_count:
                return to_numpy(found).astype(np.int64)
            bad = to_numpy(found.is_null())
            expected = f"a label among {shorten(self.names)}"
        row = int(np.argmax(bad))
        raise place.error(expected, repr(column[row].as_py()), row, place.layout.label)

    def _integers(self, column: pa.Array, place: Place) -> pa.Array:
        import pyarrow as pa

        pc = compute()
        try:
            return pc.cast(column, pa.int64())
        except pa.ArrowInvalid:
            values = column.to_pylist()
            row = next(i for i, value in enumerate(values) if not is_integer(value))
            expected = f"a class index from 0 to {len(self.names) - 1}"
            raise place.error(expected, repr(values[row]), row, place.layout.label) from None

    def values(self, kind: pa.DataType) -> pa.Array:
        """What stands in the label column for each class."""
        import pyarrow as pa

        pc = compute()
        if self.by_index:
            return pc.cast(from_numpy(np.arange(len(self.names))), kind)
        return pc.cast(pa.array(self.names, pa.string()), kind)

    def label_type(self, kind: pa.DataType) -> pa.DataType:
        """The type of corrected labels: the given one, unless some class does not fit into it."""
        import pyarrow as pa

        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        largest = len(self.names) - 1 if self.by_index else 0
        if not self.by_index and self.integers:
            largest = max(abs(int(name)) for name in self.names)
        if pa.types.is_integer(kind) and largest > np.iinfo(kind.to_pandas_dtype()).max:
            return pa.int64()
        return kind

    def corrected(
        self, column: pa.Array, suggested: NDArray[np.int64], flipped: NDArray[np.bool_]
    ) -> pa.Array:
        """The label column with the flips applied; rows that keep their label keep its spelling."""
        import pyarrow as pa

        pc = compute()
        kind = self.label_type(column.type)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.type != kind:
            column = pc.cast(column, kind)
        new = self.values(kind).take(from_numpy(suggested))
        return pc.if_else(from_numpy(flipped), new, column)


def plain(column: pa.Array, place: Place) -> pa.Array:
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


def make_coder(
    names: tuple[str, ...] | None, k: int, seen: Mapping[str, Sighting], by_value: bool
) -> Coder:
    """Settle what the labels mean, after all of them have been seen.

    Parameters
    ----------
    names : class names from the columns or the user, if any.
    k : how many probabilities a row has.
    seen : for text labels, each distinct one and where it was first met.
    by_value : the column holds integers.
    """
    if names is not None and len(names) != k:
        raise InputError(
            f"classes: expected {k} names, one per probability, got {len(names)}: {shorten(names)}"
        )
    spelled = names is not None and all(is_integer(name) for name in names)
    if names is not None and len(set(names)) < k:
        raise InputError(f"classes: expected distinct names, got {shorten(names)}")
    if by_value or (seen and all(is_integer(text) for text in seen)):
        # integers are the names where the names are integers (p_1, p_2, ...), else indices
        return Coder(names or tuple(str(i) for i in range(k)), by_index=not spelled)
    if names is not None:
        return Coder(names, by_index=False)
    odd = [text for text in seen if is_integer(text)]
    if odd:
        raise seen[odd[0]].error("names in the whole column", repr(odd[0]))
    if len(seen) != k:
        place = next(iter(seen.values())).place
        raise InputError(
            f"{place.file.path}: expected {k} distinct labels, one per probability, "
            f"got {len(seen)}: {shorten(tuple(sorted(seen)))} in column {place.layout.label!r}; "
            "name the classes with --classes"
        )
    return Coder(tuple(sorted(seen)), by_index=False)


@dataclass(frozen=True)
class Sighting:
    """Where a label was first met."""

    place: Place
    row: int

    def error(self, expected: str, got: str) -> InputError:
        return self.place.error(expected, got, self.row, self.place.layout.label)


def is_integer(text: str) -> bool:
    return _INTEGER.match(text) is not None


def shorten(names: tuple[str, ...]) -> str:
    """
    >>> shorten(("a", "b")), shorten(tuple("abcdefg"))
    ('a, b', 'a, b, c, d, e, ...')
    """
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")

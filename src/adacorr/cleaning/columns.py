"""Which columns of a table tell of the label: text, values, names of rows, copies of the label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

LOOKED_AT = 2000
"""Rows, evenly spread, by which a column is judged."""
SPACELESS = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Chinese, Japanese, Thai, Lao: scripts that put no spaces between words."""
TEXT_LENGTH = 25
"""A column of strings longer than this on average, mostly different, is text."""


def telling_columns(
    table: pa.Table, names: Sequence[str], labels: NDArray[np.int64]
) -> tuple[list[str], list[str]]:
    """The columns worth using, and a sentence for each one left out.

    Left out are columns of one value, names of rows (a number or word of its own in each row), and
    copies of the label under other names, which would confirm every label.
    """
    kept, notes = [], []
    for name in names:
        reason = _useless(table.column(name), labels)
        if reason:
            notes.append(f"left out {name}: {reason}")
        else:
            kept.append(name)
    return kept, notes


def _useless(column: pa.ChunkedArray, labels: NDArray[np.int64]) -> str | None:
    if not _usable(column.type):
        return f"cannot be used ({column.type})"
    codes = value_codes(column)
    levels = int(codes.max(initial=0)) + 1
    if levels == 1:
        return "has one value"
    if levels == len(codes) and len(codes) > 20 and _names_rows(column):
        return "has a value of its own in each row, as names do"
    if levels <= 2 * (int(labels.max()) + 1) and _copies(codes, labels):
        return "repeats the labels"
    return None


def _usable(kind: pa.DataType) -> bool:
    """Numbers, dates, strings, and categories of them."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return _usable(kind.value_type)
    quantity = kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind)
    number = quantity or kinds.is_decimal(kind) or kinds.is_null(kind)
    date = kinds.is_temporal(kind) and not kinds.is_interval(kind)
    return number or date or kinds.is_string(kind) or kinds.is_large_string(kind)


def value_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A code per distinct value; empty cells share one."""
    import pyarrow as pa

    encoded: Any = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    codes = np.asarray(encoded.indices.cast(pa.int64()).fill_null(len(encoded.dictionary)))
    return np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _names_rows(column: pa.ChunkedArray) -> bool:
    """Integers that count upwards, or words without a space."""
    import pyarrow.types as kinds

    if kinds.is_integer(column.type):
        numbers = np.asarray(column.drop_null())
        return bool((np.diff(numbers) > 0).all())
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        texts = sampled(column)
        return not is_text(texts) and not any(re.search(f"[ {SPACELESS}]", t) for t in texts)
    return False


def _copies(codes: NDArray[np.int64], labels: NDArray[np.int64]) -> bool:
    """Each value goes with one label, and each label with one value."""
    pairs = np.unique(np.stack([codes, labels]), axis=1)
    return len(np.unique(pairs[0])) == pairs.shape[1] == len(np.unique(pairs[1]))


def sampled(column: pa.ChunkedArray) -> list[str]:
    """Some of a column's texts, evenly spread, without empty cells."""
    import pyarrow as pa

    rows = np.unique(np.linspace(0, len(column) - 1, min(LOOKED_AT, len(column))).astype(np.int64))
    return [str(value) for value in column.take(pa.array(rows)).to_pylist() if value]


def is_text(texts: Sequence[str]) -> bool:
    """Long and mostly different.

    >>> is_text(["a long way to go from here", "no time for that today, sorry"])
    True
    >>> is_text(["今天天气很好阳光明媚", "这家餐厅的面条非常好吃"])
    True
    """
    if not texts:
        return False
    return float(np.mean([_length(text) for text in texts])) > TEXT_LENGTH and differs(texts)


def differs(texts: Sequence[str]) -> bool:
    """Mostly different, as texts and titles are and categories are not."""
    return len(set(texts)) > 0.5 * len(texts)


def _length(text: str) -> int:
    """In characters; one of a script without spaces says about as much as three letters."""
    return len(text) + 2 * len(re.findall(f"[{SPACELESS}]", text))


def is_string(column: pa.ChunkedArray) -> bool:
    import pyarrow.types as kinds

    return kinds.is_string(column.type) or kinds.is_large_string(column.type)


def text_only(table: pa.Table, names: Sequence[str]) -> list[str]:
    """The columns, if all are strings that mostly differ (short ones too, such as titles).

    Else none: text beside values is one value among them.
    """
    found = [n for n in names if is_string(table.column(n)) and _words(sampled(table.column(n)))]
    return found if len(found) == len(names) else []


def _words(texts: Sequence[str]) -> bool:
    """Not numbers, dates or codes: letters make up most of it."""
    letters = sum(c.isalpha() for text in texts for c in text)
    return differs(texts) and letters > 0.5 * sum(len(text) for text in texts)


def joined_text(table: pa.Table, names: Sequence[str]) -> list[str]:
    """One text per row; several columns are put on lines of their own."""
    columns = [table.column(name).to_pylist() for name in names]
    return [
        "\n".join("" if v is None else str(v) for v in row) for row in zip(*columns, strict=True)
    ]

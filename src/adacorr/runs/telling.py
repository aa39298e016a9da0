"""Which columns of a sample tell most about its class: a person who looks at it sees these first.

Mutual information with the given labels, on a bounded number of rows; numbers are cut at their
quantiles. Prose comes before everything else, and a column that only repeats the labels is left
out: it would answer the question that a person is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.tables.arrow import compute, from_numpy
from adacorr.tables.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

LOOKED_AT = 4096
WITHIN = 1 << 18
"""Rows are taken from the first so many: the page waits for this."""
MOST_COLUMNS = 1000
_ELEMENTS = 1 << 22
_BINS = 16
_PROSE = 40  # characters on average


@dataclass(frozen=True)
class Known:
    """Rows whose class is given: numbers in the source, ascending, and class indices."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]

    @classmethod
    def some(cls, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> Known:
        """At most `LOOKED_AT`, evenly spread over the beginning of the source."""
        order = np.argsort(rows, kind="stable")
        order = order[: np.searchsorted(rows[order], WITHIN)]
        picked = order[np.unique(np.linspace(0, len(order) - 1, LOOKED_AT).astype(np.int64))]
        return cls(rows[picked], labels[picked])


def most_telling(sources: Sequence[Source], names: Sequence[str], known: Known) -> list[str]:
    """The columns of a table, prose first and then by what they tell about the class."""
    if not names or not len(known.rows):
        return list(names)
    looked, rest = list(names[:MOST_COLUMNS]), names[MOST_COLUMNS:]
    table = _sample(sources, looked, known.rows)
    labels = known.labels[: table.num_rows]
    prose = [name for name in looked if _is_prose(table.column(name))]
    codes = {name: _codes(table.column(name)) for name in looked if name not in prose}
    return [*prose, *ranked(codes, labels), *rest]


def telling_features(names: Sequence[str], values: NDArray[Any], known: Known) -> list[str]:
    """The same for a matrix of features; ``column=level`` stands for the column."""
    found: dict[str, NDArray[np.int64]] = {}
    for j, name in enumerate(names[:MOST_COLUMNS]):
        column, level, _ = name.partition("=")
        if level:
            before = found.get(column, np.full(len(values), -1))
            found[column] = np.where(values[:, j] != 0, j, before)
        else:
            found[name] = _binned(np.asarray(values[:, j], dtype=np.float64))
    return ranked(found, known.labels)


def ranked(columns: dict[str, NDArray[np.int64]], labels: NDArray[np.int64]) -> list[str]:
    """Names by what the values tell about the labels; columns that repeat them are left out.

    >>> labels = np.array([0, 0, 1, 1] * 9)
    >>> columns = {"noise": np.arange(36) % 2, "good": labels % 2 + (np.arange(36) % 9 == 0)}
    >>> ranked({**columns, "copy": 1 - labels}, labels)
    ['good', 'noise']
    """
    told = {name: information(codes, labels) for name, codes in columns.items()}
    kept = [name for name in columns if not _repeats(columns[name], labels)]
    return sorted(kept, key=lambda name: -told[name])


def information(codes: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Mutual information in nats, less what chance alone would show; never below 0."""
    if not len(labels):
        return 0.0
    values, v = np.unique(codes, return_inverse=True)
    classes, c = np.unique(labels, return_inverse=True)
    n, many = len(labels), len(values)
    if many > max(64, n // 8):  # names of rows
        return 0.0
    table = np.bincount(v * len(classes) + c, minlength=many * len(classes)).reshape(many, -1) / n
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    seen = table > 0
    found = float((table[seen] * np.log(table[seen] / expected[seen])).sum())
    return max(0.0, found - (many - 1) * (len(classes) - 1) / (2 * n))


def _repeats(codes: NDArray[np.int64], labels: NDArray[np.int64]) -> bool:
    """Each value goes with one label, and each label with one value."""
    pairs = np.unique(np.stack([codes, labels]), axis=1)
    one = len(np.unique(pairs[0])) == pairs.shape[1] == len(np.unique(pairs[1]))
    return one and pairs.shape[1] > 1 and len(labels) > 2 * pairs.shape[1]


def _sample(sources: Sequence[Source], names: list[str], rows: NDArray[np.int64]) -> pa.Table:
    """The columns of some rows, which are in ascending order; fewer where the source ends early."""
    import pyarrow as pa

    pieces, start = [], 0
    for source in sources:
        for batch in source.batches(names, max(256, min(1 << 16, _ELEMENTS // len(names)))):
            first, last = np.searchsorted(rows, (start, start + batch.num_rows))
            pieces.append(pa.table(batch.take(from_numpy(rows[first:last] - start))))
            start += batch.num_rows
            if start > rows[-1]:
                return pa.concat_tables(pieces)
    return pa.concat_tables(pieces)


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A code per value; numbers share one with their neighbours, and gaps have their own."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if (numbers := _numbers(column)) is not None:
        return _binned(numbers)
    encoded: Any = column.combine_chunks()
    if not kinds.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    return np.asarray(encoded.indices.cast(pa.int64()).fill_null(-1))


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Numbers, also those that a CSV file holds as text; None of anything else."""
    import pyarrow as pa
    import pyarrow.types as kinds

    text = kinds.is_string(column.type) or kinds.is_large_string(column.type)
    if not (text or kinds.is_integer(column.type) or kinds.is_floating(column.type)):
        return None
    if text:
        column = compute().if_else(compute().equal(column, ""), None, column)
    try:
        return np.asarray(compute().cast(column, pa.float64()))
    except pa.ArrowInvalid:
        return None


def _binned(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    finite = np.isfinite(numbers)
    if len(few := np.unique(numbers[finite])) <= _BINS:
        edges = few[1:]
    else:
        edges = np.unique(np.quantile(numbers[finite], np.arange(1, _BINS) / _BINS))
    return np.where(finite, np.searchsorted(edges, numbers, side="right"), -1)


def _is_prose(column: pa.ChunkedArray) -> bool:
    import pyarrow.types as kinds

    if not (kinds.is_string(column.type) or kinds.is_large_string(column.type)):
        return False
    texts = [text for text in column.to_pylist() if text]
    mean = sum(map(len, texts)) / max(len(texts), 1)
    return mean > _PROSE and len(set(texts)) > len(texts) / 2

"""Columns of a table as numbers: quantities, dates, categories of any number of levels, free text.

Nothing here sees a label, so encoding all rows at once leaks nothing into out-of-fold predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.columns import is_string, is_text, sampled
from adacorr.cleaning.encoders.encoded import Vectors

if TYPE_CHECKING:
    import pyarrow as pa

ONE_HOT = 40
"""Strings of more different values are described by their letters instead of a column per value."""
LETTER_PARTS, TEXT_PARTS = 16, 32
MISSING = ("", "?", "-", "na", "n/a", "nan", "null", "none", "missing", "unknown")
QUANTILES = 1000
MOSTLY = 0.95
"""A column of strings is one of numbers when so many of them read as numbers."""

Column = Callable[["pa.ChunkedArray"], "NDArray[np.float32]"]


class ValuesEncoder:
    """Fitted to a sample of rows; ``encode`` then treats each row on its own.

    >>> import pyarrow as pa
    >>> encoder = ValuesEncoder()
    >>> encoder.fit(pa.table({"size": [1.0, 2.0, None], "colour": ["red", "blue", "red"]}))
    >>> encoder.encode(pa.table({"size": [2.0], "colour": ["red"]})).dense.round(1).tolist()
    [[1.0, 0.0, 0.0, 1.0]]
    """

    name = "values"
    fitted = True

    def __init__(self) -> None:
        self._columns: list[tuple[str, Column]] = []

    def fit(self, content: pa.Table) -> None:
        self._columns = [(name, _column(content.column(name))) for name in content.column_names]

    def encode(self, content: pa.Table) -> Vectors:
        """(B, D) features, and which rows have any value at all."""
        parts = [make(content.column(name)) for name, make in self._columns]
        empty = np.ones(len(content), bool)
        for name, _ in self._columns:
            empty &= np.asarray(content.column(name).is_null())
        return Vectors(np.concatenate(parts, axis=1), ~empty)


def _column(column: pa.ChunkedArray) -> Column:
    """How to encode this column, found out from its type and values."""
    import pyarrow.types as kinds

    if kinds.is_temporal(column.type) and not kinds.is_duration(column.type):
        return _stacked([_numbers(part, column) for part in _date_parts(column.type)])
    if kinds.is_dictionary(column.type):
        return _strings(column)
    if not is_string(column):
        return _numbers(_as_float, column)
    if _share_of_numbers(column) > MOSTLY:
        return _numbers(_parsed, column)
    return _strings(column)


def _stacked(parts: list[Column]) -> Column:
    return lambda column: np.concatenate([part(column) for part in parts], axis=1)


# -- numbers and dates -----------------------------------------------------------------------------


def _numbers(read: Callable[[Any], NDArray[np.float64]], column: pa.ChunkedArray) -> Column:
    """The normal score of a number's rank: no outlier, no unit matters; and a mark of gaps."""
    from scipy.special import ndtri

    known = read(column)
    known = known[~np.isnan(known)]
    at = np.linspace(0, 1, min(QUANTILES, max(len(known), 2)))
    cuts = np.quantile(known, at) if len(known) else np.zeros(2)

    def score(x: NDArray[np.float64]) -> NDArray[np.float64]:
        below = np.interp(x, cuts, at)  # ties: halfway between the first and the last rank
        above = np.interp(-x, -cuts[::-1], at)
        return ndtri(np.clip((below + 1 - above) / 2, 1e-3, 1 - 1e-3))

    scores = score(known)
    centre, scale = (scores.mean(), scores.std() or 1.0) if len(scores) else (0.0, 1.0)
    gaps = len(known) < len(column)

    def encode(column: pa.ChunkedArray) -> NDArray[np.float32]:
        x = read(column)
        missing = np.isnan(x)
        out = np.where(missing, 0.0, (score(np.where(missing, 0.0, x)) - centre) / scale)
        both = np.stack([out, missing], axis=1) if gaps else out[:, None]
        return both.astype(np.float32)

    return encode


def _as_float(column: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    if pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    numbers = column.cast(pa.float64(), safe=False).fill_null(np.nan)
    return np.nan_to_num(np.asarray(numbers, np.float64), nan=np.nan, posinf=1e300, neginf=-1e300)


def _parsed(column: pa.ChunkedArray) -> NDArray[np.float64]:
    def number(text: Any) -> float:
        try:
            return float(text)
        except (TypeError, ValueError):
            return np.nan

    return np.array([number(text) for text in column.to_pylist()], np.float64)


def _share_of_numbers(column: pa.ChunkedArray) -> float:
    texts = [text for text in sampled(column) if text.strip().lower() not in MISSING]
    read = [not np.isnan(_parsed_one(text)) for text in texts]
    return float(np.mean(read)) if read else 0.0


def _parsed_one(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _date_parts(kind: pa.DataType) -> list[Callable[[Any], NDArray[np.float64]]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    def part(name: str) -> Callable[[Any], NDArray[np.float64]]:
        return lambda column: _as_float(pc.call_function(name, [column]))

    if pa.types.is_time(kind):
        return [part("hour"), part("minute")]
    names = ["year", "month", "day", "day_of_week"]
    if pa.types.is_timestamp(kind):
        names.append("hour")
    width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return [lambda column: _as_float(column.cast(width)), *(part(name) for name in names)]


# -- strings ---------------------------------------------------------------------------------------


def _strings(column: pa.ChunkedArray) -> Column:
    import pyarrow as pa

    column = column.cast(pa.string())
    texts = ["" if text is None else text for text in column.to_pylist()]
    levels = sorted(set(texts))
    if len(levels) <= ONE_HOT:
        return _one_hot(levels)
    prose = is_text(sampled(column))
    return _text_parts(texts, TEXT_PARTS if prose else LETTER_PARTS, prose)


def _one_hot(levels: list[str]) -> Column:
    place = {level: j for j, level in enumerate(levels)}

    def encode(column: pa.ChunkedArray) -> NDArray[np.float32]:
        import pyarrow as pa

        out = np.zeros((len(column), len(levels)), np.float32)
        for i, text in enumerate(column.cast(pa.string()).to_pylist()):
            j = place.get("" if text is None else text)
            if j is not None:  # an unseen level has no column: all zeros
                out[i, j] = 1
        return out

    return encode


def _text_parts(texts: list[str], size: int, prose: bool) -> Column:
    """The leading directions of words (prose) or of letter groups (names, codes, categories)."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    if prose:
        weights = TfidfVectorizer(sublinear_tf=True, max_features=20_000)
    else:
        weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), max_features=20_000)
    matrix = weights.fit_transform(texts)
    svd = TruncatedSVD(max(1, min(size, matrix.shape[1] - 1)), n_iter=3, random_state=0)
    scale = svd.fit_transform(matrix).std() or 1.0

    def encode(column: pa.ChunkedArray) -> NDArray[np.float32]:
        import pyarrow as pa

        texts = column.cast(pa.string()).fill_null("").to_pylist()
        return (svd.transform(weights.transform(texts)) / scale).astype(np.float32)

    return encode

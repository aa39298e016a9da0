"""A sample of rows that does not depend on how the rows are batched.

Each row index is hashed; the sample is the rows with the smallest hashes. So a stream, a cluster
and an array in memory choose the same rows, and two partial samples merge by keeping the smallest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_ROWS = 200_000  # a rate of 1% is then known to 0.0002, one standard error
MAX_ELEMENTS = 20_000_000  # 160 MB in float64


def sample_size(n_classes: int) -> int:
    """How many rows a fit looks at: enough for its precision, bounded in memory."""
    return max(1000, min(MAX_ROWS, MAX_ELEMENTS // n_classes))


def priority(index: NDArray[np.integer]) -> NDArray[np.uint64]:
    """A well mixed 64-bit hash of each row index (the finaliser of SplitMix64)."""
    z = index.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)  # a bijection: no ties
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def sample_rows(n_rows: int, size: int) -> NDArray[np.int64]:
    """Indices of the `size` rows of smallest priority, in increasing order.

    >>> sample_rows(5, 10)
    array([0, 1, 2, 3, 4])
    """
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(np.argpartition(priority(np.arange(n_rows)), size)[:size])

"""The nearest other rows of every row: exact up to a size, then among rows in one bucket."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.features import Tick, silent
from adacorr.cleaning.models import unit

EXACT_ROWS = 20_000
TABLES = 6
"""Random partitions beyond `EXACT_ROWS`; a near copy meets its twin in one of them."""
BUCKET = 128
BLOCK = 256
SCORED = 8192


def nearest(
    x: NDArray[np.floating], k: int = 10, tick: Tick = silent, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(N, k) the nearest other rows by cosine, nearest first, and their distances in [0, 2].

    Beyond 20,000 rows these are the nearest found in six random partitions into buckets of about
    128 rows, so the time grows with N and near copies are found, but a far neighbour may be missed.
    `x` may be a memory map: a bucket's rows are read when they are compared. Fewer than k are
    filled up with the row itself at distance 2.

    >>> rows, far = nearest(np.array([[1, 0], [0, 1], [1, 0.1]], np.float32), k=1)
    >>> rows.ravel().tolist()
    [2, 2, 0]
    """
    n = len(x)
    rows = np.tile(np.arange(n)[:, None], (1, k))
    far = np.full((n, k), 2.0, np.float32)
    if n <= EXACT_ROWS:
        every, whole = np.arange(n), unit(x)
        for start in range(0, n, BLOCK):
            tick("comparing samples", start, n)
            block = every[start : start + BLOCK]
            _merge(rows, far, block, every, whole[block], whole)
        return rows, far
    rng = np.random.default_rng(seed)
    bits = int(np.ceil(np.log2(n / BUCKET)))
    for table in range(TABLES):
        tick("comparing samples", table, TABLES)
        for bucket in _buckets(x, bits, rng):
            for start in range(0, len(bucket), BLOCK):
                block, near = bucket[start : start + BLOCK], bucket[_around(start)]
                _merge(rows, far, block, near, unit(x[block]), unit(x[near]))
    return rows, far


def _around(start: int) -> slice:
    """A block and the blocks beside it: a bucket of very many equal rows is not compared whole."""
    return slice(max(0, start - BLOCK), start + 2 * BLOCK)


def _buckets(
    x: NDArray[np.floating], bits: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Halved `bits` times at the median of a random direction: buckets of about equal size."""
    directions = rng.standard_normal((x.shape[1], bits)).astype(np.float32)
    scores = np.empty((bits, len(x)), np.float32)
    for start in range(0, len(x), SCORED):
        scores[:, start : start + SCORED] = (unit(x[start : start + SCORED]) @ directions).T
    buckets = [np.arange(len(x))]
    for score in scores:
        buckets = [half for b in buckets for half in _halves(b, score[b]) if len(half)]
    return buckets


def _halves(rows: NDArray[np.int64], score: NDArray[np.float32]) -> list[NDArray[np.int64]]:
    low = score <= np.median(score)
    return [rows[low], rows[~low]]


def _merge(
    rows: NDArray[np.int64],
    far: NDArray[np.float32],
    block: NDArray[np.int64],
    others: NDArray[np.int64],
    x: NDArray[np.float32],
    y: NDArray[np.float32],
) -> None:
    """Take into the lists of `block` (at `x`) what is nearer among `others` (at `y`)."""
    k = rows.shape[1]
    distance = 1 - x @ y.T
    distance[block[:, None] == others[None, :]] = 2.0
    take = min(k, len(others))
    top = np.argpartition(distance, take - 1, axis=1)[:, :take]
    found = np.concatenate([rows[block], others[top]], axis=1)
    length = np.concatenate([far[block], np.take_along_axis(distance, top, axis=1)], axis=1)
    order = np.lexsort((length, found), axis=1)  # a row may have been met in several tables
    found, length = (np.take_along_axis(a, order, axis=1) for a in (found, length))
    again = np.zeros(found.shape, bool)
    again[:, 1:] = found[:, 1:] == found[:, :-1]
    found, length = np.where(again, block[:, None], found), np.where(again, 2.0, length)
    order = np.argsort(length, axis=1, kind="stable")[:, :k]
    rows[block] = np.take_along_axis(found, order, axis=1)
    far[block] = np.maximum(np.take_along_axis(length, order, axis=1), 0)

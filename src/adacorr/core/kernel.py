"""One pass over the rows of ``pred_probs``: argmax, likelihood ratio, flips and a check, together.

Two implementations give the same bits. numpy needs no start-up; a numba kernel is several times
faster, but importing numba costs more than numpy needs for a few million probabilities. Both run
in pieces on plain threads (numba's own thread pools do not survive a fork or concurrent callers).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import SURE_TOLERANCE, surely_distributions

_PIECE = 1 << 16  # probabilities per numpy piece: the piece stays in a core's cache
_PARALLEL = 1 << 18  # below this many probabilities threads cost more than they bring
_NUMBA_COLD = 1 << 22  # one call of this size is worth importing numba
_NUMBA_WARM = 1 << 15  # once it is imported, calls of this size are worth it
_INDEX_BITS = 20  # of the packed argmax key: up to a million classes
_FEW = 16  # with fewer classes a row is shorter than what a processor reduces at once
_BLOCK = 64  # rows that are turned into columns together

Kernel = Callable[..., int]


def scan(
    labels: NDArray[np.int64], pred_probs: NDArray[np.floating], delta: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_], list[slice]]:
    """``m = argmax f`` (first of ties), ``f[label] / f[m]`` in float64, flips, suspicious rows.

    Parameters
    ----------
    labels : (N,) class indices.
    pred_probs : (N, K) of any float type.
    delta : (1, 1) or (K, K) thresholds ``delta[m, label]``.

    Returns
    -------
    suggested, ratio, flipped : (N,), meaningless inside the suspicious slices.
    suspicious : the pieces in which some row is not surely a distribution with a valid label.
    """
    n, k = pred_probs.shape
    out = (np.empty(n, np.int64), np.empty(n, np.float64), np.empty(n, np.bool_))
    kernel, pieces = _plan(n, k, pred_probs.dtype)

    def run(piece: slice) -> int:
        return kernel(labels[piece], pred_probs[piece], delta, *(array[piece] for array in out))

    if len(pieces) == 1 or n * k < _PARALLEL:
        verdicts = [run(piece) for piece in pieces]
    else:
        verdicts = list(_pool(os.getpid()).map(run, pieces))
    return *out, [piece for piece, bad in zip(pieces, verdicts, strict=True) if bad]


def load(n_classes: int) -> None:
    """Make numba ready now; for callers who will make many calls of moderate size."""
    _numba_kernel(*_kind(np.dtype(np.float32), n_classes))


def threads() -> int:
    """How many threads a pass uses: the cores this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _plan(n: int, k: int, dtype: np.dtype[Any]) -> tuple[Kernel, list[slice]]:
    elements = n * k
    warm = _kind(dtype, k) in _compiled
    if elements >= (_NUMBA_WARM if warm else _NUMBA_COLD) and k < 1 << _INDEX_BITS:
        rows = max(1, _PIECE // k) if dtype == np.float16 else -(-n // (4 * threads()))
        return _call_numba, _pieces(n, rows)
    return _call_numpy, _pieces(n, max(1, _PIECE // k))


def _pieces(n: int, rows: int) -> list[slice]:
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


@cache
def _pool(pid: int) -> ThreadPoolExecutor:
    """One pool per process: a forked child does not inherit its parent's threads."""
    return ThreadPoolExecutor(threads(), thread_name_prefix="adacorr")


def _call_numpy(
    labels: NDArray[np.int64],
    f: NDArray[np.floating],
    delta: NDArray[np.float64],
    suggested: NDArray[np.int64],
    ratio: NDArray[np.float64],
    flipped: NDArray[np.bool_],
) -> int:
    if f.dtype == np.float16:  # exact, and the only way to a fast sum
        f = f.astype(np.float32)
    n, k = f.shape
    if not surely_distributions(f) or labels.min() < 0 or labels.max() >= k:
        return 1
    f.argmax(axis=1, out=suggested)
    rows = np.arange(n)
    np.divide(f[rows, labels], f[rows, suggested], out=ratio, dtype=np.float64)
    threshold = delta[0, 0] if delta.shape == (1, 1) else delta[suggested, labels]
    np.less(ratio, threshold, out=flipped)
    flipped &= suggested != labels
    return 0


def _call_numba(
    labels: NDArray[np.int64],
    f: NDArray[np.floating],
    delta: NDArray[np.float64],
    suggested: NDArray[np.int64],
    ratio: NDArray[np.float64],
    flipped: NDArray[np.bool_],
) -> int:
    if f.dtype == np.float16:
        f = f.astype(np.float32)
    f, labels = np.ascontiguousarray(f), np.ascontiguousarray(labels)
    delta = np.ascontiguousarray(delta)
    # Non-negative floats order like their bits as integers, and the sign bit tells the others:
    # integer operations rank and check at once, and compilers vectorise them.
    bits = f.view(np.uint32 if f.dtype == np.float32 else np.int64)
    low, high = 1 - SURE_TOLERANCE, 1 + SURE_TOLERANCE
    kernel = _numba_kernel(*_kind(f.dtype, f.shape[1]))
    return kernel(labels, f.ravel(), bits.ravel(), delta, low, high, suggested, ratio, flipped)


def _kind(dtype: np.dtype[Any], n_classes: int) -> tuple[bool, int]:
    """Which kernel: in single precision or not; for so many classes, or 0 for any number."""
    single = dtype != np.float64
    return single, n_classes if single and n_classes < _FEW else 0


_compiled: set[tuple[bool, int]] = set()  # kinds that a call finds ready


@cache
def _numba_kernel(single: bool, few: int) -> Kernel:
    """The kernel of a kind, compiled at first use and kept on disk."""
    import numba
    from numba import types

    short = _rows_columns(few) if few else _rows_packed
    function = short if single else _rows_select

    def array(kind: Any, dims: int = 1, readonly: bool = True) -> Any:  # takes writable ones too
        return types.Array(kind, dims, "C", readonly=readonly)

    f, bits = (types.float32, types.uint32) if single else (types.float64, types.int64)
    thresholds = (array(types.float64, 2), types.float64, types.float64)
    out = [array(kind, readonly=False) for kind in (types.int64, types.float64, types.boolean)]
    signature = types.int64(array(types.int64), array(f), array(bits), *thresholds, *out)
    # The error model of numpy: a division need not be able to raise, which would stop vectorising.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    options["fastmath"] = {"reassoc", "nsz", "contract"}
    try:
        kernel = numba.njit(signature, cache=True, **options)(function)
    except RuntimeError:  # no folder to keep compiled code in, such as a read-only install
        kernel = numba.njit(signature, **options)(function)
    _compiled.add((single, few))
    return kernel


def _rows_columns(few: int) -> Kernel:
    """float32, few classes: blocks of rows are turned into columns, each step then takes many rows.

    The number of classes is a constant of the compiled code. It is what makes turning cheap: as a
    variable, the compiler writes a loop of scatter instructions.
    """
    k = np.uint64(few)

    def kernel(labels, f, bits, delta, low, high, suggested, ratio, flipped):
        n, uniform, d = np.uint64(labels.size), delta.shape[0] == 1, delta[0, 0]
        low, high, negative = np.float32(low), np.float32(high), np.uint32(1 << 31)
        size = np.uint64(_BLOCK)
        column = np.empty(size * k, np.uint32)
        best, m = np.empty(size, np.uint32), np.empty(size, np.int32)
        total, given = np.empty(size, np.float32), np.empty(size, np.float32)
        column_f, best_f = column.view(np.float32), best.view(np.float32)
        for first in range(np.uint64(0), n, size):
            rows, wrong = min(size, n - first), False
            for i in range(rows):
                wrong |= np.uint64(labels[first + i]) >= k
            if wrong:
                return 1
            for i in range(rows):
                start = (first + i) * k
                for j in range(k):
                    column[j * size + i] = bits[start + j]
                given[i] = f[start + np.uint64(labels[first + i])]
            for i in range(rows):
                best[i], m[i], total[i] = column[i], 0, column_f[i]
            for j in range(np.uint64(1), k):
                for i in range(rows):
                    b = column[j * size + i]
                    total[i] += column_f[j * size + i]
                    m[i] = np.int32(j) if b > best[i] else m[i]
                    best[i] = max(b, best[i])  # a negative number has the largest bits of all
            for i in range(rows):
                sure = (total[i] >= low) & (total[i] <= high) & (best[i] < negative)
                wrong |= not sure
            if wrong:
                return 1
            for i in range(rows):
                y, r = labels[first + i], np.float64(given[i]) / np.float64(best_f[i])
                suggested[first + i], ratio[first + i] = m[i], r
                flipped[first + i] = (r < (d if uniform else delta[m[i], y])) & (m[i] != y)
        return 0

    return kernel


def _rows_packed(labels, f, bits, delta, low, high, suggested, ratio, flipped):
    """float32: value and index share one 64-bit key, so that argmax is a plain maximum."""
    n, k = labels.size, f.size // labels.size
    uniform, d = delta.shape[0] == 1, delta[0, 0]
    mask, negative = np.int64((1 << _INDEX_BITS) - 1), np.int64(1 << (31 + _INDEX_BITS))
    wrong = 0  # a NaN or infinity shows in the sum, a negative entry has the largest key of all
    for i in range(n):
        start = np.uint64(i) * np.uint64(k)
        total, key = np.float32(0), np.int64(-1)
        for j in range(np.uint64(k)):
            total += f[start + j]
            key = max(key, (np.int64(bits[start + j]) << _INDEX_BITS) | (mask - np.int64(j)))
        m, y = np.uint64(mask - (key & mask)), np.uint64(labels[i])
        if not (total >= low and total <= high) or key >= negative or y >= np.uint64(k):
            wrong, m, y = 1, np.uint64(0), np.uint64(0)
        r = np.float64(f[start + y]) / np.float64(f[start + m])
        suggested[i], ratio[i] = m, r
        flipped[i] = (r < (d if uniform else delta[m, y])) & (m != y)
    return wrong


def _rows_select(labels, f, bits, delta, low, high, suggested, ratio, flipped):
    """float64: the same by conditional moves, since a key of 64 bits has no room for an index."""
    n, k = labels.size, f.size // labels.size
    uniform, d = delta.shape[0] == 1, delta[0, 0]
    signs, wrong = bits[0], 0
    for i in range(n):
        start = np.uint64(i) * np.uint64(k)
        total, best, m = f[start], bits[start], np.uint64(0)
        signs |= best
        for j in range(np.uint64(1), np.uint64(k)):
            b = bits[start + j]
            total += f[start + j]
            signs |= b
            greater = b > best
            best = b if greater else best
            m = j if greater else m
        y = np.uint64(labels[i])
        if not (total >= low and total <= high) or y >= np.uint64(k):
            wrong, m, y = 1, np.uint64(0), np.uint64(0)
        r = f[start + y] / f[start + m]
        suggested[i], ratio[i] = m, r
        flipped[i] = (r < (d if uniform else delta[m, y])) & (m != y)
    return 1 if wrong or signs < 0 else 0

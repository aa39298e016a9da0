"""The compiled pass and the one of numpy give the same bits; both find the same bad rows."""

import numpy as np
import pytest

from adacorr.core import kernel


def rows(n, k, dtype, seed=0):
    rng = np.random.default_rng(seed)
    f = (rng.random((n, k)) ** 3 + 1e-4).astype(np.float64)
    f /= f.sum(axis=1, keepdims=True)
    f[::7, : k // 2] = f[::7, k - k // 2 :]  # ties
    f /= f.sum(axis=1, keepdims=True)
    return rng.integers(0, k, n), f.astype(dtype)


def run(function, labels, f, delta):
    n = len(labels)
    out = (np.empty(n, np.int64), np.empty(n), np.empty(n, bool))
    return function(labels, f, delta, *out), out


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 3, 15, 16, 101])  # on both sides of each kernel's own range
@pytest.mark.parametrize("pairs", [False, True])
def test_both_passes_give_the_same_bits(dtype, k, pairs):
    labels, f = rows(700, k, dtype)
    delta = np.random.default_rng(1).uniform(0.2, 1, (k, k)) if pairs else np.array([[0.8]])
    plain, compiled = (
        run(way, labels, f, delta) for way in (kernel._call_numpy, kernel._call_numba)
    )
    assert plain[0] == compiled[0] == 0
    for one, other in zip(plain[1], compiled[1], strict=True):
        np.testing.assert_array_equal(one, other)
    assert 0 < plain[1][2].sum() < 700


@pytest.mark.parametrize("k", [3, 40])
@pytest.mark.parametrize("value", [np.nan, np.inf, -0.2, 2.0])
def test_both_passes_name_the_piece_with_a_bad_row(k, value):
    labels, f = rows(300, k, np.float32)
    f[123, 1] = value
    for way in (kernel._call_numpy, kernel._call_numba):
        assert run(way, labels, f, np.array([[0.9]]))[0] != 0
    *_, suspicious = kernel.scan(labels, f, np.array([[0.9]]))
    assert any(piece.start <= 123 < piece.stop for piece in suspicious)

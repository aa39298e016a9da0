import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from adacorr.core.sampling import MAX_ELEMENTS, MAX_ROWS, priority, sample_rows, sample_size


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 3000), size=st.integers(1, 500), cuts=st.lists(st.integers(0, 3000)))
def test_parts_choose_the_same_rows_as_the_whole(n, size, cuts):
    edges = sorted({0, n, *(c for c in cuts if c < n)})
    kept = np.empty(0, np.int64)
    for start, stop in itertools.pairwise(edges):
        pool = np.concatenate([kept, np.arange(start, stop)])
        kept = pool[np.argsort(priority(pool))[:size]]
    np.testing.assert_array_equal(np.sort(kept), sample_rows(n, size))


def test_the_sample_is_spread_evenly():
    rows = sample_rows(1_000_000, 10_000)
    counts, _ = np.histogram(rows, bins=10, range=(0, 1_000_000))
    assert abs(counts - 1000).max() < 150
    assert abs((rows % 2).mean() - 0.5) < 0.02


def test_priorities_never_tie():
    assert len(np.unique(priority(np.arange(200_000)))) == 200_000


def test_the_size_is_bounded_in_rows_and_memory():
    assert sample_size(2) == MAX_ROWS
    assert sample_size(1000) * 1000 <= MAX_ELEMENTS
    assert sample_size(10**6) == 1000

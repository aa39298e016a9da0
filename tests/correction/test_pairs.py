from collections import Counter

import numpy as np

from adacorr.correction import pairs
from adacorr.correction.pairs import PairCounts


def test_merged_in_any_order_it_counts_like_a_counter(monkeypatch):
    monkeypatch.setattr(pairs, "_COMPACT", 50)
    keys = np.random.default_rng(0).integers(0, 300, 2000) ** 2
    whole = PairCounts()
    for part in np.split(keys, 20):
        whole = whole.merge(PairCounts.of(part))
    backwards = PairCounts()
    for part in np.split(keys, 20)[::-1]:
        backwards = PairCounts.of(part).merge(backwards)
    expected = sorted(Counter(keys.tolist()).items(), key=lambda item: (-item[1], item[0]))
    assert whole.top(10**6) == backwards.top(10**6) == expected
    assert whole == backwards
    assert whole != PairCounts.of(keys[1:])
    assert whole.total == 2000


def test_memory_is_bounded_and_the_frequent_stay(monkeypatch):
    monkeypatch.setattr(pairs, "MAX_PAIRS", 100)
    monkeypatch.setattr(pairs, "_COMPACT", 50)
    whole = PairCounts()
    for i in range(100):
        rare = np.arange(1000 + 30 * i, 1030 + 30 * i)
        whole = whole.merge(PairCounts.of(np.concatenate([rare, [7, 7, 8]])))
        assert len(whole.keys) <= 100
    assert whole.top(2) == [(7, 200), (8, 100)]

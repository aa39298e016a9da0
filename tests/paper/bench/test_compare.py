"""Paired comparisons against an exhaustive loop."""

from itertools import product

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.paper.bench.compare import compare, sign_flip_test


def records(pairs):
    return [
        {"dataset": "d", "noise": f"uniform:{i}", "seed": s, "method": m}
        | {"curves": {"test_accuracy": [v, 0.5]}, "selected_epoch": 1}
        for i, seeds in enumerate(pairs)
        for s, (va, vb) in enumerate(seeds)
        for m, v in (("a", va), ("b", vb))
    ]


def test_pairs_by_column_and_seed():
    result = compare(records([[(0.9, 0.8), (0.8, 0.8)], [(0.5, 0.6)]]), "a", "b", at="selected")
    assert (result.n, result.columns, result.wins) == (3, 2, 1)
    assert result.mean == pytest.approx((5 - 10) / 2)


def test_sign_flip_test_equals_the_exhaustive_loop():
    d = np.array([0.3, -0.1, 0.7, 0.2])
    extreme = [abs(np.dot(s, d)) >= abs(d.sum()) - 1e-12 for s in product([1, -1], repeat=4)]
    assert sign_flip_test(d, np.random.default_rng(0)) == pytest.approx(np.mean(extreme))


def test_sampled_test_is_small_for_a_clear_difference():
    assert sign_flip_test(np.full(20, 1.0), np.random.default_rng(0)) < 0.001


def test_nothing_shared():
    with pytest.raises(InputError, match="expected runs that a and c share"):
        compare(records([[(0.9, 0.8)]]), "a", "c")

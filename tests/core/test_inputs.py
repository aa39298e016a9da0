"""Wrong inputs are named, right ones are not."""

import numpy as np
import pytest

from adacorr import correct, noise
from adacorr.core.inputs import input_warnings


def problem(n=2000, k=5, rate=0.2, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    z = rng.normal(size=(n, k))
    z[np.arange(n), truth] += 4
    f = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return noise.inject(truth, noise.uniform(k, rate), rng), truth, f


@pytest.mark.parametrize("order", [[1, 2, 3, 4, 0], [0, 2, 1, 3, 4], [4, 3, 2, 1, 0]])
def test_columns_in_another_order_are_named_and_nothing_is_changed(order):
    labels, _, f = problem()
    result = correct(labels, f[:, order])
    assert any("another order" in sentence for sentence in result.warnings)
    assert result.n_flipped == 0


@pytest.mark.parametrize("k", [11, 40])
def test_two_columns_of_many_that_changed_places(k):
    """Their share of all rows is small, and yet each of their rows would be changed wrongly."""
    labels, _, f = problem(n=100 * k, k=k, rate=0.05)
    order = [*range(k - 2), k - 1, k - 2]
    result = correct(labels, f[:, order])
    assert f"column {k - 2} as {k - 1}, {k - 1} as {k - 2}" in result.warnings[0]
    assert result.n_flipped == 0


def test_a_few_rows_are_no_other_order():
    labels, _, f = problem(k=40, n=4000, rate=0.05)
    rare = np.flatnonzero(labels >= 38)
    keep = np.delete(np.arange(4000), rare[10:])
    assert not input_warnings(labels[keep], f[keep][:, [*range(38), 39, 38]])


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4, 0.6])
def test_noise_is_no_other_order(rate):
    labels, _, f = problem(rate=rate)
    assert not input_warnings(labels, f)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.45])
def test_pair_noise_is_no_other_order(rate):
    _, truth, f = problem()
    labels = noise.inject(truth, noise.pair(5, rate), 1)
    assert not input_warnings(labels, f)


def test_predictions_on_rows_that_the_model_has_seen():
    labels, _, _ = problem()
    f = np.eye(5)[labels] * 0.9995 + 0.0001
    assert "trained on" in correct(labels, f).warnings[0]

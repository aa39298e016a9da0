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


@pytest.mark.parametrize("k", [3, 10, 40])
def test_two_columns_that_changed_places_are_named(k):
    labels, _, f = problem(n=60 * k + 2000, k=k)
    order = np.arange(k)
    order[[1, 2]] = [2, 1]
    (sentence,) = input_warnings(labels, f[:, order])
    assert "(column 1 as 2, 2 as 1)" in sentence


def test_columns_sorted_as_text_are_named():
    labels, _, f = problem(n=4000, k=12)
    order = sorted(range(12), key=str)  # 0, 1, 10, 11, 2, ...
    assert "another order" in input_warnings(labels, f[:, order])[0]


@pytest.mark.parametrize("k", [2, 3, 30, 300])
@pytest.mark.parametrize("right", [0.0, 0.1, 0.5, 0.98])
def test_honest_models_raise_no_alarm(k, right):
    """Weak ones and strong ones, with a lean to one class, and on classes of unequal size."""
    rng = np.random.default_rng(k)
    n = 10 * k + 2000
    labels = np.minimum(rng.geometric(3 / k, n) - 1, k - 1) if k > 3 else rng.integers(0, k, n)
    guess = np.where(rng.random(n) < 0.3, 0, rng.permutation(labels))
    predicted = np.where(rng.random(n) < right, labels, guess)
    f = np.full((n, k), 0.1 / (k - 1))
    f[np.arange(n), predicted] = 0.9
    assert not input_warnings(labels, f)


def test_a_rare_class_that_is_called_too_often_is_no_other_order():
    """Fraud detection with balanced weights: nine of ten that are called are none."""
    rng = np.random.default_rng(0)
    fraud = rng.random(20_000) < 0.02
    called = np.where(fraud, rng.random(20_000) < 0.9, rng.random(20_000) < 0.3)
    f = np.where(called[:, None], [0.3, 0.7], [0.9, 0.1])
    assert not input_warnings(fraud.astype(int), f)


def test_a_very_good_model_on_clean_labels_is_no_alarm():
    """Sharp probabilities that are wrong about as often as they say, or a little more."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 20_000)
    for errors in (0.001, 0.002, 0.02):
        wrong = rng.random(20_000) < errors
        f = np.full((20_000, 10), errors / 18)
        f[np.arange(20_000), np.where(wrong, (labels + 1) % 10, labels)] = 1 - errors / 2
        assert not input_warnings(labels, f), errors


def test_a_model_that_memorised_noisy_labels_is_named():
    """It agrees with all labels, and expects more mistakes of itself than it makes."""
    labels, _, _ = problem(n=3000, k=10, rate=0.4)
    f = np.full((3000, 10), 0.012 / 9)
    f[np.arange(3000), labels] = 0.988
    assert "trained on" in input_warnings(labels, f)[0]

"""Estimators on the paper's 10-D mixture, where the noisy posterior is known exactly."""

import numpy as np
import pytest

from adacorr.core import noise
from adacorr.core.transition import estimate_transition
from adacorr.core.validation import InputError


def mixture(T, n=20_000, seed=0):
    """1/2 N(0, I) + 1/2 N(1, I) in ten dimensions; labels drawn from the exact noisy posterior."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 10)) + true[:, None]
    p = 1 / (1 + np.exp(-(x.sum(axis=1) - 5)))
    eta = np.stack([1 - p, p], axis=1)
    return noise.inject(true, T, rng), eta @ np.asarray(T)


@pytest.mark.parametrize("method", ["anchor", "confident"])
@pytest.mark.parametrize("T", [[[0.8, 0.2], [0.3, 0.7]], [[0.9, 0.1], [0.0, 1.0]]])
def test_recovers_a_known_T(method, T):
    labels, f = mixture(T)
    estimate = estimate_transition(labels, f, method)
    np.testing.assert_allclose(estimate.T, T, atol=0.04)
    np.testing.assert_allclose(estimate.T.sum(axis=1), 1)
    assert (estimate.counts > 0).all()


@pytest.mark.parametrize("method", ["anchor", "confident"])
def test_recovers_T_of_many_classes(method):
    rng = np.random.default_rng(1)
    T = 0.3 * rng.dirichlet(np.ones(6), 6) + 0.7 * np.eye(6)
    true = rng.integers(0, 6, 30_000)
    eta = np.full((30_000, 6), 0.002)
    eta[np.arange(30_000), true] = 0.99
    estimate = estimate_transition(noise.inject(true, T, rng), eta @ T, method)
    np.testing.assert_allclose(estimate.T, T, atol=0.03)


def test_noise_rate():
    T = noise.uniform(2, 0.3)
    labels, f = mixture(T)
    assert estimate_transition(labels, f).noise_rate == pytest.approx(0.3, abs=0.02)


def test_anchor_by_hand_and_pure():
    """The highest score of each class after dropping those above the 97th percentile."""
    rng = np.random.default_rng(2)
    f = rng.dirichlet(np.ones(3), 400)
    before = f.copy()
    T = estimate_transition(rng.integers(0, 3, 400), f, "anchor").T
    np.testing.assert_array_equal(f, before)
    for c in range(3):
        limit = np.percentile(before[:, c], 97)
        best = max((row for row in before if row[c] <= limit), key=lambda row: row[c])
        np.testing.assert_allclose(T[c], best)


def test_anchor_keeps_all_scores_of_a_hundred_classes():
    rng = np.random.default_rng(3)
    f = rng.dirichlet(np.ones(100), 200)
    T = estimate_transition(rng.integers(0, 100, 200), f, "anchor").T
    np.testing.assert_allclose(T[5], f[f[:, 5].argmax()])


def test_confident_by_hand():
    rng = np.random.default_rng(4)
    f = rng.dirichlet(np.ones(3) * 0.7, 3000)
    y = rng.integers(0, 3, 3000)
    threshold = [f[y == c, c].mean() for c in range(3)]
    joint = np.zeros((3, 3))
    for row, label in zip(f, y, strict=True):
        sure = [c for c in range(3) if row[c] >= threshold[c]]
        if sure:
            joint[max(sure, key=lambda c: row[c]), label] += 1
    estimate = estimate_transition(y, f, "confident")
    np.testing.assert_allclose(estimate.T, joint / joint.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(estimate.counts, joint.sum(axis=1))


def test_a_class_without_samples_says_so():
    f = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]])
    estimate = estimate_transition([0, 1], f)
    assert estimate.counts[2] == 0
    assert estimate.T[2].tolist() == [0, 0, 1]


def test_works_as_an_array_and_with_names():
    estimate = estimate_transition(["b", "a"], [[0.2, 0.8], [0.9, 0.1]])
    assert np.asarray(estimate).shape == (2, 2)


def test_unknown_method():
    with pytest.raises(InputError, match="method: expected 'anchor' or 'confident', got 'guess'"):
        estimate_transition([0, 1], [[0.2, 0.8], [0.9, 0.1]], "guess")  # pyright: ignore

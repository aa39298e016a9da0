"""``correct`` on probabilities and labels at the edge. Each test says what is sensible there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from adacorr.correction.arrays import Correction, correct


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def problem(n: int = 900, k: int = 4, rate: float = 0.25, margin: float = 4.0):
    """Truth, given labels and a good classifier."""
    rng = np.random.default_rng(k)
    truth = rng.integers(0, k, n)
    z = rng.standard_normal((n, k))
    z[np.arange(n), truth] += margin
    given = np.where(rng.random(n) < rate, (truth + rng.integers(1, k, n)) % k, truth)
    return truth, given, softmax(z)


def sound(result: Correction, k: int) -> Correction:
    """Whatever came in: class indices, ratios and confidences in [0, 1].

    NaN is the confidence of a refusal, which changes nothing, states no noise rate and says why.
    """
    assert np.isin(result.labels, np.arange(k)).all()
    assert ((result.ratio >= 0) & (result.ratio <= 1)).all()
    if result.confidence is not None and np.isnan(result.confidence).any():
        assert np.isnan(result.confidence).all()
        assert result.note
        assert result.noise_rate is None
        assert not result.flipped.any()
    elif result.confidence is not None:
        assert ((result.confidence >= 0) & (result.confidence <= 1)).all()
    return result


def run(labels, f, delta="auto") -> Correction:
    """Without a warning: the user could do nothing about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return sound(correct(labels, f, delta), f.shape[1])


def test_zeros_mean_impossible():
    """A label of probability exactly 0 has ratio 0 and is changed; nothing becomes NaN."""
    truth, given, f = problem()
    f[f < 0.05] = 0
    f /= f.sum(axis=1, keepdims=True)
    zero = f[np.arange(len(f)), given] == 0
    assert zero.sum() > 50
    for delta in (0.5, "auto"):
        result = run(given, f, delta)
        assert result.flipped[zero].mean() > 0.95
        assert (result.labels == truth).mean() > 0.9
    assert (run(given, f, 0.5).ratio[zero] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_denormals_decide_like_zeros(dtype):
    """A probability below the smallest normal number is as good as none."""
    _, given, f = problem()
    f = f.astype(dtype)
    f[f < 0.02] = 0
    f /= f.sum(axis=1, keepdims=True, dtype=dtype)
    tiny = np.where(f == 0, np.nextafter(dtype(0), dtype(1)) * 9, f)
    assert (tiny > 0).all()
    for delta in (0.5, "auto"):
        np.testing.assert_array_equal(run(given, tiny, delta).labels, run(given, f, delta).labels)


def test_half_precision_decides_like_the_same_numbers_in_double():
    """float16 loses digits when it is written, never afterwards."""
    _, given, f = problem()
    half = f.astype(np.float16)
    for delta in (0.5, "auto"):
        a, b = run(given, half, delta), run(given, half.astype(np.float64), delta)
        np.testing.assert_array_equal(a.labels, b.labels)
        np.testing.assert_allclose(a.ratio, b.ratio, rtol=1e-6)


@pytest.mark.parametrize("off", [-1e-3, 1e-3])
def test_rows_off_by_a_thousandth_decide_like_exact_ones(off):
    """Sums of 0.999 or 1.001 come from rounding: accepted, with the same decisions."""
    _, given, f = problem()
    for delta in (0.5, "auto"):
        a, b = run(given, f * (1 + off), delta), run(given, f, delta)
        assert (a.labels == b.labels).mean() > 0.998
        if delta != "auto":
            np.testing.assert_allclose(a.ratio, b.ratio, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 100, 1000, 20_000])
def test_any_number_of_classes(k):
    """Labels get better, or, where rows are too few to tell, are left alone; never worse."""
    n = 900 if k <= 100 else 120
    truth, given, f = problem(n, k, margin=5 + np.log(k))
    f = f.astype(np.float32)
    before = (given == truth).mean()
    assert (run(given, f, 0.5).labels == truth).mean() > before + 0.1
    result = run(given, f)
    assert (result.labels == truth).mean() > before + 0.1 or not result.flipped.any()


def test_one_in_ten_thousand():
    """A class that all but vanishes is not wiped out: these may be wrong labels or rare events."""
    n, rare = 50_000, np.arange(0, 50_000, 10_000)
    rng = np.random.default_rng(0)
    truth = np.zeros(n, int)
    truth[rare] = 1
    z = rng.standard_normal((n, 2))
    z[np.arange(n), truth] += 8
    f = softmax(z).astype(np.float32)
    clean = run(truth, f)
    assert clean.n_flipped <= 2
    given = np.where(rng.random(n) < 0.05, 1 - truth, truth)
    given[rare] = 1
    result = run(given, f)
    assert (result.labels == given).all()
    assert result.suspicion is not None
    wrong = given != truth
    assert result.suspicion[wrong].min() > result.suspicion[~wrong].max() - 0.01
    answers = {int(row): int(truth[row]) for row in np.flatnonzero(given)[:50]}
    informed = correct(given, f, verified=answers)
    assert (informed.labels == truth).mean() > 0.999  # 95% before
    assert informed.labels[rare].sum() >= 4


def test_all_labels_equal():
    """Nothing can be learnt about noise from one class: nothing is changed, and nothing fails."""
    _, given, f = problem()
    result = run(np.zeros_like(given), f)
    assert not result.flipped.any()
    assert result.note


def test_duplicated_rows_share_their_fate():
    """Equal rows get equal answers, and a table written twice is not another table."""
    _, given, f = problem(600)
    for delta in (0.5, "auto"):
        once = run(given, f, delta)
        twice = run(np.tile(given, 2), np.tile(f, (2, 1)), delta)
        np.testing.assert_array_equal(twice.labels[:600], twice.labels[600:])
        assert (twice.labels[:600] == once.labels).mean() > 0.985


def test_perfect_labels_stay():
    """Where nothing is wrong, next to nothing is changed, and the interval says so."""
    truth, given, f = problem(rate=0)
    result = run(given, f)
    assert result.n_flipped <= 0.01 * len(truth)
    assert result.noise_rate_interval is not None
    low, high = result.noise_rate_interval
    assert low == 0
    assert high < 0.03


def test_random_labels_and_a_model_of_them_are_left_alone():
    """Labels drawn by lot, and predictions learnt from them, hold no evidence for any change."""
    rng = np.random.default_rng(3)
    given = rng.integers(0, 4, 900)
    f = softmax(0.3 * rng.standard_normal((900, 4)))
    result = run(given, f)
    assert result.n_flipped <= 0.02 * 900


def test_random_labels_against_a_good_model():
    """The labels carry no information: whatever is changed follows the model, and most stays
    unsure; numbers stay numbers."""
    truth, _, f = problem()
    given = np.random.default_rng(5).integers(0, 4, len(truth))
    result = run(given, f)
    assert (result.labels == truth).mean() >= (given == truth).mean() - 0.02

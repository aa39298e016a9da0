"""Where the assumptions hold, the stated numbers are the true ones."""

import numpy as np
import pytest

from adacorr.core import noise
from adacorr.core.assess import assess
from adacorr.core.calibration import posterior


def problem(k=5, n=6000, rate=0.3, sharpness=1.25, seed=0):
    """A clean posterior eta, labels drawn from it and from T, and an overconfident model of eta."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=5, size=(n, k))
    eta = np.exp(logits)
    eta /= eta.sum(axis=1, keepdims=True)
    truth = (eta.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    T = noise.uniform(k, rate)
    given = noise.inject(truth, T, rng)
    f = np.exp(sharpness * logits)
    f /= f.sum(axis=1, keepdims=True)
    return truth, given, f, T, eta


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_stated_numbers_are_close_to_the_truth(rate):
    truth, given, f, T, eta = problem(rate=rate)
    final = posterior(eta.T, T, given)[0].argmax(axis=0)
    held = slice(0, 1500)
    found = assess(given, final, f, (given[held], f[held]))
    assert found is not None
    for rows in (final != given, final == given):
        true = (final != truth)[rows].sum()
        assert found.expected_wrong(rows) == pytest.approx(true, rel=0.35)
    sure = found.confidence > 0.9
    assert (final == truth)[sure].mean() == pytest.approx(found.confidence[sure].mean(), abs=0.03)


def test_held_out_labels_may_be_clean():
    truth, given, f, T, eta = problem()
    final = posterior(eta.T, T, given)[0].argmax(axis=0)
    held = slice(0, 1500)
    flips = final != given
    true = (final != truth)[flips].sum()
    ratios = []
    for same_noise in (False, True):
        found = assess(given, final, f, (truth[held], f[held]), same_noise=same_noise)
        assert found is not None
        ratios.append(found.expected_wrong(flips) / true)
    assert abs(ratios[0] - 1) < 0.35
    assert abs(ratios[0] - 1) < abs(ratios[1] - 1)  # to call clean labels noisy is worse


def test_too_few_rows_or_too_many_classes_give_nothing():
    _, given, f, _, _ = problem(n=200)
    held = slice(0, 49)
    assert assess(given, given, f, (given[held], f[held])) is None
    wide = np.full((100, 1001), 1 / 1001)
    y = np.arange(100)
    assert assess(y, y, wide, (y, wide)) is None


def test_many_classes_and_inputs_stay_unchanged():
    truth, given, f, _, _ = problem(k=150, n=3000)
    before = given.copy(), f.copy()
    held = slice(0, 600)
    final = f.argmax(axis=1)
    found = assess(given, final, f, (given[held], f[held]))
    assert found is not None
    assert found.confidence.shape == (3000,)
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    right = final == truth
    assert found.confidence[right].mean() > found.confidence[~right].mean()
    np.testing.assert_array_equal(before[0], given)
    np.testing.assert_array_equal(before[1], f)

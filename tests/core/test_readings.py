"""Intervals of what a reading states, against counting and against known truth."""

import numpy as np
import pytest

from adacorr import correct, noise
from adacorr.core.readings import WrongChanges, interval_by_class, interval_open


def test_wrong_changes_move_with_the_odds_of_the_rate():
    confidence = np.array([0.6, 0.9, 0.99])
    found = WrongChanges.of(confidence, 0.2, (0.1, 0.3))
    for end, better, total in ((0.1, 0.5, found.high), (0.3, 2, found.low)):
        wrong = 0.0
        for p in confidence:
            odds = better * p / (1 - p) * (end / (1 - end)) / (0.2 / 0.8)
            wrong += 1 / (1 + odds)
        assert total == pytest.approx(wrong)
    assert found.count == pytest.approx((1 - confidence).sum())


def test_parts_of_the_changes_add_up_to_the_whole():
    confidence = np.random.default_rng(0).uniform(0.5, 1, 100)
    whole = WrongChanges.of(confidence, 0.1, (0.05, 0.2))
    parts = [WrongChanges.of(part, 0.1, (0.05, 0.2)) for part in np.split(confidence, 4)]
    merged = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    assert merged.count == pytest.approx(whole.count)
    assert merged.interval(100) == pytest.approx(whole.interval(100))


def test_the_interval_stays_between_none_and_all_changes():
    sure, never = np.full(3, 1.0), np.full(3, 0.5)
    assert WrongChanges.of(sure, 0.1, (0.0, 1.0)).interval(3)[0] == pytest.approx(0, abs=1e-6)
    assert WrongChanges.of(never, 0.1, (0.0, 0.1)).interval(3)[1] == 3
    assert WrongChanges.of(np.zeros(0), 0.1, (0.0, 0.1)).interval(0) == (0, 0)


@pytest.mark.parametrize("rate", [0.1, 0.3])
@pytest.mark.parametrize("kind", [noise.uniform, noise.pair])
def test_the_true_number_of_wrong_changes_lies_in_the_interval(rate, kind):
    rng = np.random.default_rng(7)
    truth = rng.integers(0, 5, 3000)
    logits = rng.normal(0, 1, (3000, 5))
    logits[np.arange(3000), truth] += 3
    eta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    T = kind(5, rate)
    given = noise.inject(truth, T, rng)
    result = correct(given, eta @ T)
    wrong = (result.flipped & (result.labels != truth)).sum()
    assert result.n_flipped > 50
    assert result.expected_wrong_flips_interval is not None
    low, high = result.expected_wrong_flips_interval
    assert low <= result.expected_wrong_flips <= high
    assert low <= wrong <= high


def test_intervals_of_the_rate_hold_what_they_are_made_of():
    assert interval_by_class(0.01, 100, 0.2, opposed=0.2)[0] == 0
    assert interval_open(0.0, 100)[1] == pytest.approx(4 * (0.01 + 2 * np.sqrt(0.01 * 0.99 / 100)))
    assert 0.6 < interval_open(0.6, 100)[1] < 0.71

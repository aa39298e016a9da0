import numpy as np
import pytest

from adacorr import Correction, correct
from adacorr.estimators.refit import trusted_rows


def correction(labels, flipped, right, noise_rate=0.2):
    """Rows of two classes: `right` is the probability of the given label."""
    right, flipped = np.array(right, dtype=float), np.array(flipped)
    confidence = np.where(flipped, 1 - right, right)
    return Correction(
        labels=np.array(labels),
        ratio=np.where(flipped, right / confidence, 1.0),
        flipped=flipped,
        suggested=np.array(labels),
        confidence=confidence,
        noise_rate=noise_rate,
    )


def by_loop(y, found, weight):
    """The rule as a person would do it, class by class."""
    right = found.confidence * found.ratio
    sure = [r >= min(0.5 + found.noise_rate, 0.9) for r in right] & ~found.flipped
    part = min(1.0, sum(weight[sure]) / sum(weight * right))
    chosen = np.zeros(len(y), dtype=bool)
    for c in set(y):
        quota = part * sum(
            w * r for w, r, label in zip(weight, right, y, strict=True) if label == c
        )
        taken = 0.0
        for i in sorted(np.flatnonzero(y == c), key=lambda i: -right[i]):
            if taken >= quota:
                break
            chosen[i] = not found.flipped[i]
            taken += weight[i]
    return chosen


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_a_loop(seed, weighted):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 600)
    y = np.where(rng.random(600) < 0.3, rng.integers(0, 3, 600), truth)
    f = rng.dirichlet(np.ones(3), 600) + 1.5 * np.eye(3)[truth]
    found = correct(y, f, normalize=True)
    assert found.n_flipped > 50
    weight = rng.integers(1, 4, 600) * 1.0 if weighted else None
    rows = trusted_rows(y, found, weight)
    expected = by_loop(y, found, np.ones(600) if weight is None else weight)
    np.testing.assert_array_equal(rows, expected)
    assert not rows[found.flipped].any()


def test_the_harder_class_keeps_its_share():
    easy, hard = [0.95] * 10, [0.69] * 6 + [0.4] * 4
    y = np.repeat([0, 1], 10)
    flipped = np.array([False] * 16 + [True] * 4)
    found = correction(np.where(flipped, 0, y), flipped, easy + hard)
    assert not (found.confidence[10:] >= 0.5 + found.noise_rate).any()  # one threshold: none
    rows = trusted_rows(y, found)
    assert rows[:10].all()  # ties stay together
    assert rows[10:16].all()
    assert not rows[16:].any()


def test_more_noise_more_doubt():
    right = np.linspace(0.51, 1, 50)
    y = np.arange(50) % 2
    flipped = np.arange(50) == 0
    kept = [
        trusted_rows(y, correction(np.where(flipped, 1, y), flipped, right, rate)).sum()
        for rate in (0.05, 0.2, 0.4, 0.6)
    ]
    assert kept[0] > kept[1] > kept[2] == kept[3] > 0


def test_a_class_that_is_nowhere_trusted_keeps_what_it_got():
    y = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    labels = np.array([0, 0, 1, 1, 2, 2, 2, 2])
    right = [0.9, 0.9, 0.1, 0.1, 0.1, 0.1, 0.9, np.nan]
    rows = trusted_rows(y, correction(labels, labels != y, right))
    assert rows.tolist() == [True, True, True, True, False, False, True, True]


def test_unchanged_labels_are_all_trusted():
    y = np.array([0, 1, 0])
    assert trusted_rows(y, correction(y, [False] * 3, [0.9, 0.5, 0.6])).all()

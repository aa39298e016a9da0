"""Labels that are wrong by class, and targets that are only half decided."""

import numpy as np
import pytest

from adacorr.core import noise
from adacorr.core.auto import Ground, fit_auto
from adacorr.core.plateau import Disagreement, read_plateau


def undecided(n: int, k: int, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from probabilities that a perfect model knows: none of them is wrong."""
    rng = np.random.default_rng(3)
    logits = strength * rng.normal(size=(n, k))
    f = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return (rng.random((n, 1)) > f.cumsum(axis=1)).sum(axis=1).clip(max=k - 1), f


@pytest.mark.parametrize("k", [2, 4, 10])
@pytest.mark.parametrize("strength", [0.5, 1.0, 2.0])
def test_a_target_that_is_half_decided_has_no_wrong_labels(k, strength):
    labels, f = undecided(3000, k, strength)
    assert (f.argmax(axis=1) != labels).mean() > 0.1  # the model opposes many
    rule = fit_auto(labels, f)
    assert rule.ground in (Ground.OPEN, Ground.NONE)
    assert not rule.decide(labels, f).flipped.any()


@pytest.mark.parametrize("k", [2, 4, 10])
def test_labels_wrong_at_one_rate_on_clear_rows_are_found(k):
    truth, eta = undecided(3000, k, 8.0)
    truth = eta.argmax(axis=1)  # clear rows, all labels right
    T = noise.uniform(k, 0.2)
    given = noise.inject(truth, T, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    logits = np.log(np.maximum(eta, 1e-3)) + rng.normal(0, 1, eta.shape)
    f = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rule = fit_auto(given, f)
    assert rule.ground is Ground.CLASSES
    assert (rule.decide(given, f).suggested == truth).mean() > (given == truth).mean() + 0.1


def test_both_parts_have_to_hold():
    def parts(*shares, rows=300):
        plateau = Disagreement(*shares, rows, guessing=0.5)
        return plateau.clear, plateau.flat

    assert parts(0.2, 0.2) == (True, True)
    assert parts(0.4, 0.4) == (False, True)
    assert parts(0.05, 0.15) == (True, False)
    assert parts(0.05, 0.15, rows=20) == (True, True)  # so few rows do not show a rise


def test_the_tenths_are_those_of_each_predicted_class():
    f = np.concatenate([np.tile([0.9, 0.1], (100, 1)), np.tile([0.4, 0.6], (100, 1))])
    labels = np.concatenate([np.zeros(100, int), np.repeat([0, 1], 50)])
    found = read_plateau(labels, f)
    assert found.rows == 60
    assert found.guessing == 0.25
    assert found.sure + found.following > 0

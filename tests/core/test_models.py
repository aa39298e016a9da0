"""Several models: their mean, each of them checked."""

from __future__ import annotations

import numpy as np
import pytest

import adacorr
from adacorr.core.models import mean_probs, models_of
from adacorr.core.validation import InputError

F = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
G = np.array([[0.7, 0.3], [0.4, 0.6], [0.4, 0.6]])


@pytest.mark.parametrize("several", [[F, G], (F, G), np.stack([F, G]), [F.tolist(), G.tolist()]])
def test_lists_tuples_and_stacks_are_their_mean(several):
    f, columns = mean_probs(several)
    np.testing.assert_allclose(f, (F + G) / 2)
    assert columns is None
    one = adacorr.correct([0, 1, 1], (F + G) / 2, delta=0.9)
    many = adacorr.correct([0, 1, 1], several, delta=0.9)
    np.testing.assert_array_equal(one.labels, many.labels)
    np.testing.assert_allclose(one.ratio, many.ratio)
    np.testing.assert_array_equal(adacorr.ask([0, 1, 1], several), adacorr.ask([0, 1, 1], f))


def test_one_array_is_not_several():
    assert models_of(F) is None
    assert models_of(F.tolist()) is None
    assert models_of([F[0], F[1]]) is None


def test_inputs_stay_and_single_precision_stays():
    before = F.astype(np.float32), G.astype(np.float32)
    copies = [f.copy() for f in before]
    f, _ = mean_probs(before)
    assert f.dtype == np.float32
    for a, b in zip(before, copies, strict=True):
        np.testing.assert_array_equal(a, b)


def test_each_model_is_checked_by_its_number():
    bad = G.copy()
    bad[1, 0] = 3.0
    with pytest.raises(InputError, match=r"pred_probs\[1\]: expected rows with a sum of 1"):
        mean_probs([F, bad])
    with pytest.raises(InputError, match=r"pred_probs\[1\]: expected shape \(3, 2\), got \(2, 2\)"):
        mean_probs([F, G[:2]])
    np.testing.assert_allclose(mean_probs([F, 2 * G], normalize=True)[0], (F + G) / 2)


def test_columns_must_agree():
    pd = pytest.importorskip("pandas")
    one = pd.DataFrame(F, columns=["cat", "dog"])
    with pytest.raises(InputError, match=r"pred_probs\[1\]: expected the columns"):
        mean_probs([one, pd.DataFrame(G, columns=["dog", "cat"])])
    result = adacorr.correct(["dog", "cat", "cat"], [one, one], delta=0.9)
    assert result.labels.tolist() == ["cat", "dog", "cat"]


def test_two_models_with_errors_of_their_own_beat_each():
    """Not a law: with equally good models whose errors are independent, it must hold."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 4000)

    def model():
        z = 1.5 * rng.standard_normal((4000, 4))
        z[np.arange(4000), truth] += 3
        return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)

    labels = adacorr.noise.inject(truth, adacorr.noise.uniform(4, 0.2), 5)
    f, g = model(), model()
    right = [(adacorr.correct(labels, p).labels == truth).mean() for p in (f, g, [f, g])]
    assert right[2] > max(right[:2]) + 0.01

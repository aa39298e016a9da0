import json

import numpy as np
import pytest

from adacorr.core.lrt import ThresholdRule
from adacorr.core.noise import inject
from adacorr.paper.theory import synthetic
from adacorr.paper.theory.bounds import noisy_posterior


@pytest.fixture(scope="module")
def result():
    return synthetic.run_synthetic(seed=0, tsne=60)


def test_constants_are_the_papers(result):
    # SPEC of the paper's supplement: C 0.58, lambda 1.27.
    assert abs(result.fit.C - 0.58) < 0.02
    assert abs(result.fit.lam - 1.27) < 0.03
    assert result.interval.lam[0] < 1.27 < result.interval.lam[1]
    assert result.interval.C[0] < 0.58 < result.interval.C[1]


def test_eta_is_the_posterior_of_the_mixture():
    sample = synthetic.draw_mixture(200_000, np.random.default_rng(0))
    away0 = (sample.features**2).sum(axis=1)
    away1 = ((sample.features - 1) ** 2).sum(axis=1)
    printed = 1 / (1 + np.exp((away1 - away0) / 2))
    assert np.allclose(sample.eta, printed)
    middle = (sample.eta > 0.4) & (sample.eta < 0.6)
    assert np.mean(sample.labels[middle]) == pytest.approx(0.5, abs=0.03)


def test_lemma2_and_the_envelope_bound_hold_on_the_sample(result):
    for curve in result.bounds.values():
        assert curve.low == 0
        assert curve.worst[0] == 0
        assert (np.diff(curve.worst) >= 0).all()
        # The grid of the envelope starts at t = 0.01; below it nothing is promised.
        inside = curve.eps / (1 - curve.tau10 - curve.tau01) >= 0.01
        assert (curve.worst[inside] <= curve.envelope_bound[inside] + 1e-12).all()
        assert (curve.bound <= curve.envelope_bound).all()


def test_correction_mends_and_stays_below_the_envelope_bound(result):
    for curve in result.corrections:
        assert curve.after < 0.3 * curve.before
        assert curve.after == pytest.approx(curve.worst[0])
        seen = ~np.isnan(curve.envelope_bound)
        seen &= curve.eps >= 0.01
        assert seen.any()
        assert (curve.worst[seen] <= curve.envelope_bound[seen]).all()
    symmetric = result.corrections[0]
    assert symmetric.after == 0
    assert np.allclose(symmetric.bound, symmetric.printed)


def test_worst_classifier_of_the_correction_equals_a_plain_simulation():
    rng = np.random.default_rng(5)
    sample = synthetic.draw_mixture(3000, rng)
    from adacorr.paper.theory.tsybakov import BINARY_GRID, binary_margin, fit_tsybakov

    fit = fit_tsybakov(binary_margin(sample.eta), BINARY_GRID)
    curve = synthetic.correction_curve(sample, 0.1, 0.3, fit, np.random.default_rng(9))
    T = synthetic.transition(0.1, 0.3)
    given = inject(sample.labels, T, np.random.default_rng(9))
    f = noisy_posterior(np.column_stack([1 - sample.eta, sample.eta]), T)
    eps = float(curve.eps[20])
    rows, wrong = np.arange(3000), np.zeros(3000, dtype=bool)
    for sign in (-1, 1):
        moved = np.clip(f[rows, given] + sign * eps, 0, 1)
        both = np.empty_like(f)
        both[rows, given], both[rows, 1 - given] = moved, 1 - moved
        decision = ThresholdRule.create(curve.delta, 2).decide(given, both)
        wrong |= np.where(decision.flipped, decision.suggested, given) != sample.right
    assert curve.worst[20] == pytest.approx(wrong.mean(), abs=1e-9)


def test_numbers_are_json_and_follow_from_the_seed(result):
    numbers = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert {"C", "lambda", "r2", "envelope", "interval", "bounds", "corrections"} <= set(numbers)
    assert None in numbers["corrections"][3]["bound"]  # its condition fails for larger eps
    again = synthetic.run_synthetic(seed=0, tsne=60)
    assert again.as_dict() == result.as_dict()
    assert np.array_equal(again.embedding.positions, result.embedding.positions)
    assert synthetic.run_synthetic(seed=1, tsne=60).fit.C != result.fit.C


def test_embedding_has_the_papers_panels(result):
    assert list(result.embedding.panels) == [
        "Clean labels",
        "20% symmetric noise",
        "Symmetric noise, corrected",
        "20% asymmetric noise",
        "Asymmetric noise, corrected",
    ]
    assert result.embedding.positions.shape == (60, 2)


def test_illustration_corrects_to_the_side_of_zero():
    result = synthetic.run_illustration()
    assert (result.corrected == (result.x > 0)).all()
    assert (result.given != result.corrected).any()
    assert np.allclose(result.f, 0.2 + 0.6 * result.eta)
    assert (result.ratio.max(axis=0) == 1).all()
    json.dumps(result.as_dict(), allow_nan=False)
    assert (synthetic.run_illustration(seed=1).x != result.x).any()

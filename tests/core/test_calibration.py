"""The numerical parts of the fit of noise by class, each beside a naive or independent version."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize_scalar
from scipy.special import softmax as other_softmax

from adacorr.core import calibration, noise


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    T = noise.uniform(3, 0.3)
    eta = rng.dirichlet(np.full(3, 0.5), 200)
    labels = np.array([rng.choice(3, p=row) for row in eta @ T])
    return labels, eta, T


def test_posterior_equals_bayes_rule_row_by_row(sample):
    labels, eta, T = sample
    joint, likelihood = calibration.posterior(eta.T, T, labels)
    for i, g in enumerate(labels):
        terms = [eta[i, j] * T[j, g] for j in range(3)]
        assert likelihood[i] == pytest.approx(sum(terms))
        np.testing.assert_allclose(joint[:, i], np.array(terms) / sum(terms))
    total = sum(np.log(float(eta[i] @ T[:, g])) for i, g in enumerate(labels))
    assert calibration.log_likelihood(eta.T, T, labels) == pytest.approx(total)


def test_softmax_equals_scipys_and_depends_on_its_own_column_alone():
    logits = np.random.default_rng(1).normal(size=(5, 80)) * 50
    found = calibration.softmax(logits)
    np.testing.assert_allclose(found, other_softmax(logits, axis=0), atol=1e-15)
    np.testing.assert_array_equal(found[:, 7:9], calibration.softmax(logits[:, 7:9]))


@pytest.mark.parametrize("peak", [-0.9, 0.0, 0.77])
def test_golden_section_equals_scipys_bounded_search(peak):
    def score(x):
        return -((x - peak) ** 2) + 0.1 * np.cos(x)

    other = minimize_scalar(lambda x: -score(x), bounds=(-1, 1), method="bounded")
    assert calibration.golden_section(score, -1, 1, 1e-5) == pytest.approx(other.x, abs=1e-4)


@pytest.mark.parametrize(("prior", "ridge"), [(None, None), (2.0, None), (2.0, 10.0)])
def test_the_gradient_is_that_of_the_objective(sample, prior, ridge):
    labels, eta, T = sample
    features = calibration.log_features(eta)
    strength = None if prior is None else prior * T
    both = calibration._objective(labels, features, T, strength, ridge)
    size = 1 + 3 + (0 if ridge is None else 9) + (0 if prior is None else 9)
    theta = np.random.default_rng(2).normal(size=size) * 0.3 + np.eye(1, size)[0]
    error = check_grad(lambda t: both(t)[0], lambda t: both(t)[1], theta)
    assert error < 1e-5

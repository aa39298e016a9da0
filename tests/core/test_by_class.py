"""The automatic rule: exact where the model is exact, harmless where it knows nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from adacorr.core import noise
from adacorr.core.by_class import (
    MIN_ROWS,
    ClassNoiseRule,
    Unmix,
    Verdict,
    combine,
    fit_by_class,
    shrunk_transition,
)
from adacorr.core.calibration import (
    _objective,
    log_features,
    log_likelihood,
    maximise,
    posterior,
    softmax,
)


def mixture(n: int, k: int, separation: float, seed: int):
    """Gaussian classes with known posterior: true labels and (N, K) eta."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    z = rng.standard_normal((n, k))
    z[np.arange(n), truth] += separation
    return truth, softmax(separation * z.T).T


def corrected(rule: ClassNoiseRule, labels, f):
    decision = rule.decide(labels, f)
    return np.where(decision.flipped, decision.suggested, labels)


def exact_rule(T, **changes):
    k = len(T)
    return ClassNoiseRule(T, np.asarray(1.0), np.zeros(k), **changes)


def test_known_posterior_is_bayes_row_by_row():
    truth, eta = mixture(300, 4, 2.0, 1)
    T = noise.uniform(4, 0.3)
    labels = noise.inject(truth, T, 2)
    p = exact_rule(T).posterior(labels, eta)
    for i in range(len(labels)):
        joint = np.maximum(eta[i], 1e-4) * T[:, labels[i]]
        np.testing.assert_allclose(p[i], joint / joint.sum(), rtol=1e-9)


def test_decision_is_the_papers_test_with_one_threshold_per_pair():
    truth, eta = mixture(500, 3, 2.0, 3)
    T = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
    labels = noise.inject(truth, T, 4)
    eta = np.maximum(eta, 1e-4)
    decision = exact_rule(T).decide(labels, eta)
    m = (eta * T.T[labels]).argmax(axis=1)
    rows = np.arange(len(labels))
    flipped = eta[rows, labels] / eta[rows, m] < T[m, labels] / T[labels, labels]
    np.testing.assert_array_equal(decision.flipped, flipped)
    np.testing.assert_array_equal(decision.suggested, np.where(flipped, m, labels))
    assert (decision.ratio[flipped] < 1).all()
    assert (decision.ratio[~flipped] == 1).all()


def test_gradient_matches_finite_differences():
    rng = np.random.default_rng(0)
    truth, eta = mixture(60, 3, 1.5, 5)
    labels = noise.inject(truth, noise.pair(3, 0.3), 6)
    function = _objective(labels, log_features(eta), np.eye(3), np.eye(3) + 0.1, 2.0)
    theta = 0.3 * rng.standard_normal(1 + 3 + 9 + 9)
    _, gradient = function(theta)
    for i in range(len(theta)):
        step = np.zeros_like(theta)
        step[i] = 1e-5
        slope = (function(theta + step)[0] - function(theta - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=1e-7)


def test_fixed_transition_recovers_the_map():
    truth, eta = mixture(4000, 3, 2.0, 7)
    T = noise.uniform(3, 0.3)
    labels = noise.inject(truth, T, 8)
    flat = softmax(0.5 * np.log(np.maximum(eta, 1e-12)).T)  # an under-confident classifier
    fit = maximise(labels, log_features(flat.T), T, prior=None, ridge=None)
    assert float(fit.weight) == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("spec", ["uniform:0.1", "uniform:0.4"])
def test_near_bayes_when_the_model_learnt_the_noise(k, spec):
    truth, eta = mixture(3000, k, 3.0, 9)
    T = noise.parse(spec, k)
    labels = noise.inject(truth, T, 10)
    rule = fit_by_class(labels, eta @ T)
    bayes = ((eta * T.T[labels]).argmax(axis=1) == truth).mean()
    assert (corrected(rule, labels, eta @ T) == truth).mean() > bayes - 0.01
    assert rule.summary["noise_rate"] == pytest.approx(float(spec.split(":")[1]), abs=0.03)


@pytest.mark.parametrize("spec", ["uniform:0.2", "pair:0.2", "pair:0.4"])
def test_near_bayes_and_honest_when_the_model_is_clean_but_tempered(spec):
    truth, eta = mixture(3000, 5, 2.5, 11)
    T = noise.parse(spec, 5)
    labels = noise.inject(truth, T, 12)
    f = softmax(0.4 * np.log(np.maximum(eta, 1e-4)).T).T
    rule = fit_by_class(labels, f)
    decision = rule.decide(labels, f)
    new = np.where(decision.flipped, decision.suggested, labels)
    bayes = ((eta * T.T[labels]).argmax(axis=1) == truth).mean()
    assert (new == truth).mean() > bayes - 0.02
    wrong = (new != truth)[decision.flipped].sum()
    assert wrong / 2 <= (1 - decision.confidence)[decision.flipped].sum() <= 2 * wrong + 5
    np.testing.assert_allclose(rule.T, T, atol=0.1)


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("temper", [0.3, 1.0, 2.0])
def test_clean_labels_are_left_alone_whatever_the_confidence(k, temper):
    truth, eta = mixture(2000, k, 2.0, 13)
    f = softmax(temper * np.log(np.maximum(eta, 1e-4)).T).T
    rule = fit_by_class(truth, f)
    assert (corrected(rule, truth, f) == truth).mean() >= 0.995


def test_confident_mistakes_in_one_class_are_not_taken_for_noise():
    truth, eta = mixture(4000, 2, 2.0, 31)
    mistaken = (eta[:, 1] > 0.5) & (np.random.default_rng(32).random(4000) < 0.03)
    truth = np.where(mistaken, 0, truth)
    assert (corrected(fit_by_class(truth, eta), truth, eta) == truth).mean() >= 0.995


def test_large_noise_in_one_class_is_corrected():
    truth, eta = mixture(4000, 2, 2.0, 33)
    T = np.array([[1.0, 0.0], [0.25, 0.75]])
    labels = noise.inject(truth, T, 34)
    new = corrected(fit_by_class(labels, eta), labels, eta)
    bayes = ((eta * T.T[labels]).argmax(axis=1) == truth).mean()
    assert (new == truth).mean() > bayes - 0.02
    assert (new == truth).mean() > (labels == truth).mean() + 0.03


@pytest.mark.parametrize("seed", [37, 39, 41])
def test_two_classes_share_one_rate_at_high_noise(seed):
    truth, eta = mixture(3000, 2, 1.5, seed)
    T = noise.uniform(2, 0.4)
    labels = noise.inject(truth, T, seed + 1)
    rule = fit_by_class(labels, eta @ T)
    assert rule.T[0, 0] == pytest.approx(rule.T[1, 1])
    bayes = ((eta * T.T[labels]).argmax(axis=1) == truth).mean()
    assert (corrected(rule, labels, eta @ T) == truth).mean() > bayes - 0.03


def test_two_classes_keep_two_rates_that_differ():
    truth, eta = mixture(4000, 2, 2.5, 43)
    T = np.array([[0.9, 0.1], [0.4, 0.6]])
    labels = noise.inject(truth, T, 44)
    rule = fit_by_class(labels, eta)
    np.testing.assert_allclose(rule.T, T, atol=0.06)


@pytest.mark.parametrize("pixels", [8, 16])
def test_a_model_near_chance_does_not_touch_clean_labels(pixels):
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    X, y = map(np.asarray, load_digits(return_X_y=True))
    model = LogisticRegression(C=1e-4, max_iter=300)
    f = np.asarray(cross_val_predict(model, X[:, :pixels] / 16, y, method="predict_proba"))
    rule = fit_by_class(y, f)
    assert rule.summary["note"] in (Verdict.WEAK.value, Verdict.TRUST.value)
    assert not rule.decide(y, f).flipped.any()


def test_most_labels_wrong_is_no_reason_to_give_up():
    truth, eta = mixture(3000, 5, 4.0, 45)
    labels = noise.inject(truth, noise.uniform(5, 0.6), 46)
    rule = fit_by_class(labels, eta)
    assert (labels == truth).mean() < 0.45
    assert (corrected(rule, labels, eta) == truth).mean() > 0.9


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_two_classes_near_bayes_when_the_model_learnt_half_of_the_noise(rate):
    truth, eta = mixture(4000, 2, 3.0, 35)
    T = noise.uniform(2, rate)
    labels = noise.inject(truth, T, 36)
    f = eta @ noise.uniform(2, rate / 2)
    rule = fit_by_class(labels, f)
    bayes = ((eta * T.T[labels]).argmax(axis=1) == truth).mean()
    assert (corrected(rule, labels, f) == truth).mean() > bayes - 0.01
    assert rule.summary["noise_rate"] == pytest.approx(rate, abs=0.03)


def test_many_classes_share_one_noise_rate():
    truth, eta = mixture(1500, 150, 4.0, 29)
    labels = noise.inject(truth, noise.uniform(150, 0.3), 30)
    f = softmax(0.6 * np.log(np.maximum(eta, 1e-4)).T).T
    rule = fit_by_class(labels, f)
    off = rule.T[~np.eye(150, dtype=bool)]
    assert np.ptp(off) < 1e-12
    assert (corrected(rule, labels, f) == truth).mean() > (labels == truth).mean() + 0.1


def test_labels_better_than_the_model_are_named_so():
    truth, eta = mixture(2000, 4, 1.5, 14)
    rule = fit_by_class(truth, eta)
    assert rule.summary["note"] == Verdict.TRUST.value
    assert not rule.decide(truth, eta).flipped.any()


def test_random_labels_and_constant_labels_are_not_touched():
    rng = np.random.default_rng(15)
    f = softmax(0.1 * rng.standard_normal((5, 1000))).T
    for labels in (rng.integers(0, 5, 1000), np.full(1000, 2)):
        rule = fit_by_class(labels, f)
        assert rule.summary["note"] == Verdict.BLIND.value
        assert not rule.decide(labels, f).flipped.any()


def test_constant_labels_against_a_confident_model_are_not_touched():
    _, eta = mixture(1000, 4, 3.0, 16)
    labels = np.zeros(1000, dtype=np.int64)
    assert not fit_by_class(labels, eta).decide(labels, eta).flipped.any()


def test_few_rows_are_never_changed():
    labels, f = np.array([0, 1, 1]), np.array([[0.99, 0.01], [0.98, 0.02], [0.1, 0.9]])
    rule = fit_by_class(labels, f)
    assert rule.summary["note"] == Verdict.FEW.value
    assert not rule.decide(labels, f).flipped.any()


def test_odd_inputs_give_numbers_and_no_warning():
    truth, eta = mixture(400, 6, 3.0, 17)
    labels = noise.inject(truth, noise.uniform(6, 0.2), 18)
    labels[labels == 5] = 0  # an absent class
    hard = np.eye(6)[eta.argmax(axis=1)]  # zeros and ones only
    twice = np.repeat(eta, 2, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cases = [
            (labels, eta.astype(np.float16)),
            (labels, hard),
            (np.repeat(labels, 2), twice),
            (labels[:1], eta[:1]),
        ]
        for y, f in cases:
            decision = fit_by_class(y, f).decide(y, f)
            assert decision.confidence is not None
            assert np.isfinite(decision.confidence).all() == (len(y) >= MIN_ROWS)
            assert ((decision.ratio >= 0) & (decision.ratio <= 1)).all()


@pytest.fixture(scope="module")
def fitted():
    truth, eta = mixture(2000, 7, 2.5, 19)
    T = noise.uniform(7, 0.3)
    labels = noise.inject(truth, T, 20)
    return fit_by_class(labels, eta @ T), labels, (eta @ T).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 3, 64, 1999])
def test_batches_give_the_same_bits(fitted, rows):
    rule, labels, f = fitted
    whole = rule.decide(labels, f)
    for start in range(0, min(len(labels), 40 * rows), rows):
        part = slice(start, start + rows)
        piece = rule.decide(labels[part], f[part])
        for name in ("suggested", "ratio", "flipped", "confidence"):
            np.testing.assert_array_equal(getattr(piece, name), getattr(whole, name)[part])


def test_full_map_gives_the_same_bits_in_batches():
    rng = np.random.default_rng(21)
    _, eta = mixture(500, 9, 2.0, 22)
    labels = rng.integers(0, 9, 500)
    weight = np.eye(9) + 0.1 * rng.standard_normal((9, 9))
    unmix = Unmix(np.asarray(1.1), np.zeros(9), np.linalg.inv(noise.pair(9, 0.3)))
    rule = ClassNoiseRule(noise.uniform(9, 0.2), weight, np.zeros(9), 0.01, unmix)
    whole = rule.posterior(labels, eta)
    pieces = [rule.posterior(labels[i : i + 1], eta[i : i + 1]) for i in range(500)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_combine_is_the_matrix_product():
    rng = np.random.default_rng(23)
    weight, features = rng.standard_normal((4, 4)), rng.standard_normal((4, 30))
    np.testing.assert_allclose(combine(weight, features), weight.T @ features, atol=1e-12)


def test_renamed_classes_rename_the_answer():
    truth, eta = mixture(1500, 4, 2.5, 24)
    T = np.array([[0.7, 0.3, 0, 0], [0, 0.8, 0.2, 0], [0.1, 0, 0.9, 0], [0, 0, 0.2, 0.8]])
    labels = noise.inject(truth, T, 25)
    order = np.array([2, 0, 3, 1])
    place = np.argsort(order)
    f = softmax(0.5 * np.log(np.maximum(eta, 1e-4)).T).T
    plain = corrected(fit_by_class(labels, f), labels, f)
    renamed = place[labels]
    other = corrected(fit_by_class(renamed, f[:, order]), renamed, f[:, order])
    assert (order[other] == plain).mean() > 0.999


def test_max_flip_error_withholds_doubtful_flips_and_adds_up(fitted):
    rule, labels, f = fitted
    free = rule.decide(labels, f)
    limited = ClassNoiseRule(
        rule.T, rule.weight, rule.bias, rule.model_error, rule.unmix, True, 0.05
    ).decide(labels, f)
    assert limited.review is not None
    assert limited.confidence is not None
    assert free.confidence is not None
    assert limited.review.any()
    assert limited.flipped.any()
    assert (1 - limited.confidence[limited.flipped] < 0.05).all()
    np.testing.assert_array_equal(limited.flipped | limited.review, free.flipped)
    assert (1 - free.confidence[limited.review] >= 0.05).all()


def test_shrinkage_pools_uniform_noise_and_leaves_pairs():
    rng = np.random.default_rng(26)
    flat = np.stack([rng.multinomial(200, row) for row in noise.uniform(10, 0.4)]).astype(float)
    pairs = np.stack([rng.multinomial(200, row) for row in noise.pair(10, 0.4)]).astype(float)
    raw = np.abs(flat / 200 - noise.uniform(10, 0.4)).mean()
    assert np.abs(shrunk_transition(flat) - noise.uniform(10, 0.4)).mean() < raw / 2
    assert np.abs(shrunk_transition(pairs) - noise.pair(10, 0.4)).max() < 0.1
    for counts in (flat, pairs, np.eye(3) * 5, np.zeros((4, 4))):
        T = shrunk_transition(counts)
        np.testing.assert_allclose(T.sum(axis=1), 1)
        assert (T >= 0).all()


def test_posterior_and_likelihood_agree_with_loops():
    truth, eta = mixture(50, 3, 1.0, 27)
    T = noise.uniform(3, 0.2)
    labels = noise.inject(truth, T, 28)
    p, likelihood = posterior(eta.T, T, labels)
    for i in range(50):
        terms = [eta[i, j] * T[j, labels[i]] for j in range(3)]
        assert likelihood[i] == pytest.approx(sum(terms))
        np.testing.assert_allclose(p[:, i], np.array(terms) / sum(terms))
    assert log_likelihood(eta.T, T, labels) == pytest.approx(np.log(likelihood).sum())

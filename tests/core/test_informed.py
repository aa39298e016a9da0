"""Answers choose among rules that were settled before."""

import numpy as np
import pytest

from adacorr import correct
from adacorr.core.asking import ask
from adacorr.core.auto import Ground, fit_auto
from adacorr.core.informed import Answered, InformedRule, Prior, fit_line, inform
from adacorr.core.meter import sigmoid
from adacorr.correction.arrays import fit_rule


def two_classes(n=6000, *, model_right, seed=0):
    """A model and labels that disagree in a few rows; one of the two is always right."""
    rng = np.random.default_rng(seed)
    side = rng.normal(0, 2, n)
    model = (side > 0).astype(int)
    doubt = 0.4 * np.exp(-np.abs(side))  # the model has learnt how often labels differ from it
    labels = np.where(rng.random(n) < doubt, 1 - model, model)
    f1 = np.where(model == 1, 1 - doubt, doubt)
    return labels, model if model_right else labels, np.column_stack([1 - f1, f1])


def answers(labels, truth, f, n, seed=0):
    return {int(row): int(truth[row]) for row in ask(labels, f, n=n, rng=seed)}


def test_without_answers_two_readings_are_open():
    labels, _, f = two_classes(model_right=True)
    result = correct(labels, f)
    assert result.n_flipped == 0
    assert len(result.readings) == 2
    low, high = result.noise_rate_interval
    assert low == 0
    assert high >= (f.argmax(axis=1) != labels).mean()
    assert result.noise_rate is None
    assert "answers" in result.note


def test_answers_for_the_model_change_the_labels():
    labels, truth, f = two_classes(model_right=True)
    result = correct(labels, f, verified=answers(labels, truth, f, 30))
    assert (result.labels == truth).mean() > 0.98 > 0.9 > (labels == truth).mean()
    assert result.certificate.answers == 30


@pytest.mark.parametrize("n", [5, 20, 60])
@pytest.mark.parametrize("seed", range(5))
def test_answers_for_the_labels_change_nothing(n, seed):
    labels, truth, f = two_classes(model_right=False, seed=seed)
    result = correct(labels, f, verified=answers(labels, truth, f, n, seed), rng=seed)
    assert result.n_flipped == 0


def test_verified_rows_keep_their_label():
    labels, truth, f = two_classes(model_right=True)
    agreed = int(np.flatnonzero(f.argmax(axis=1) == labels)[0])
    known = answers(labels, truth, f, 30) | {agreed: int(1 - labels[agreed])}
    result = correct(labels, f, verified=known)
    for row, label in known.items():
        assert result.labels[row] == label
        assert result.flipped[row] == (label != labels[row])
        assert result.suspicion[row] == float(label != labels[row])
        assert result.confidence[row] == 1


def test_cannot_tell_is_no_answer_for_the_rule():
    labels, _, f = two_classes(model_right=True)
    rows = ask(labels, f, n=20)
    result = correct(labels, f, verified={int(row): "cannot tell" for row in rows})
    assert result.n_flipped == 0
    assert result.certificate.cannot_tell == 20


def test_a_threshold_keeps_its_rule_and_takes_the_answers():
    labels, truth, f = two_classes(model_right=True)
    known = answers(labels, truth, f, 20)
    plain, result = correct(labels, f, 0.9), correct(labels, f, 0.9, verified=known)
    others = np.setdiff1d(np.arange(len(labels)), list(known))
    np.testing.assert_array_equal(plain.labels[others], result.labels[others])
    assert all(result.labels[row] == label for row, label in known.items())


def test_the_family_is_settled_before_the_answers():
    """Whatever the answers are, the threshold is one of the same few numbers."""
    labels, truth, f = two_classes(model_right=True)
    base = fit_auto(labels, f)
    assert base.ground is Ground.OPEN
    chosen, sizes = set(), set()
    rng = np.random.default_rng(0)
    for _ in range(40):
        rows = rng.choice(len(labels), 40, replace=False)
        said = np.where(rng.random(40) < rng.random(), truth[rows], labels[rows])
        rule = inform(base, labels, f, Answered(labels[rows], f[rows], said))
        chosen.add(rule.threshold)
        sizes.add(rule.family_size)
    assert len(sizes) == 1
    assert len(chosen) <= sizes.pop()


def test_the_line_is_the_maximum():
    rng = np.random.default_rng(1)
    score = rng.normal(0, 3, 200)
    right = rng.random(200) < sigmoid(-1 + 0.8 * score)
    prior = Prior(np.array([0.0, 1.0]), np.array([2.0, 0.5]))
    line = fit_line(score, right, prior)

    def loss(a, b):
        p = np.clip(sigmoid(a + b * score), 1e-12, 1 - 1e-12)
        fit = np.where(right, np.log(p), np.log(1 - p)).sum()
        return -fit + ((np.array([a, b]) - prior.mean) ** 2 / prior.spread**2).sum() / 2

    best = loss(line.shift, line.slope)
    for da, db in ((0.05, 0), (-0.05, 0), (0, 0.05), (0, -0.05)):
        assert loss(line.shift + da, line.slope + db) > best


def test_what_is_withheld_is_a_matter_of_the_family_too():
    """Otherwise limits would not hold for the changes that are applied."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 3000)
    f = 0.3 * rng.dirichlet(np.ones(3), 3000)
    f[np.arange(3000), np.where(rng.random(3000) < 0.9, truth, (truth + 1) % 3)] += 0.7
    given = np.where(rng.random(3000) < 0.2, rng.integers(0, 3, 3000), truth)
    applied, sizes = set(), set()
    for seed in range(12):
        rows = np.random.default_rng(seed).choice(3000, 60, replace=False)
        said = Answered(given[rows], f[rows], truth[rows])
        rule = fit_rule(given, f, max_flip_error=0.1, answered=said)
        assert isinstance(rule, InformedRule)
        decision = rule.decide(given, f)
        assert decision.review is not None
        assert decision.confidence is not None
        assert (decision.confidence[decision.flipped] > 0.9).all()
        applied.add(decision.flipped.tobytes())
        sizes.add(rule.family_size)
    assert len(applied) <= min(sizes)


def test_a_class_reading_that_orders_badly_is_left():
    """Labels that err at random under a model that seems unsure: the plain order takes over."""
    rng = np.random.default_rng(3)
    n, k = 1500, 10
    truth = rng.integers(0, k, n)
    f = rng.dirichlet(np.ones(k) * 2, n)
    f[np.arange(n), truth] += rng.uniform(0.35, 1.2, n)
    f /= f.sum(axis=1, keepdims=True)
    labels = np.where(rng.random(n) < 0.3, rng.integers(0, k, n), truth)
    result = correct(labels, f, verified=answers(labels, truth, f, 50))
    assert (result.labels == truth).mean() > (f.argmax(axis=1) == truth).mean() - 0.02


def test_only_noise_by_class_changes_labels_that_are_the_models_first_choice():
    labels, truth, f = two_classes(model_right=True)
    rule = fit_rule(labels, f)
    rows = ask(labels, f, n=40)
    informed = inform(rule, labels, f, Answered(labels[rows], f[rows], truth[rows]))
    assert informed.order is Ground.OPEN
    assert informed.agreed_size == 1 < informed.family_size
    flipped = informed.decide(labels, f).flipped
    assert flipped.any()
    assert not (flipped & (f.argmax(axis=1) == labels)).any()


def test_with_answers_the_interval_of_wrong_changes_is_the_certificates():
    labels, truth, f = two_classes(model_right=True)
    result = correct(labels, f, verified=answers(labels, truth, f, 60))
    proved = result.certificate
    assert proved.changes > 0
    assert result.expected_wrong_flips_interval == (0, proved.wrong_changes * proved.changes)


def test_rows_that_are_kept_still_differ_in_their_ratio():
    """Answers that speak against every change leave an order of doubt, not a constant 1."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 2000)
    f = 0.5 * rng.dirichlet(np.ones(3), 2000)
    f[np.arange(2000), np.where(rng.random(2000) < 0.8, truth, (truth + 1) % 3)] += 0.5
    disputed = np.flatnonzero(f.argmax(axis=1) != truth)
    rows = np.concatenate([disputed[:40], np.arange(20)])
    rule = fit_rule(truth, f, answered=Answered(truth[rows], f[rows], truth[rows]))
    decision = rule.decide(truth, f)
    assert not decision.flipped.any()
    assert (decision.ratio[disputed] < 1).mean() > 0.9
    assert len(np.unique(decision.ratio[disputed])) > 100

"""Dawid and Skene with a classifier: against a naive loop, and against simulated people."""

from __future__ import annotations

import numpy as np
import pytest

from adacorr.core import annotators
from adacorr.core.annotators import GAP, Quality, fit_panel, transitions
from adacorr.core.calibration import log_features


def people(n=1500, k=4, qualities=(0.9, 0.8, 0.7), gaps=0.3, separation=2.0, seed=0):
    """True labels, (N, M) labels of people with errors of their own, and the exact posterior."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    z = rng.standard_normal((n, k))
    z[np.arange(n), truth] += separation
    f = np.exp(separation * z)
    f /= f.sum(axis=1, keepdims=True)
    labels = np.empty((n, len(qualities)), np.int64)
    for m, quality in enumerate(qualities):
        shift = rng.integers(1, k, n)
        labels[:, m] = np.where(rng.random(n) < quality, truth, (truth + shift) % k)
    labels[rng.random(labels.shape) < gaps] = GAP
    empty = (labels == GAP).all(axis=1)
    labels[empty, 0] = truth[empty]
    return truth, labels, f


def naive_transitions(q, labels, k):
    """The formula of :func:`transitions`, one number at a time."""
    n, m = labels.shape
    own = np.zeros((m, k, k))
    for i in range(n):
        for a in range(m):
            if labels[i, a] != GAP:
                for c in range(k):
                    own[a, c, labels[i, a]] += q[i, c]
    common = own.sum(axis=0) + 0.5 / k + 0.5 * np.eye(k)
    common = common / common.sum(axis=1)[:, None]
    typical = sum(own[a, c, c] for a in range(m) for c in range(k)) / own.sum()
    T = np.empty((m, k, k))
    for a in range(m):
        right = sum(own[a, c, c] for c in range(k))
        size = own[a].sum()
        quality = (right + annotators.LIKE_OTHERS * typical) / (size + annotators.LIKE_OTHERS)
        for c in range(k):
            odds = common[c, c] / (1 - common[c, c])
            odds *= quality / (1 - quality) / (typical / (1 - typical))
            keep = odds / (1 + odds)
            belief = [
                keep if j == c else (1 - keep) * common[c, j] / (1 - common[c, c]) for j in range(k)
            ]
            row = own[a, c] + annotators.OWN * np.array(belief)
            T[a, c] = row / row.sum()
    return T


def test_transitions_are_the_formula():
    _, labels, f = people(n=200)
    k = f.shape[1]
    counts = annotators._indicator(labels, k).T @ f
    np.testing.assert_allclose(
        transitions(counts, labels.shape[1]), naive_transitions(f, labels, k), rtol=1e-6
    )


def test_the_posterior_is_bayes_row_by_row():
    """What EM ends with satisfies its own equation, evaluated by a loop."""
    _, labels, f = people(n=300)
    panel = fit_panel(labels, f)
    features = log_features(f)
    T = panel.T
    logs = np.log(panel.posterior(labels, f)) - panel.trust * features.T
    for i in range(len(labels)):
        for m, said in enumerate(labels[i]):
            if said != GAP:
                logs[i] -= np.log(T[m][:, said])
    bias = logs - logs.mean(axis=1, keepdims=True)  # what is left is b, the same in each row
    np.testing.assert_allclose(bias, np.broadcast_to(panel.bias, bias.shape), atol=1e-9)


def test_a_spammer_and_an_adversary_are_told_from_the_others():
    qualities = (0.9, 0.8, 0.25, 0.02)
    truth, labels, f = people(qualities=qualities, n=3000)
    panel = fit_panel(labels, f)
    found = Quality.of(labels, panel.posterior(labels, f))
    share, error, count = found.share, found.standard_error, found.count
    np.testing.assert_allclose(share, qualities, atol=0.04)
    assert (np.abs(share - np.array(qualities)) < 4 * error + 0.02).all()
    np.testing.assert_array_equal(count, (labels != GAP).sum(axis=0))
    votes = np.stack([(labels == c).sum(axis=1) for c in range(4)], axis=1)
    majority = (votes + f / 2).argmax(axis=1)
    assert (panel.posterior(labels, f).argmax(axis=1) == truth).mean() > (
        majority == truth
    ).mean() + 0.1


def test_the_adversary_counts_as_evidence():
    truth, labels, f = people(k=2, qualities=(0.9, 0.1), gaps=0.0, separation=0.7, n=3000)
    right = []
    for some in (labels[:, :1], labels):
        found = fit_panel(some, f).posterior(some, f)
        right.append((found.argmax(axis=1) == truth).mean())
    assert right[1] > right[0]


def test_few_labels_are_believed_to_be_like_those_of_others():
    truth, labels, f = people(n=2000)
    rare = np.full(len(truth), GAP)
    rare[:2] = (truth[:2] + 1) % 4  # two labels, both wrong
    labels = np.column_stack([labels, rare])
    panel = fit_panel(labels, f)
    assert np.diag(panel.T[3]).mean() > 0.4  # the others have 0.8: two labels prove little
    assert Quality.of(labels, panel.posterior(labels, f)).standard_error[3] > 0.15


def test_gaps_say_nothing():
    """An annotator without labels changes no row."""
    _, labels, f = people(n=400)
    empty = np.column_stack([labels, np.full(len(labels), GAP)])
    np.testing.assert_allclose(
        fit_panel(labels, f).posterior(labels, f),
        fit_panel(empty, f).posterior(empty, f),
        atol=1e-6,
    )


def test_an_unsure_model_is_sharpened():
    """A model that learnt uniform noise claims less than it knows."""
    truth, labels, f = people(n=3000, gaps=0.1)
    learnt = 0.7 * f + 0.3 / 4
    panel = fit_panel(labels, learnt)
    assert panel.trust > 1.3
    assert (panel.posterior(labels, learnt).argmax(axis=1) == truth).mean() > 0.95


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_sum_to_one_and_inputs_stay(seed):
    _, labels, f = people(n=150, seed=seed)
    before = labels.copy(), f.copy()
    panel = fit_panel(labels, f)
    np.testing.assert_allclose(panel.posterior(labels, f).sum(axis=1), 1)
    np.testing.assert_allclose(panel.T.sum(axis=2), 1)
    np.testing.assert_array_equal(labels, before[0])
    np.testing.assert_array_equal(f, before[1])

"""The far meter against populations whose wrong labels are known."""

import numpy as np
import pytest

from adacorr.core.meter import Counts, best_other, read_meter, sigmoid


def population(n=20_000, k=10, noise=0.0, spread=1.5, seed=0):
    """Probabilities of a model that errs by near misses, and labels of which some are wrong.

    Wrong labels are any class, more of them where the model is unsure.
    """
    rng = np.random.default_rng(seed)
    place = rng.uniform(0, k, n)  # classes on a ring: neighbours look alike
    truth = place.astype(int)
    distance = np.abs((place[:, None] - np.arange(k) - 0.5 + k / 2) % k - k / 2)
    logits = -spread * distance**1.5 + rng.normal(0, 0.7, (n, k))
    f = np.exp(logits - logits.max(axis=1, keepdims=True))
    f /= f.sum(axis=1, keepdims=True)
    hard = 1 - f.max(axis=1)
    wrong = rng.random(n) < noise * (0.5 + hard / hard.mean() / 2)
    labels = np.where(wrong, (truth + rng.integers(1, k, n)) % k, truth)
    return labels, truth, f


def test_clean_labels_show_nothing_however_often_the_model_errs():
    for spread in (0.6, 1.5, 3.0):
        labels, _, f = population(spread=spread)
        meter = read_meter(labels, f)
        assert not meter.shown, spread


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.3])
def test_wrong_labels_are_counted(noise):
    labels, truth, f = population(noise=noise)
    meter = read_meter(labels, f)
    opposed = f.argmax(axis=1) != labels
    true = (opposed & (labels != truth)).mean()
    assert meter.shown
    assert meter.low <= true
    assert 0.65 * true <= meter.rate <= 1.25 * true


def test_the_line_puts_most_labels_right():
    labels, truth, f = population(noise=0.1)
    meter = read_meter(labels, f)
    other, odds = best_other(labels, f)
    new = np.where(meter.line(odds) > 0.5, other, labels)
    assert (labels == truth).mean() < 0.92
    assert (new == truth).mean() > (labels == truth).mean() + 0.04


def test_few_classes_and_few_disagreements_are_left_alone():
    labels, _, f = population(k=5, noise=0.2)
    assert not read_meter(labels, f).shown
    assert not read_meter(np.arange(10), np.eye(10)).shown


def test_the_share_of_wrong_labels_falls_with_difficulty():
    counts = Counts(np.full(10, 100), np.array([70.0, 68, 72, 60, 65, 50, 40, 30, 20, 12]))
    share = counts.wrong_share(0.1)
    assert (np.diff(share) <= 1e-12).all()
    assert 0.9 < share[0] <= 1  # chance may have made the far share of wrong labels too small
    assert 0 <= share[-1] < 0.1


def test_best_other_is_the_loop():
    rng = np.random.default_rng(0)
    f, labels = rng.dirichlet(np.ones(6), 50), rng.integers(0, 6, 50)
    other, odds = best_other(labels, f)
    for i, (row, given) in enumerate(zip(f, labels, strict=True)):
        rest = [(p, -j) for j, p in enumerate(row) if j != given]
        assert other[i] == -max(rest)[1]
        assert odds[i] == pytest.approx(np.log(max(rest)[0] / row[given]))


def test_sigmoid_survives_extremes():
    assert sigmoid(np.array([-1e9, 0, 1e9])) == pytest.approx([0, 0.5, 1])


def test_few_wrong_labels_show_among_the_surest_rows_alone():
    far, opposed = np.full(10, 8.0), np.full(10, 90)
    counts = Counts(opposed, far)
    assert not counts.proof()  # as many everywhere: errors of a model
    far[0] = 36
    assert counts.proof()
    assert counts.far_share(slice(0, 5)) < 0.16  # too little to be seen in the surer half


def test_a_label_that_ties_with_others_is_not_proved_far():
    """Zeros of a nearest-neighbour model: which of them is next is not known."""
    labels, _, f = population(noise=0.1)
    sharp = np.where(f >= np.sort(f, axis=1)[:, [-2]], f, 0)
    assert not read_meter(labels, sharp / sharp.sum(axis=1, keepdims=True)).shown

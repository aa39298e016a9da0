"""Listed probabilities answer as the dense rows that they stand for."""

from dataclasses import replace

import numpy as np
import pytest
from tests.core.test_meter import population

from adacorr.core.auto import Ground, fit_auto
from adacorr.core.inputs import input_warnings
from adacorr.core.meter import best_other, read_meter
from adacorr.core.sparse import TopK, beyond, first_choice, fit_top_k, given_probs, largest


def listed(f, width):
    return largest(f, width)


@pytest.mark.parametrize("width", [1, 3, 12])
def test_rows_answer_as_their_dense_form(width):
    """A naive look at the dense rows; where a list has ended, the rest are alike."""
    rng = np.random.default_rng(width)
    f = rng.dirichlet(np.full(12, 0.4), 300)
    labels = rng.integers(0, 12, 300)
    top = listed(f, width)
    dense = top.dense()
    np.testing.assert_array_equal(first_choice(top)[0], first_choice(f)[0])
    np.testing.assert_allclose(given_probs(labels, top), given_probs(labels, dense))
    others, odds = best_other(labels, top)
    for i in range(300):
        row = np.delete(dense[i], labels[i])
        assert np.exp(odds[i]) == pytest.approx(row.max() / dense[i, labels[i]], rel=1e-6)
        assert others[i] != labels[i]


@pytest.mark.parametrize("width", [5, 8, 12])
def test_a_label_beyond_a_long_list_is_far(width):
    """With more entries than the cut, a list tells as much as all probabilities."""
    rng = np.random.default_rng(1)
    f, labels = rng.dirichlet(np.ones(12), 400), rng.integers(0, 12, 400)
    far, unlisted = beyond(labels, listed(f, width), 4)
    rank = (f > f[np.arange(400), labels][:, None]).sum(axis=1)
    np.testing.assert_array_equal(far, rank > 4)
    assert unlisted == 0


def test_a_short_list_says_what_it_leaves_out():
    f = np.array([[0.6, 0.3, 0.06, 0.04]])
    far, unlisted = beyond(np.array([3]), listed(f, 2), 2)
    assert far.tolist() == [True]
    assert unlisted == pytest.approx(0.1 / 0.4)
    far, _ = beyond(np.array([1]), listed(f, 2), 2)
    assert far.tolist() == [False]


def test_the_meter_reads_lists():
    labels, truth, f = population(noise=0.1)
    whole = read_meter(labels, f)
    assert whole.shown
    assert read_meter(labels, listed(f, 10)) == whole
    four = read_meter(labels, listed(f, 4))  # the nearest third is 3
    assert four.shown
    assert four.rate == pytest.approx(whole.rate, rel=0.02)
    true = ((f.argmax(axis=1) != labels) & (labels != truth)).mean()
    for width in (1, 2, 3):
        short = read_meter(labels, listed(f, width))
        assert not short.shown or short.low <= true
    assert not read_meter(truth, listed(f, 3)).shown


def test_noise_by_difficulty_is_decided_on_all_listed_as_on_dense():
    labels, truth, f = population(n=12_000, noise=0.08, spread=3.0)
    rule = replace(
        fit_auto(labels, f), ground=Ground.DIFFICULTY, meter=read_meter(labels, listed(f, 10))
    )
    one, other = rule.decide(labels, f), rule.decide(labels, listed(f, 10))
    np.testing.assert_array_equal(one.flipped, other.flipped)
    np.testing.assert_array_equal(one.suggested, other.suggested)
    np.testing.assert_allclose(one.suspicion, other.suspicion, rtol=1e-5)
    right = np.where(other.flipped, other.suggested, labels) == truth
    assert right.mean() > (labels == truth).mean() + 0.02


def test_many_classes_are_put_right_from_lists():
    labels, truth, f = population(n=2000, k=150, noise=0.25, spread=1.0)
    top = listed(f, 60)
    rule = fit_top_k(labels, top)
    decision = rule.decide(labels, top)
    right = np.where(decision.flipped, decision.suggested, labels) == truth
    assert right.mean() > (labels == truth).mean() + 0.1
    assert rule.interval[0] < (labels != truth).mean() < rule.interval[1]


def test_clean_labels_stay_under_lists():
    _, truth, f = population(n=8000, spread=1.5)
    rule = fit_auto(truth, listed(f, 6))
    assert not rule.decide(truth, listed(f, 6)).flipped.any()
    assert rule.interval[0] == 0


def test_a_row_alone_is_decided_as_among_others():
    labels, _, f = population(n=3000, noise=0.1, spread=3.0)
    top = listed(f, 5)
    rule = fit_auto(labels, top)
    whole = rule.decide(labels, top)
    for row in (0, 17, 2999):
        alone = rule.decide(labels[row : row + 1], top[row : row + 1])
        assert alone.suspicion[0] == whole.suspicion[row]
        assert alone.other[0] == whole.other[row]


def test_lists_in_another_order_are_noticed():
    labels, _, f = population(n=3000, spread=3.0)
    assert not input_warnings(labels, listed(f, 3))
    rolled = listed(f, 3)
    rolled = TopK((rolled.indices + 4) % 10, rolled.values, 10)
    assert "another order" in input_warnings(labels, rolled)[0]

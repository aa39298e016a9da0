"""``correct``: the array interface of both rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from adacorr.core import noise, sampling
from adacorr.core.auto import AutoRule
from adacorr.core.lrt import ThresholdRule
from adacorr.core.validation import InputError
from adacorr.correction.arrays import correct, fit_rule


@pytest.fixture(scope="module")
def noisy():
    """True labels, given labels, and an under-confident classifier."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 1500)
    z = rng.standard_normal((1500, 3))
    z[np.arange(1500), truth] += 3.0
    f = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return truth, noise.inject(truth, noise.uniform(3, 0.25), 2), f


@settings(max_examples=30, deadline=None)
@given(
    hnp.arrays(
        np.float64, st.tuples(st.integers(1, 20), st.integers(2, 5)), elements=st.floats(0.01, 1)
    ),
    st.floats(0.05, 1),
    st.integers(0, 2**32 - 1),
)
def test_a_number_is_procedure_one(f, delta, seed):
    f = f / f.sum(axis=1, keepdims=True)
    labels = np.random.default_rng(seed).integers(0, f.shape[1], len(f))
    result = correct(labels, f, delta)
    for i, row in enumerate(f):
        m = int(row.argmax())
        flip = row[labels[i]] / row[m] < delta and m != labels[i]
        assert result.flipped[i] == flip
        assert result.labels[i] == (m if flip else labels[i])
        assert result.suggested[i] == m
    assert result.confidence is None
    assert result.expected_wrong_flips is None


def test_auto_is_the_default_and_repairs(noisy):
    truth, labels, f = noisy
    result = correct(labels, f)
    assert (result.labels == truth).mean() > (labels == truth).mean() + 0.15
    assert result.noise_rate == pytest.approx(0.25, abs=0.03)
    assert result.T is not None
    np.testing.assert_allclose(result.T, noise.uniform(3, 0.25), atol=0.05)
    assert "look wrong" in result.note
    assert result.to_review is None


def test_expected_counts_are_sums_of_the_confidence(noisy):
    _, labels, f = noisy
    result = correct(labels, f)
    assert result.confidence is not None
    wrong = sum(1 - c for c, flip in zip(result.confidence, result.flipped, strict=True) if flip)
    missed = sum(
        1 - c for c, flip in zip(result.confidence, result.flipped, strict=True) if not flip
    )
    assert result.expected_wrong_flips == pytest.approx(wrong)
    assert result.expected_missed_errors == pytest.approx(missed)


def test_max_flip_error_moves_doubtful_flips_to_review(noisy):
    _, labels, f = noisy
    free, limited = correct(labels, f), correct(labels, f, max_flip_error=0.05)
    assert limited.to_review is not None
    assert limited.to_review.any()
    assert (limited.labels[limited.to_review] == labels[limited.to_review]).all()
    np.testing.assert_array_equal(limited.flipped | limited.to_review, free.flipped)
    assert limited.expected_wrong_flips < 0.05 * limited.n_flipped
    np.testing.assert_array_equal(limited.suggested, free.suggested)


@pytest.mark.parametrize("rows", [4, 49])
def test_no_numbers_where_nothing_can_be_told(noisy, rows):
    _, given, f = noisy
    for probs in (f[:rows], np.full((1500, 3), 1 / 3)):
        result = correct(given[: len(probs)], probs, max_flip_error=0.1)
        assert result.n_flipped == 0
        assert "nothing is changed" in result.note
        assert np.isnan(result.confidence).all()
        assert result.noise_rate is result.expected_wrong_flips is None
        assert result.expected_missed_errors is None


def test_a_correction_shows_itself_in_one_line(noisy):
    result = correct(noisy[1], noisy[2])
    low, high = result.expected_wrong_flips_interval
    wrong = f"{result.expected_wrong_flips:,.0f} changes wrong ({low:,.0f} to {high:,.0f})"
    assert repr(result) == (
        f"Correction({result.n_flipped} of 1,500 labels changed, "
        f"noise rate {result.noise_rate:.1%}, about {wrong}, {result.note})"
    )
    assert repr(correct([0, 1], [[0.9, 0.1]] * 2, 0.9)) == "Correction(1 of 2 labels changed)"


def test_known_transition_is_kept(noisy):
    truth, labels, f = noisy
    T = noise.uniform(3, 0.25)
    result = correct(labels, f, T=T)
    np.testing.assert_array_equal(result.T, T)
    assert (result.labels == truth).mean() > 0.9
    assert not correct(labels, f, T=np.eye(3)).flipped.any()


def test_names_survive_and_inputs_stay(noisy):
    _, labels, f = noisy
    names = np.array(["ant", "bee", "cat"])
    words, before = names[labels], (labels.copy(), f.copy())
    by_name = correct(words, f)
    np.testing.assert_array_equal(by_name.labels, names[correct(labels, f).labels])
    np.testing.assert_array_equal(
        by_name.suggested[by_name.flipped], by_name.labels[by_name.flipped]
    )
    np.testing.assert_array_equal(labels, before[0])
    np.testing.assert_array_equal(f, before[1])


def test_probabilities_stored_by_column_stay_as_they_are(noisy):
    _, given, f = noisy
    columns = np.asfortranarray(f)
    result = correct(given, columns)
    np.testing.assert_array_equal(columns, f)
    np.testing.assert_array_equal(result.labels, correct(given, f).labels)


@pytest.mark.parametrize("kind", [str, int])
@pytest.mark.parametrize("make", ["pandas", "polars"])
def test_a_frame_states_the_order_of_the_classes(noisy, kind, make):
    library = pytest.importorskip(make)
    _, given, f = noisy
    names = np.array([7, 9, 8]) if kind is int else np.array(["cat", "fox", "dog"])
    frame = library.DataFrame({f"p_{names[j]}": f[:, j] for j in (1, 0, 2)})
    expected = names[correct(given, f[:, [0, 1, 2]]).labels]
    labels = correct(names[given], frame).labels
    assert labels.dtype.kind == names.dtype.kind
    assert np.mean(labels == expected) > 0.99


def test_columns_that_are_not_the_labels_tell_nothing(noisy):
    frame = pytest.importorskip("pandas").DataFrame(noisy[2], columns=["x", "y", "z"])
    expected = correct(noisy[1], noisy[2]).labels
    np.testing.assert_array_equal(correct(noisy[1], frame).labels, expected)
    names = np.array(["a", "b", "c"])
    np.testing.assert_array_equal(correct(names[noisy[1]], frame).labels, names[expected])


def test_rows_in_another_order_get_almost_the_same_labels(noisy):
    _, labels, f = noisy
    order = np.random.default_rng(3).permutation(len(labels))
    moved = correct(labels[order], f[order]).labels
    assert (moved == correct(labels, f).labels[order]).mean() > 0.99


def test_the_fit_looks_at_a_bounded_sample(noisy, monkeypatch):
    _, labels, f = noisy
    monkeypatch.setattr("adacorr.correction.arrays.sample_size", lambda k: 600)
    whole = fit_rule(labels, f)
    rows = sampling.sample_rows(len(labels), 600)
    part = fit_rule(labels[rows], f[rows])
    assert isinstance(whole, AutoRule)
    assert isinstance(part, AutoRule)
    np.testing.assert_array_equal(whole.by_class.T, part.by_class.T)
    np.testing.assert_array_equal(whole.by_class.weight, part.by_class.weight)


def test_rules_describe_themselves(noisy):
    _, labels, f = noisy
    auto, fixed = fit_rule(labels, f), fit_rule(labels, f, delta=0.5)
    assert isinstance(fixed, ThresholdRule)
    assert auto.summary["rule"] == "auto"
    assert fixed.summary["rule"] == "threshold"
    for rule in (auto, fixed):
        assert set(rule.summary) >= {"rule", "noise_rate", "note"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": "best"}, "delta: expected 'auto' or a number"),
        ({"delta": 0.0}, "delta: expected"),
        ({"delta": 0.5, "T": np.eye(2)}, "T: expected only with delta='auto'"),
        ({"delta": 0.5, "max_flip_error": 0.1}, "max_flip_error: expected only with"),
        ({"max_flip_error": 0.0}, "max_flip_error: expected a number"),
        ({"max_flip_error": 1.5}, "max_flip_error: expected a number"),
        ({"T": np.ones((2, 2))}, "T: expected rows that sum to 1"),
        ({"T": np.eye(3)}, r"T: expected shape \(2, 2\)"),
        ({"T": np.full((2, 2), 0.5)}, "T: expected an invertible matrix, got a singular one"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        correct([0, 1], [[0.9, 0.1], [0.2, 0.8]], **options)
    assert "\n" not in str(caught.value)


def test_bad_rows_are_named_by_both_rules():
    for delta in ("auto", 0.9):
        with pytest.raises(InputError, match="row 1"):
            correct([0, 1], [[0.9, 0.1], [0.2, np.nan]], delta)

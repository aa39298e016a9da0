"""``correct`` with a column of labels for each annotator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.test_annotators import people

import adacorr
from adacorr.core.validation import InputError, RowError
from adacorr.correction.panel import encode_panel, majority_vote

NAMES = np.array(["ant", "bee", "cow", "dog"])


def test_the_consensus_beats_the_majority():
    truth, codes, f = people(n=3000, qualities=(0.9, 0.75, 0.6, 0.25))
    result = adacorr.correct(codes, f)
    majority = majority_vote(codes, f)
    assert (result.labels == truth).mean() > (majority == truth).mean() + 0.05
    np.testing.assert_array_equal(result.flipped, result.labels != majority)
    assert result.noise_rate == pytest.approx((majority != truth).mean(), abs=0.03)
    low, high = result.noise_rate_interval
    assert low <= (majority != truth).mean() <= high
    assert [round(a.quality, 1) for a in result.annotators] == pytest.approx(
        [0.9, 0.8, 0.6, 0.2], abs=0.11
    )
    wrong = (result.flipped & (result.labels != truth)).sum()
    assert result.expected_wrong_flips == pytest.approx(wrong, rel=1, abs=15)
    assert len(result.suspects(7)) == 7
    assert "annotators" in result.note


def gapped(kind: str, codes):
    """The same labels in the ways that people write gaps."""
    if kind == "codes":
        return codes
    if kind == "nan":
        return np.where(codes < 0, np.nan, codes)
    if kind == "masked":
        return np.ma.array(np.maximum(codes, 0), mask=codes < 0)
    if kind == "none":
        return [[None if c < 0 else int(c) for c in row] for row in codes]
    if kind == "texts":
        return np.where(codes < 0, "", NAMES[codes])
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(np.where(codes < 0, None, NAMES[codes]), columns=["ann", "bob", "cy"])


@pytest.mark.parametrize("kind", ["codes", "nan", "masked", "none", "texts", "frame"])
def test_every_way_to_write_a_gap(kind):
    _, codes, f = people(n=300)
    given = gapped(kind, codes)
    found, _ = encode_panel(given, 4)
    np.testing.assert_array_equal(found, codes)
    result, plain = adacorr.correct(given, f), adacorr.correct(codes, f)
    np.testing.assert_array_equal(result.flipped, plain.flipped)
    names = NAMES[plain.labels] if kind in ("texts", "frame") else plain.labels
    np.testing.assert_array_equal(result.labels, names)
    assert result.annotators[0].name == ("ann" if kind == "frame" else 0)


def test_one_annotator_is_the_plain_call():
    truth, _, f = people(n=1500)
    labels = adacorr.noise.inject(truth, adacorr.noise.uniform(4, 0.2), 3)
    one, plain = adacorr.correct(labels[:, None], f), adacorr.correct(labels, f)
    np.testing.assert_array_equal(one.labels, plain.labels)
    np.testing.assert_array_equal(one.suspicion, plain.suspicion)
    assert one.noise_rate == plain.noise_rate
    assert one.annotators[0].n_labels == 1500
    assert one.annotators[0].quality == pytest.approx(0.8, abs=0.04)
    np.testing.assert_allclose(one.annotators[0].confusion.sum(axis=1), 1)


def test_a_limit_withholds_doubtful_changes():
    _, codes, f = people(n=1500, qualities=(0.8, 0.6, 0.5))
    free, bound = adacorr.correct(codes, f), adacorr.correct(codes, f, max_flip_error=0.05)
    assert bound.to_review.any()
    np.testing.assert_array_equal(bound.flipped | bound.to_review, free.flipped)
    assert (free.confidence[bound.to_review] <= 0.95).all()


def test_a_column_made_of_another_is_noticed():
    """Two annotators that always agree, against a good model: their agreement proves nothing."""
    rng = np.random.default_rng(0)
    truth, _, f = people(n=6000, k=10, separation=3.0)
    wrong = rng.random(6000) < 0.12
    labels = np.where(wrong, (truth + rng.integers(1, 10, 6000)) % 10, truth)
    copy = np.where(rng.random(6000) < 0.02, truth, labels)
    result = adacorr.correct(np.column_stack([labels, copy]), f)
    low, high = result.noise_rate_interval
    assert low <= (majority_vote(np.column_stack([labels, copy]), f) != truth).mean() <= high


def test_errors_name_the_row():
    f = np.full((2, 2), 0.5)
    with pytest.raises(RowError, match="row 1, column 0"):
        adacorr.correct([[0, 1], [7, 1]], f)
    with pytest.raises(InputError, match="at least one label in each row, got none in row 1"):
        adacorr.correct([[0, 1], [None, None]], f)
    with pytest.raises(InputError, match="one column per annotator, got shape"):
        adacorr.correct([[0, 1], [1]], f)
    with pytest.raises(InputError, match="several annotators"):
        adacorr.correct([[0, 1], [1, 1]], f, delta=0.9)
    with pytest.raises(InputError, match="the same length"):
        adacorr.correct([[0, 1]], f)


def test_minus_one_may_be_a_class():
    codes, _ = encode_panel([[-1, 1], [1, 1]], 2, classes=["-1", "1"])
    assert codes.tolist() == [[0, 1], [1, 1]]

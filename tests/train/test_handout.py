"""When the rule's changes are not made."""

from dataclasses import replace

import numpy as np
import pytest

from adacorr.core.answers import Answers
from adacorr.core.asking import ask
from adacorr.correction.arrays import Correction, correct
from adacorr.train import handout
from adacorr.train.handout import hand_out, most_wrong_labels, why_not

N, K = 1000, 4
LABELS = np.arange(N) % K


def found(changes: int, wrong: float | None, rate: float | None) -> Correction:
    flipped = np.arange(N) < changes
    new = np.where(flipped, (LABELS + 1) % K, LABELS)
    return Correction(
        labels=new,
        ratio=np.where(flipped, 0.25, 1.0),
        flipped=flipped,
        suggested=new,
        confidence=np.where(flipped, 0.8, 0.95),
        expected_wrong_flips=wrong,
        expected_missed_errors=0.05 * (N - changes),
        noise_rate=rate,
    )


def agreeing(share: float) -> np.ndarray:
    """Probabilities whose argmax is the label in that share of the rows."""
    best = np.where(np.arange(N) < share * N, LABELS, (LABELS + 1) % K)
    return (0.6 * np.eye(K)[best] + 0.1).astype(np.float32)


@pytest.mark.parametrize(
    ("share", "changes", "wrong", "rate", "reason"),
    [
        (0.8, 100, 10.0, 0.11, ""),
        (0.27, 100, 10.0, 0.11, "hardly more than naming the largest class (25.0%)"),
        (0.8, 100, 50.0, 0.11, "about 50 would be wrong, half or more"),
        (0.8, 100, 49.0, 0.11, ""),
        (0.8, 100, 10.0, 0.05, "would change 100 labels and supports at most 64"),
        (0.8, 100, None, None, ""),
    ],
)
def test_reasons_to_change_nothing(share, changes, wrong, rate, reason):
    said = why_not(LABELS, agreeing(share), found(changes, wrong, rate))
    assert reason in said
    assert bool(said) == bool(reason)


@pytest.mark.parametrize(("low", "said"), [(0.0, "cannot be told from none"), (0.01, "")])
def test_where_no_label_may_be_wrong_none_is_changed(low, said):
    few = replace(found(10, 1.0, 0.02), noise_rate_interval=(low, 0.07))
    assert said in why_not(LABELS, agreeing(0.9), few)
    assert bool(why_not(LABELS, agreeing(0.9), few)) == bool(said)


def test_an_interval_of_the_rule_counts_by_its_upper_end():
    wide = replace(found(100, 10.0, 0.05), noise_rate_interval=(0.01, 0.2))
    assert most_wrong_labels(wide, N) == pytest.approx(200 + 2 * (200 * 0.8) ** 0.5)


def test_what_is_withheld_is_left_for_review(monkeypatch):
    monkeypatch.setattr(handout, "correct", lambda *_, **__: found(100, 80.0, 0.11))
    out = hand_out(LABELS, agreeing(0.8))
    assert "half or more" in out.withheld
    kept = out.correction
    np.testing.assert_array_equal(kept.labels, LABELS)
    assert kept.n_flipped == 0
    np.testing.assert_array_equal(kept.to_review, np.arange(N) < 100)
    assert kept.expected_wrong_flips == 0
    # P(given label is right) = ratio P(suggestion is right)
    np.testing.assert_allclose(kept.confidence[:100], 0.25 * 0.8)
    assert kept.expected_missed_errors == pytest.approx(100 * 0.8 + 900 * 0.05)


def test_a_net_that_knows_nothing_changes_nothing():
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.full(K, 2.0), N).astype(np.float32)
    out = hand_out(LABELS, f)
    np.testing.assert_array_equal(out.correction.labels, LABELS)


def test_answers_choose_and_their_rows_keep_their_label():
    """The same as ``correct`` with the same answers."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, N)
    given = np.where(rng.random(N) < 0.2, (truth + 1) % K, truth)
    f = (0.25 * rng.dirichlet(np.ones(K), N) + 0.75 * np.eye(K)[truth]).astype(np.float32)
    rows = ask(given, f, n=50, classes=range(K))
    answers = Answers.of(rows, truth[rows])
    handed = hand_out(given, f, answers)
    expected = correct(given, f, classes=range(K), verified=answers)
    assert handed.withheld == ""
    assert handed.correction.labels.tolist() == expected.labels.tolist()
    assert handed.correction.certificate == expected.certificate
    assert handed.correction.labels[rows].tolist() == truth[rows].tolist()


def test_a_withheld_rule_leaves_verified_labels_and_certifies_what_is_done():
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.ones(K), N).astype(np.float32)  # the net knows nothing
    rows = ask(LABELS, f, n=40, classes=range(K))
    said = LABELS[rows].copy()
    said[:9] = f.argmax(axis=1)[rows[:9]]
    answers = Answers.of(rows, said)
    always = handout.HandOut(correct(LABELS, f, 0.99, classes=range(K), verified=answers), f, "")
    assert why_not(LABELS, f, always.correction)
    kept = handout._answered(handout._withheld(always.correction, LABELS), LABELS, f, answers)
    wanted = LABELS.copy()
    wanted[rows] = said
    assert kept.labels.tolist() == wanted.tolist()
    assert kept.flipped.tolist() == (wanted != LABELS).tolist()
    assert kept.to_review is not None
    assert not kept.to_review[rows].any()
    assert kept.certificate is not None
    assert kept.certificate.changes == 0  # by rule
    assert kept.certificate.fixed == (said != LABELS[rows]).sum()

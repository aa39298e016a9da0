"""Certificates: counts by hand, the same from parts, and limits that hold in simulation."""

from functools import cache

import numpy as np
import pytest

from adacorr.core import certify as module
from adacorr.core import sequences
from adacorr.core.answers import Answers
from adacorr.core.asking import Queue, is_disputed
from adacorr.core.certify import Tally, certify

ALPHA = 0.05


def world(rng, n=600, noise=0.2, model=0.85, classes=3):
    """Truth, given labels and probabilities of a model that errs, sure of itself or not."""
    truth = rng.integers(0, classes, n)
    given = np.where(rng.random(n) < noise, rng.integers(0, classes, n), truth)
    f = rng.dirichlet(np.ones(classes), n)
    guess = np.where(rng.random(n) < model, truth, rng.integers(0, classes, n))
    f[np.arange(n), guess] += rng.random(n) * 2
    return truth, given, f / f.sum(axis=1, keepdims=True)


def threshold(given, f, delta):
    """LRT with a threshold."""
    rows, top = np.arange(len(f)), f.argmax(axis=1)
    return np.where(f[rows, given] < delta * f[rows, top], top, given)


def answered(truth, given, f, n, seed):
    rows = Queue.of(is_disputed(given, f), n, seed=seed).next(n)
    return Answers.of(rows, truth[rows])


def test_counts_equal_a_loop():
    truth, given, f = world(np.random.default_rng(0))
    disputed, proposed = is_disputed(given, f), threshold(given, f, 0.5)
    answers = answered(truth, given, f, 60, seed=4)
    result = certify(Tally.of(given, proposed, disputed, answers, seed=4))
    asked = set(answers.rows.tolist())
    flips = [r for r in range(600) if proposed[r] != given[r]]
    assert result.rows == 600
    assert result.answers == result.counted == result.verified == 60
    assert result.changes == len([r for r in flips if r not in asked])
    assert result.fixed == sum(given[r] != truth[r] for r in asked)
    for stratum, part in zip((disputed, ~disputed), result.all_rows.parts, strict=True):
        seen = [r for r in asked if stratum[r]]
        assert (part.size, part.seen) == (stratum.sum(), len(seen))
        assert part.marked == sum(proposed[r] != truth[r] for r in seen)
    assert result.changed_rows.parts[1].size == 0  # a threshold changes disputed rows only


def test_parts_of_the_rows_merge_into_the_whole():
    truth, given, f = world(np.random.default_rng(1))
    disputed, proposed = is_disputed(given, f), threshold(given, f, 0.5)
    answers = answered(truth, given, f, 90, seed=0)
    whole = Tally.of(given, proposed, disputed, answers)
    parts = None
    for start in range(0, 600, 70):
        rows = slice(start, start + 70)
        part = Tally.of(given[rows], proposed[rows], disputed[rows], answers, first_row=start)
        parts = part if parts is None else parts.merge(part)
    assert parts is not None
    assert certify(parts) == certify(whole)


def test_rows_out_of_order_repair_but_do_not_count():
    truth, given, f = world(np.random.default_rng(2))
    disputed, proposed = is_disputed(given, f), threshold(given, f, 0.5)
    base = answered(truth, given, f, 60, seed=0)
    later = Queue.of(disputed, 200).next(200)[150:]
    rows = np.concatenate([base.rows, later])
    both = certify(Tally.of(given, proposed, disputed, Answers.of(rows, truth[rows])))
    alone = certify(Tally.of(given, proposed, disputed, base))
    assert (both.counted, both.answers) == (60, 110)
    assert both.all_rows.parts == alone.all_rows.parts
    repaired = sum(proposed[r] != truth[r] for r in later)
    assert both.wrong_after == pytest.approx(alone.wrong_after - repaired / 600)
    assert "50 more, out of this order, do not count" in both.basis


def test_cannot_tell_counts_as_wrong_and_stays():
    truth, given, f = world(np.random.default_rng(3))
    disputed, proposed = is_disputed(given, f), given
    base = answered(truth, given, f, 60, seed=0)
    codes = base.codes.copy()
    codes[::4] = -1
    unsure = certify(Tally.of(given, proposed, disputed, Answers(base.rows, codes)))
    sure = certify(Tally.of(given, proposed, disputed, base))
    assert unsure.cannot_tell == 15
    assert "'cannot tell' (15) counts as wrong" in unsure.basis
    assert unsure.wrong_after > sure.wrong_after
    assert unsure.wrong_before[0] <= sure.wrong_before[0]
    assert unsure.wrong_changes is None
    assert unsure.sentence.startswith(f"change no label by rule, {unsure.fixed} by answers;")
    assert unsure.wrong_changes_between == (0.0, 0.0)


def test_answers_that_nobody_drew_prove_nothing():
    truth, given, f = world(np.random.default_rng(3))
    rows = np.arange(len(given) - 5, len(given))
    found = certify(Tally.of(given, given, is_disputed(given, f), Answers(rows, truth[rows])))
    assert found.counted == 0
    assert found.sentence.endswith("nothing is proved: no answer is to a question of `adacorr ask`")


def test_all_rows_answered_leaves_nothing_open():
    truth, given, f = world(np.random.default_rng(4))
    proposed = threshold(given, f, 0.5)
    result = certify(
        Tally.of(given, proposed, is_disputed(given, f), Answers.of(np.arange(600), truth))
    )
    share = (given != truth).mean()
    assert result.wrong_after == 0
    assert result.wrong_before == pytest.approx((share, share))
    assert result.changes == 0


def test_no_answers_prove_nothing():
    _, given, f = world(np.random.default_rng(5))
    result = certify(Tally.of(given, given, is_disputed(given, f), Answers.of([], [])))
    assert result.wrong_after == 1
    assert result.wrong_before == (0, 1)


def test_the_outlook_starts_where_the_answers_end_and_improves():
    truth, given, f = world(np.random.default_rng(6), n=20_000, noise=0.1)
    answers = answered(truth, given, f, 90, seed=0)
    result = certify(Tally.of(given, threshold(given, f, 0.5), is_disputed(given, f), answers))
    assert result.outlook(0) == pytest.approx((result.wrong_changes, result.wrong_after))
    assert result.outlook(10)[1] < result.wrong_after
    target = result.outlook(400)[1]
    assert result.more_answers(target) == pytest.approx(400, rel=0.03)
    assert result.more_answers(result.wrong_after) == 0
    assert result.more_answers(1e-9) == pytest.approx(20_000 - 90, rel=0.02)


def test_a_larger_family_costs_something():
    truth, given, f = world(np.random.default_rng(7))
    tally = Tally.of(
        given, threshold(given, f, 0.5), is_disputed(given, f), answered(truth, given, f, 60, 0)
    )
    one, many = certify(tally), certify(tally, family_size=12)
    assert one.wrong_after < many.wrong_after
    assert one.wrong_before == many.wrong_before
    alike = certify(tally, family_size=12, agreed_size=1)  # where agreed rows are never changed
    assert one.wrong_after < alike.wrong_after < many.wrong_after
    assert alike.wrong_changes == many.wrong_changes


# --- simulations ------------------------------------------------------------------------------

DELTAS = (1e-9, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
PASSES = (20, 50, 100, 200, 500)
REPETITIONS = 2000
ALLOWED = ALPHA + 3 * (ALPHA * (1 - ALPHA) / REPETITIONS) ** 0.5
SETTINGS = {
    "usual": {},
    "skewed": {"elsewhere": 30},
    "rare errors": {"noise": 0.01, "model": 0.99},
    "clean": {"noise": 0.0, "model": 0.99},
    "clean, weak model": {"noise": 0.0, "model": 0.5},
    "mostly wrong": {"noise": 0.9},
}


@pytest.fixture
def fast_limits(monkeypatch):
    """The same counts come again and again; a coarser grid is conservative."""
    monkeypatch.setattr(sequences, "_GRID", 48)
    monkeypatch.setattr(module, "most_marked", cache(sequences.most_marked))
    monkeypatch.setattr(module, "least_marked", cache(sequences.least_marked))


def misses(shrink=1.0, elsewhere=0, deltas=DELTAS, **settings):
    """Share of repetitions in which a statement is ever untrue: (changes, after, before).

    Several passes; each takes the threshold that looks best on the answers so far, and
    `elsewhere` rows were answered out of order, all of which the rule gets right.
    """
    truth, given, f = world(np.random.default_rng(11), **settings)
    disputed = is_disputed(given, f)
    rules = [threshold(given, f, delta) for delta in deltas]
    picked = np.flatnonzero(disputed & (rules[-1] == truth))[:elsewhere]
    share = (given != truth).mean()
    missed = np.zeros((REPETITIONS, 3), dtype=bool)
    for seed in range(REPETITIONS):
        asked = Queue.of(disputed, PASSES[-1], seed=seed)
        for n in PASSES:
            rows = np.union1d(asked.next(n), picked)
            answers = Answers(rows, truth[rows])
            rule = rules[int(np.argmax([(rule[rows] == truth[rows]).sum() for rule in rules]))]
            tally = Tally.of(given, rule, disputed, answers, seed=seed)
            result = certify(tally, family_size=len(rules), agreed_size=1)
            wrong = rule != truth
            wrong[rows] = False
            changes = int((wrong & (rule != given)).sum())
            limit = 0 if result.wrong_changes is None else result.wrong_changes * result.changes
            low, high = result.wrong_before
            missed[seed] |= (
                shrink * limit < changes - 1e-9,
                shrink * result.wrong_after < wrong.mean() - 1e-9,
                not (low / shrink - 1e-9 <= share <= shrink * high + 1e-9),
            )
    return missed.mean(axis=0)


@pytest.mark.parametrize("name", SETTINGS)
def test_statements_hold_over_several_passes_for_the_rule_that_looked_best(name, fast_limits):
    assert (misses(**SETTINGS[name]) <= ALLOWED).all()


def test_statements_shrunk_by_a_fifth_would_be_found_out(fast_limits):
    settings = {"deltas": (0.8,), "noise": 0.5, "model": 0.5}
    assert (misses(**settings) <= ALLOWED).all()
    assert (misses(shrink=0.8, **settings) > ALLOWED).all()


@pytest.mark.parametrize(("n", "more"), [(50, 10), (100, 10), (100, 100)])
def test_what_more_answers_would_bring_is_what_they_bring(n, more, fast_limits):
    """On average over repetitions: of the change in the limits, most is foretold."""
    truth, given, f = world(np.random.default_rng(12), n=3000, noise=0.15)
    disputed, proposed = is_disputed(given, f), threshold(given, f, 0.5)
    foretold, found, before = [], [], []
    for seed in range(60):
        rows = Queue.of(disputed, n + more, seed=seed).next(n + more)
        now, then = (
            certify(
                Tally.of(given, proposed, disputed, Answers.of(some, truth[some]), seed=seed),
                family_size=9,
                agreed_size=1,
            )
            for some in (rows[:n], rows)
        )
        before.append([now.wrong_changes, now.wrong_after])
        foretold.append(now.outlook(more))
        found.append([then.wrong_changes, then.wrong_after])
    gain = np.mean(before, axis=0) - np.mean(found, axis=0)
    said = np.mean(before, axis=0) - np.mean(foretold, axis=0)
    assert (gain > 0).all()
    assert np.allclose(said, gain, rtol=0.35, atol=0.004), (said, gain)

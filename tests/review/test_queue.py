import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from adacorr.review.queue import LEASE_SECONDS, ChangeQueue, audited, load_flips
from adacorr.runs.reader import RunData


@pytest.fixture
def flips(make_run):
    return load_flips(RunData.open(make_run()))


@pytest.fixture
def queue(flips):
    return ChangeQueue.create(flips, np.random.default_rng(1).permutation(len(flips)))


def test_flips_are_the_changed_rows(make_run):
    run = make_run("other")
    flips = load_flips(RunData.open(run))
    table = pq.read_table(run.file("labels.parquet")).to_pylist()
    rows, made = [r for r in table if r["flipped"]], ~flips.suspect
    assert flips.row[made].tolist() == [r["index"] for r in rows]
    assert flips.proposed[made].tolist() == [r["corrected"] for r in rows]
    assert flips.confidence[made].tolist() == [r["confidence"] for r in rows]
    kept = [r for r in table if not r["flipped"] and r["suggested"] != r["given"]]
    assert kept
    assert flips.row[flips.suspect].tolist() == [r["index"] for r in kept]
    assert flips.proposed[flips.suspect].tolist() == [r["suggested"] for r in kept]
    assert [flips.find(int(row)) for row in flips.row] == list(range(len(flips)))
    kept = next(i for i in range(300) if i not in set(flips.row.tolist()))
    assert flips.find(kept) is None
    assert flips.find(10**9) is None


def test_pairs_count_every_flip(flips):
    pairs = flips.pairs(4)
    assert sum(count for _, _, count in pairs) == (~flips.suspect).sum()
    given, proposed, count = pairs[0]
    of_pair = (flips.given == given) & (flips.proposed == proposed)
    assert count == (of_pair & ~flips.suspect).sum()
    assert count == max(c for _, _, c in pairs)


def test_orders(flips, queue):
    state = np.zeros(len(flips), np.int8)
    doubtful = queue.next(state, "doubtful", "me", 100)
    certain = queue.next(state, "certain", "me", 100)
    sure = flips.confidence
    assert (np.diff(sure[doubtful]) >= 0).all()
    assert (np.diff(sure[certain]) <= 0).all()
    assert sure[doubtful[0]] == np.nanmin(sure)
    assert sure[certain[0]] == np.nanmax(sure)
    suspects = queue.next(state, "suspicious", "me", 100)
    assert sorted(suspects) == np.flatnonzero(flips.suspect).tolist()
    assert (np.diff(flips.suspicion[suspects]) <= 0).all()
    assert queue.next(state, "audit", "me", 5) == queue.orders["audit"][:5].tolist()


def test_decided_are_left_out_and_skipped_come_last(flips, queue):
    state = np.zeros(len(flips), np.int8)
    first, second, third = queue.next(state, "doubtful", "me", 3)
    state[first], state[second] = 1, 4
    found = queue.next(state, "doubtful", "me", len(flips))
    assert found[0] == third
    assert found[-1] == second
    assert first not in found


def test_pair_filter(flips, queue):
    given, proposed, count = flips.pairs(4)[0]
    found = queue.next(np.zeros(len(flips), np.int8), "doubtful", "me", 100, (given, proposed))
    assert len(found) == count
    assert set(flips.given[found]) == {given}
    assert set(flips.proposed[found]) == {proposed}


def test_people_get_different_flips_until_the_hold_ends(flips, queue, monkeypatch):
    state = np.zeros(len(flips), np.int8)
    mine, theirs = (queue.next(state, "doubtful", who, 8) for who in ("a", "b"))
    assert not set(mine) & set(theirs)
    assert queue.next(state, "doubtful", "a", 8) == mine
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now + LEASE_SECONDS - 1)
    queue.keep("a")  # its page is still open
    monkeypatch.setattr("time.monotonic", lambda: now + LEASE_SECONDS + 1)
    assert queue.next(state, "doubtful", "b", 8) == theirs
    monkeypatch.setattr("time.monotonic", lambda: 1e12)
    assert queue.next(state, "doubtful", "b", 8) == mine


def test_audit_counts_the_unbroken_beginning_only():
    order = np.array([3, 1, 0, 2])
    assert audited(order, np.array([1, 2, 1, 1])) == (4, 1)
    assert audited(order, np.array([1, 2, 1, 4])) == (0, 0)  # the first one was skipped
    assert audited(order, np.array([0, 3, 1, 1])) == (2, 1)  # another class: the flip was wrong
    assert audited(np.array([], int), np.array([], np.int8)) == (0, 0)


def test_withheld_changes_are_offered_but_not_audited(make_run):
    run = make_run("withheld", withhold=0.3)
    rows = pq.read_table(run.file("labels.parquet")).to_pylist()
    flips = load_flips(RunData.open(run))
    asked = [r for r in rows if r["flipped"] or r["review"]]
    made = ~flips.suspect
    assert flips.row[made].tolist() == [r["index"] for r in asked]
    assert flips.proposed[made].tolist() == [r["suggested"] for r in asked]
    assert flips.withheld[made].tolist() == [r["review"] for r in asked]
    f = np.load(run.file("pred_probs.npy"))[flips.row, flips.proposed]
    np.testing.assert_allclose(flips.confidence[made], f[made], rtol=1e-6)
    queue = ChangeQueue.create(flips, np.random.default_rng(1).permutation(np.flatnonzero(made)))
    doubtful = queue.next(np.zeros(len(flips), np.int8), "doubtful", "me", len(flips))
    n = int(flips.withheld.sum())
    assert 0 < n < len(flips)
    assert flips.withheld[doubtful[:n]].all()  # the least certain come first
    assert sorted(queue.orders["audit"]) == np.flatnonzero(made & ~flips.withheld).tolist()

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.review.server import DATABASE
from adacorr.review.store import ACCEPT, OPEN, OTHER, REJECT, SKIP, Busy, SignOff


def test_decisions_stand_and_survive_reopening(make_run, open_store):
    run = make_run()
    store = open_store(run)
    said = [SignOff(0, "accept"), SignOff(1, "reject"), SignOff(2, "other", 3)]
    assert store.decide([*said, SignOff(3, "skip")], "Ann") == []
    assert store.state[:5].tolist() == [ACCEPT, REJECT, OTHER, SKIP, OPEN]
    store.close()
    again = open_store(run)
    assert again.state[:5].tolist() == [ACCEPT, REJECT, OTHER, SKIP, OPEN]
    assert again.label[2] == 3
    assert again.counts_by_reviewer() == {"Ann": 3}
    assert set(again.reviewers().values()) == {"Ann"}


def test_undo_is_per_person_and_keeps_the_log(make_run, open_store):
    store = open_store(make_run())
    store.decide([SignOff(0, "accept")], "Ann")
    store.decide([SignOff(1, "accept")], "Bob")
    assert store.undo("Ann") == 0
    assert store.state[:2].tolist() == [OPEN, ACCEPT]
    assert store.undo("Ann") is None
    store.decide([SignOff(0, "reject")], "Ann")
    assert store.state[0] == REJECT
    count = store._db.execute("SELECT COUNT(*) FROM log").fetchone()[0]
    assert count == 4  # accept, accept, undo, reject: nothing is deleted


def test_undo_brings_back_what_stood_before(make_run, open_store):
    store = open_store(make_run())
    store.decide([SignOff(0, "skip")], "Ann")
    store.decide([SignOff(0, "accept", seen=int(store.latest[0]))], "Bob")
    assert store.state[0] == ACCEPT
    store.undo("Bob")
    assert store.state[0] == SKIP


def test_a_second_opinion_is_refused_unless_the_first_was_seen(make_run, open_store):
    store = open_store(make_run())
    store.decide([SignOff(0, "accept")], "Ann")
    (standing,) = store.decide([SignOff(0, "reject"), SignOff(1, "reject")], "Bob")
    assert (standing.reviewer, standing.choice, standing.flip) == ("Ann", "accept", 0)
    assert store.state[:2].tolist() == [ACCEPT, REJECT]  # the rest of the batch is saved
    assert store.decide([SignOff(0, "reject", seen=standing.id)], "Bob") == []
    assert store.state[0] == REJECT


def test_two_processes_see_each_other(make_run, open_store):
    run = make_run()
    one, two = open_store(run), open_store(run)
    one.decide([SignOff(0, "accept")], "Ann")
    two.refresh()
    assert two.state[0] == ACCEPT
    assert two.decide([SignOff(0, "reject")], "Bob")[0].reviewer == "Ann"
    np.testing.assert_array_equal(one.audit_order(), two.audit_order())


def test_threads_lose_nothing(make_run, open_store):
    run = make_run()
    store = open_store(run)
    half = len(store.flips) // 2

    def work(start: int, name: str) -> None:
        for flip in range(start, start + half):
            store.decide([SignOff(flip, "accept")], name)

    threads = [threading.Thread(target=work, args=(i * half, n)) for i, n in enumerate("AB")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (open_store(run).state[: 2 * half] == ACCEPT).all()


def test_random_histories_match_a_plain_model(make_run, open_store):
    run = make_run()
    store = open_store(run)
    rng = np.random.default_rng(5)
    log: list[tuple[str, int, str] | None] = []
    for _ in range(120):
        who, flip = str(rng.choice(["Ann", "Bob"])), int(rng.integers(0, 6))
        if rng.random() < 0.3:
            undone = store.undo(who)
            mine = [i for i, entry in enumerate(log) if entry and entry[0] == who]
            assert undone == (log[mine[-1]][1] if mine else None)  # pyright: ignore
            if mine:
                log[mine[-1]] = None
        else:
            choice = str(rng.choice(["accept", "reject", "skip"]))
            seen = int(store.latest[flip])
            assert store.decide([SignOff(flip, choice, seen=seen)], who) == []  # pyright: ignore
            log.append((who, flip, choice))
    words = {"accept": ACCEPT, "reject": REJECT, "skip": SKIP}
    for flip in range(6):
        standing = [e[2] for e in log if e and e[1] == flip]
        assert store.state[flip] == (words[standing[-1]] if standing else OPEN)
    np.testing.assert_array_equal(open_store(run).state, store.state)


def test_audit_order_is_fixed_at_first_use(make_run, open_store):
    run = make_run()
    store = open_store(run)
    first = store.audit_order()
    np.testing.assert_array_equal(first, open_store(run).audit_order())
    assert sorted(first) == np.flatnonzero(~store.flips.suspect).tolist()
    other = open_store(make_run("other")).audit_order()
    assert first.tolist() != other.tolist()  # drawn anew for each run


def newer(path):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")


def foreign(path):
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")


def garbage(path):
    for extra in ("-wal", "-shm"):
        path.with_name(path.name + extra).unlink(missing_ok=True)
    path.write_bytes(b"this is not a database at all" * 100)


def link(path):
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def folder(path):
    path.unlink()
    path.mkdir()


def stray_row(path):
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO log (row, choice, reviewer, at) VALUES (99999, 'accept', 'x', '')")


def stray_class(path):
    with sqlite3.connect(path) as db:
        db.execute("UPDATE log SET choice = 'other', label = 99999")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (newer, "newer adacorr"),
        (foreign, "another database"),
        (garbage, "expected adacorr's decisions"),
        (link, "symbolic link"),
        (folder, "can be written"),
        (stray_row, "row 99999"),
        (stray_class, "class index"),
    ],
)
def test_an_unusable_file_is_one_clear_line(make_run, open_store, spoil, message):
    run = make_run()
    store = open_store(run)
    store.decide([SignOff(0, "accept")], "Ann")
    store.close()
    spoil(run.file(DATABASE))
    with pytest.raises(InputError, match=message) as caught:
        open_store(run)
    assert "\n" not in str(caught.value)


def test_decisions_about_other_changes_are_refused(make_run, open_store):
    run, other = make_run(), make_run("other", seed=9)
    open_store(run).close()
    run.file(DATABASE).rename(other.file(DATABASE))
    with pytest.raises(InputError, match="corrected again"):
        open_store(other)


def test_a_locked_file_is_said(make_run, open_store, monkeypatch):
    monkeypatch.setattr("adacorr.review.store.BUSY_SECONDS", 0.05)
    run = make_run()
    store = open_store(run)
    blocker = sqlite3.connect(run.file(DATABASE), isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Busy, match="another program has locked"):
        store.decide([SignOff(0, "accept")], "Ann")
    blocker.execute("ROLLBACK")
    assert store.state[0] == OPEN
    assert store.decide([SignOff(0, "accept")], "Ann") == []


READ_ONLY = """
import os, sys
from pathlib import Path
from adacorr.review.queue import load_flips
from adacorr.review.store import Store
from adacorr.runs.reader import RunData
from adacorr.runs.directory import Run
run = Run.open(sys.argv[1])
flips = load_flips(RunData.open(run))
if os.geteuid() == 0:  # root may write anywhere; it reads first because others may not
    os.setuid(65534)
try:
    Store(run.file("review.sqlite"), flips, 4)
except ValueError as error:
    print(error)
"""


def test_a_read_only_run_is_said(make_run):
    run = make_run()
    with tempfile.TemporaryDirectory() as folder:
        place = shutil.copytree(run.path, f"{folder}/run")
        for path in (folder, place):
            os.chmod(path, 0o555)
        command = [sys.executable, "-c", READ_ONLY, place]
        said = subprocess.check_output(command, text=True, timeout=60)
        for path in (folder, place):
            os.chmod(path, 0o755)
    assert "can be written" in said
    assert len(said.splitlines()) == 1


def test_no_flipped_bit_changes_a_decision(make_run, open_store, tmp_path):
    """Refused, or without effect: 300 single bits all over the file."""
    run = make_run(n=2000)
    store = open_store(run)
    choices = [("accept", None), ("reject", None), ("other", 1), ("skip", None)]
    said = [SignOff(i, *choices[i % 4]) for i in range(len(store.flips))]
    assert store.decide(said, "Ann") == []
    store.undo("Ann")
    wanted = store.state.copy(), store.label.copy(), store.reviewers()
    store.close()
    path = run.file(DATABASE)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for bit in rng.integers(0, 8 * len(whole), 300).tolist():
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            store = open_store(run)
        except InputError as error:
            assert "review.sqlite: expected" in str(error)  # noqa: PT017
            refused += 1
        else:
            found = store.state.copy(), store.label.copy(), store.reviewers()
            store.close()
            assert np.array_equal(found[0], wanted[0]), bit
            assert np.array_equal(found[1], wanted[1]), bit
            assert found[2] == wanted[2], bit
        for extra in ("-wal", "-shm"):
            path.with_name(path.name + extra).unlink(missing_ok=True)
    assert refused > 100


def test_a_file_of_the_first_format_is_brought_up_to_date(make_run, open_store):
    run = make_run()
    store = open_store(run)
    store.decide([SignOff(0, "accept")], "Ann")
    store.close()
    with sqlite3.connect(run.file(DATABASE)) as db:
        db.execute("ALTER TABLE log DROP COLUMN author")
        db.execute("PRAGMA user_version = 1")
    db.close()
    again = open_store(run)
    assert again.state[0] == ACCEPT
    again.decide([SignOff(1, "reject")], "Ann", "a browser")
    assert again.undo("Ann", "a browser") == 1
    assert again.undo("Ann", "a browser") is None  # the earlier one has another author
    assert again.undo("Ann") == 0

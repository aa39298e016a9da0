"""Answers: kept beside the decisions, merged over people, compared with each other."""

import os
import sqlite3
import subprocess
import sys

import pytest

from adacorr.core.validation import InputError
from adacorr.review.answers import AnswerLog, Said, agreement, settled
from adacorr.review.server import DATABASE
from adacorr.runs.reader import RunData


def test_answers_survive_reopening_and_undo_is_ones_own(make_run, open_answers):
    run = make_run()
    log = open_answers(run)
    log.add(Said(3, 1, "Ann", "a browser"))
    log.add(Said(4, None, "Ann", "another browser", blind=False, note="too dark"))
    assert log.undo("Ann", "a third") is None
    again = open_answers(run)
    assert list(again.standing()) == [
        Said(3, 1, "Ann", "a browser"),
        Said(4, None, "Ann", "another browser", False, "too dark"),
    ]
    assert again.undo("Ann", "a browser") == Said(3, 1, "Ann", "a browser")
    assert again.undo("Ann", "a browser") is None
    assert [one.row for one in log.standing()] == [4]  # the other server sees it


def test_an_unfinished_answer_is_not_there_and_a_finished_one_is(make_run, open_answers):
    """The process dies without a chance to tidy up, right after the answer was confirmed."""
    run = make_run()
    open_answers(run)
    code = (
        "import os, sys; from adacorr.review import open_review\n"
        "from adacorr.review.answers import AnswerLog, Said\n"
        "from adacorr.runs.directory import Run\n"
        "data, store = open_review(Run.open(sys.argv[1])); log = AnswerLog(store, data)\n"
        "log.add(Said(1, 2, 'Ann'))\n"
        "writing = store.write()\n"
        'writing.__enter__().execute("INSERT INTO answer (row, label, blind, note, '
        "reviewer, author, at) VALUES (2, 2, 1, '', 'Ann', '', '')\")\n"
        "os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run.path)], check=False, env=os.environ)
    assert done.returncode == 9
    assert [one.row for one in open_answers(run).standing()] == [1]


@pytest.mark.parametrize(
    "change", ["label = 'x'", "label = 99", "row = 100000", "row = 'x'", "row = -1"]
)
def test_damaged_answers_are_named(make_run, open_answers, change):
    run = make_run()
    log = open_answers(run)
    log.add(Said(1, 2, "Ann"))
    log.store.close()
    with sqlite3.connect(run.file(DATABASE)) as db:
        db.execute(f"UPDATE answer SET {change}")
    db.close()
    with pytest.raises(InputError, match="expected answers about this run"):
        open_answers(run).standing()


def test_people_settle_a_row_by_majority_and_a_tie_settles_nothing():
    ann, bob, eve = (Said(0, label, name) for name, label in (("Ann", 1), ("Bob", 2), ("Eve", 2)))
    assert settled([ann]) == {0: 1}
    assert settled([ann, bob]) == {0: -1}
    assert settled([ann, bob, eve]) == {0: 2}
    assert settled([ann, bob, Said(0, 2, "Ann")]) == {0: 2}  # Ann thought again
    assert settled([Said(5, None, "Ann")]) == {5: -1}
    assert settled([Said(5, None, "Ann", "here"), Said(5, 3, "Ann", "there")]) == {5: -1}


def test_who_contradicts_themselves_is_named():
    said = [Said(row, 0, "Ann") for row in range(3)]
    said += [Said(0, 0, "Ann"), Said(1, 1, "Ann")]
    said += [Said(2, 0, "Bob"), Said(2, 0, "Bob"), Said(9, 0, "Bob")]
    found = agreement(said)
    assert (found.rows, found.same) == (1, 1)
    assert found.repeats == (("Ann", 2, 1), ("Bob", 1, 0))


def test_an_older_database_gets_the_table(make_run, open_store):
    run = make_run()
    store = open_store(run)
    store.close()
    with sqlite3.connect(run.file(DATABASE)) as db:
        db.execute("DROP TABLE answer")
        db.execute("PRAGMA user_version = 2")
    db.close()
    log = AnswerLog(open_store(run), RunData.open(run))
    log.add(Said(0, 0, "Ann"))
    assert len(log.standing()) == 1

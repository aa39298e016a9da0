import csv

import numpy as np
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.review import export, open_review
from adacorr.review.store import SignOff
from adacorr.runs.reader import BATCH_ROWS


@pytest.fixture
def reviewed(make_run):
    run = make_run(class_names=["a", 'with "quotes", comma', "c\nnewline", "é" * 100])
    data, store = open_review(run)
    store.decide([SignOff(0, "accept"), SignOff(1, "reject")], "Ann")
    other = next(c for c in range(4) if c not in (store.flips.given[2], store.flips.proposed[2]))
    store.decide([SignOff(2, "other", other), SignOff(3, "skip")], "Bob")
    return run, data, store


def exported(data, store, path, unreviewed="keep"):
    export(data, store, path, unreviewed)
    return pq.read_table(path)


def codes(run, table, column="adacorr_label"):
    return [run.class_names().index(name) for name in table[column].to_pylist()]


def expected(run, store, unreviewed):
    """The rule in plain words, row by row."""
    rows = pq.read_table(run.file("labels.parquet")).to_pylist()
    answer = [row["given"] for row in rows]
    for flip, row in enumerate(store.flips.row.tolist()):
        choice = {0: "accept", 1: "reject", 2: "other"}.get(flip, unreviewed)
        if choice == "accept":
            answer[row] = rows[row]["corrected"]
        elif choice == "other":
            answer[row] = int(store.label[flip])
    return answer


def test_the_data_that_the_run_came_from_are_never_overwritten(make_run, tmp_path):
    table = tmp_path / "things.csv"
    table.write_text("label\ncat\n")
    data, store = open_review(make_run(data={"source": str(table)}))
    with pytest.raises(InputError, match="expected a name other than the run's own data"):
        export(data, store, tmp_path / "run" / ".." / "things.csv")
    assert table.read_text() == "label\ncat\n"


@pytest.mark.parametrize("unreviewed", ["keep", "accept"])
def test_parquet_equals_the_decisions(reviewed, tmp_path, unreviewed):
    run, data, store = reviewed
    before = run.file("labels.parquet").read_bytes()
    table = exported(data, store, tmp_path / "final.parquet", unreviewed)
    assert codes(run, table) == expected(run, store, unreviewed)
    source = pq.read_table(run.file("labels.parquet"))
    assert codes(run, table, "adacorr_given") == source["given"].to_pylist()
    assert table["adacorr_row"].to_pylist() == source["index"].to_pylist()
    first_rows = store.flips.row[:5].tolist()
    decided = [table["adacorr_decision"][row].as_py() for row in first_rows]
    assert decided == ["accepted", "rejected", "other", "unreviewed", "unreviewed"]
    people = [table["adacorr_decided_by"][row].as_py() for row in first_rows]
    rule = "rule" if unreviewed == "accept" else "given"
    assert people == ["Ann", "Ann", "Bob", rule, rule]
    assert run.file("labels.parquet").read_bytes() == before


def test_csv_holds_the_same(reviewed, tmp_path):
    run, data, store = reviewed
    path = tmp_path / "final.csv"
    export(data, store, path)
    with open(path, newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    names = run.class_names()
    assert [names.index(row["adacorr_label"]) for row in rows] == expected(run, store, "keep")


def test_several_batches(make_run, tmp_path):
    run = make_run(n=BATCH_ROWS + 1000)
    data, store = open_review(run)
    last = len(store.flips) - 1
    store.decide([SignOff(last, "accept")], "Ann")
    table = exported(data, store, tmp_path / "final.parquet")
    source = pq.read_table(run.file("labels.parquet"))
    changed = np.flatnonzero(np.array(codes(run, table)) != source["given"].to_numpy())
    assert changed.tolist() == [int(store.flips.row[last])]


def test_the_given_labels_are_never_overwritten(reviewed):
    run, data, store = reviewed
    with pytest.raises(InputError, match=r"own labels\.parquet"):
        export(data, store, run.file("labels.parquet"))
    with pytest.raises(InputError, match=r"\.parquet or \.csv"):
        export(data, store, run.file("labels.txt"))


def test_zero_flips(make_run, tmp_path):
    run = make_run(flips=False)
    data, store = open_review(run)
    table = exported(data, store, tmp_path / "final.parquet", "accept")
    assert set(table["adacorr_decision"].to_pylist()) == {"unchanged"}


@pytest.mark.parametrize("unreviewed", ["keep", "accept"])
def test_a_withheld_change_is_applied_only_when_accepted(make_run, tmp_path, unreviewed):
    run = make_run(withhold=0.3)
    data, store = open_review(run)
    flips = store.flips
    first, second, *rest = np.flatnonzero(flips.withheld).tolist()
    store.decide([SignOff(first, "accept"), SignOff(second, "reject")], "Ann")
    table = exported(data, store, tmp_path / "final.parquet", unreviewed)
    label = np.array(codes(run, table))[flips.row]
    assert label[first] == flips.proposed[first]
    assert (label[[second, *rest]] == flips.given[[second, *rest]]).all()
    made = ~flips.withheld & ~flips.suspect
    expected = flips.proposed if unreviewed == "accept" else flips.given
    assert (label[made] == expected[made]).all()

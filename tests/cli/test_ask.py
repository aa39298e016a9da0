"""``adacorr ask`` and answers on the command line."""

import csv
import json
from pathlib import Path

import pytest


@pytest.fixture
def animals(tmp_path, monkeypatch):
    """A table of 200 rows; every fifth label is wrong, and the model knows."""
    monkeypatch.chdir(tmp_path)
    rows = ["id,text,label,p_cat,p_dog"]
    for i in range(200):
        truth = i % 2
        given = 1 - truth if i % 5 == 0 else truth
        p = 0.9 - 0.001 * i if truth == 0 else 0.1 + 0.001 * i / 2
        rows.append(f"a{i},animal {i},{('cat', 'dog')[given]},{p},{1 - p}")
    Path("animals.csv").write_text("\n".join(rows) + "\n")


def answer(path):
    """Fill in the questions as a person who knows the truth."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = ("cat", "dog")[int(row["row"]) % 2]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_ask_answer_correct_and_ask_again(run_cli, animals):
    code, out, _ = run_cli("ask", "animals.csv", "--n", "40", "--output", "q.csv")
    assert code == 0
    assert out.splitlines() == [
        "40 questions in q.csv",
        "answer with one of: cat; dog; cannot tell",
    ]
    answer("q.csv")
    code, out, _ = run_cli("correct", "animals.csv", "--verified", "q.csv", "--output", "out.csv")
    assert code == 0
    assert "proved: change " in out
    assert "from 40 answers in random order" in out
    with open("out.csv", newline="") as file:
        labels = [row["adacorr_label"] for row in csv.DictReader(file)]
    with open("q.csv", newline="") as file:
        asked = [int(row["row"]) for row in csv.DictReader(file)]
    assert [labels[row] for row in asked] == [("cat", "dog")[row % 2] for row in asked]
    code, out, _ = run_cli(
        "ask", "animals.csv", "--n", "5", "--verified", "q.csv", "--output", "next.csv", "--json"
    )
    assert code == 0
    assert not set(asked) & set(json.loads(out)["rows"])


def test_a_run_is_asked_about_and_certified(run_cli, animals):
    """The same rows as of its table; answers that it holds are not asked for again."""
    assert run_cli("correct", "animals.csv", "--run-dir", "run", "--quiet")[0] == 0
    assert run_cli("ask", "animals.csv", "--n", "30", "--output", "table.csv")[0] == 0
    assert run_cli("ask", "run", "--n", "30", "--output", "q.csv")[0] == 0
    with open("table.csv") as one, open("q.csv") as other:
        mine, theirs = (list(csv.DictReader(file)) for file in (one, other))
    assert [row["row"] for row in mine] == [row["row"] for row in theirs]
    assert [row["text"] for row in mine] == [row["text"] for row in theirs]
    assert not {"given", "p_cat"} & set(theirs[0])
    answer("q.csv")
    code, out, _ = run_cli("certify", "run", "--verified", "q.csv")
    assert code == 0
    assert "from 30 answers in random order" in out
    assert run_cli("import", "run", "q.csv")[0] == 0
    code, again, _ = run_cli("certify", "run")  # what was imported counts
    assert again.splitlines()[:2] == out.splitlines()[:2]
    assert run_cli("ask", "run", "--n", "5", "--output", "next.csv", "--json")[0] == 0
    with open("next.csv") as file:
        more = {row["row"] for row in csv.DictReader(file)}
    assert len(more) == 5
    assert not more & {row["row"] for row in theirs}
    code, _, err = run_cli("ask", "run", "--output", "x.csv", "--label-column", "label")
    assert (code, err.count("\n")) == (2, 1)
    assert "expected no options of tables with a run" in err


def test_a_run_with_answers_says_who_decided(run_cli, animals):
    assert run_cli("ask", "animals.csv", "--n", "30", "--output", "q.csv")[0] == 0
    answer("q.csv")
    words = ("correct", "animals.csv", "--verified", "q.csv", "--run-dir", "run")
    assert run_cli(*words, "--output", "out.csv", "--quiet")[0] == 0
    assert run_cli("export", "run", "--output", "final.csv")[0] == 0
    with open("q.csv") as one, open("out.csv") as two, open("final.csv") as three:
        asked, out, final = (list(csv.DictReader(file)) for file in (one, two, three))
    said = {int(row["row"]) for row in asked}
    for i, (mine, theirs) in enumerate(zip(out, final, strict=True)):
        changed = mine["adacorr_label"] != mine["label"]
        by = "answers" if i in said else "rule" if changed else "given"
        assert mine["adacorr_decided_by"] == theirs["adacorr_decided_by"] == by
        shared = ("id", "text", "label", "adacorr_label", "adacorr_alternative")
        assert [mine[name] for name in shared] == [theirs[name] for name in shared]
        assert theirs["adacorr_given"] == mine["label"]
        assert float(mine["adacorr_suspicion"]) == pytest.approx(float(theirs["adacorr_suspicion"]))


def test_answers_do_not_move_to_other_rows(run_cli, animals):
    """A row number says nothing of a table that was sorted again since people were asked."""
    run_cli("ask", "animals.csv", "--n", "40", "--output", "q.csv", "--quiet")
    answer("q.csv")
    head, *rows = Path("animals.csv").read_text().splitlines()
    Path("animals.csv").write_text("\n".join([head, *reversed(rows)]) + "\n")
    for words in (
        ["correct", "animals.csv", "--output", "o.csv"],
        ["ask", "animals.csv", "--output", "next.csv"],
    ):
        code, _, err = run_cli(*words, "--verified", "q.csv")
        assert code == 2
        assert "the table has changed since" in err
        assert "as the answers have it" in err
    with open("q.csv", newline="") as file:
        said = list(csv.DictReader(file))
    with open("q.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["row", "label"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(said)
    words = ["correct", "animals.csv", "--output", "o.csv", "--verified", "q.csv"]
    assert run_cli(*words)[0] == 0  # one's own risk


def test_json_holds_the_certificate(run_cli, animals):
    run_cli("ask", "animals.csv", "--output", "q.csv", "--quiet")
    answer("q.csv")
    code, out, _ = run_cli("correct", "animals.csv", "--verified", "q.csv", "--dry-run", "--json")
    found = json.loads(out)["certificate"]
    assert code == 0
    assert found["answers"] == found["counted"] == 50
    assert 0 <= found["wrong_after"] <= found["wrong_before"][1] <= 1


def test_nothing_is_overwritten(run_cli, animals):
    Path("q.csv").write_text("mine")
    code, _, err = run_cli("ask", "animals.csv", "--output", "q.csv")
    assert code == 2
    assert "expected a new file" in err
    code, _, err = run_cli("ask", "animals.csv", "--output", "animals.csv", "--overwrite")
    assert code == 2
    assert "an output other than the input" in err
    assert Path("q.csv").read_text() == "mine"

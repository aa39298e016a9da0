"""``adacorr certify``: from answers to a certificate, as a user does it."""

import csv
import json
import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adacorr.report.certificate import fingerprint
from adacorr.review.server import open_review
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData


@pytest.fixture
def animals(tmp_path, monkeypatch, run_cli):
    """A run of 400 rows; every fifth label is wrong, the model knows, and 60 rows are answered."""
    monkeypatch.chdir(tmp_path)
    rows = ["id,text,label,p_cat,p_dog"]
    for i in range(400):
        given = 1 - i % 2 if i % 5 == 0 else i % 2
        p = 0.95 - 0.0005 * i if i % 2 == 0 else 0.05 + 0.0005 * i
        rows.append(f"a{i},<b>animal {i}</b>,{('cat', 'dog')[given]},{p},{1 - p}")
    Path("animals.csv").write_text("\n".join(rows) + "\n")
    assert run_cli("correct", "animals.csv", "--run-dir", "run", "--quiet")[0] == 0
    assert run_cli("ask", "animals.csv", "--n", "60", "--output", "q.csv", "--quiet")[0] == 0
    with open("q.csv", newline="") as file:
        asked = [int(row["row"]) for row in csv.DictReader(file)]
    lines = [f"{row},{('cat', 'dog')[row % 2]}" for row in asked]
    Path("answers.csv").write_text("\n".join(["row,label", *lines]) + "\n")


def test_a_certificate_is_printed_and_written(run_cli, animals):
    code, out, _ = run_cli("certify", "run", "--verified", "answers.csv", "--target", "0.02")
    assert code == 0
    assert "from 60 answers in random order" in out
    assert re.search(r"At most 2.0% of all labels wrong: about \d+ further answers", out)
    told = json.loads(Path("run/certificate.json").read_text())
    assert told["certificate"]["answers"] == told["certificate"]["counted"] == 60
    assert told["answers_by"]["answers.csv"].startswith("60, in a file of 20")
    assert re.fullmatch("[0-9a-f]{64}", told["data"]["fingerprint"])
    page = Path("run/certificate.html").read_text()
    assert told["data"]["fingerprint"] in page
    assert "Certificate of labels" in page
    assert "http" not in page.replace("<html", "")  # needs no network


def test_the_same_as_correct_says(run_cli, animals):
    run_cli("certify", "run", "--verified", "answers.csv", "--quiet")
    told = json.loads(Path("run/certificate.json").read_text())["certificate"]
    _, out, _ = run_cli(
        "correct", "animals.csv", "--verified", "answers.csv", "--dry-run", "--json"
    )
    found = json.loads(out)["certificate"]
    assert {k: told[k] for k in found} == found


def test_the_fingerprint_is_that_of_the_data(run_cli, animals):
    before = fingerprint(RunData.open(Run.open(Path("run"))))
    text = Path("animals.csv").read_text()
    Path("animals.csv").write_text(text.replace("</b>,cat", "</b>,dog", 1))
    run_cli("correct", "animals.csv", "--run-dir", "other", "--quiet")
    assert fingerprint(RunData.open(Run.open(Path("other")))) != before


def test_all_rows_answered_leave_nothing_to_ask(run_cli, animals):
    lines = [f"a{row},{('cat', 'dog')[row % 2]}" for row in range(400)]
    Path("all.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    code, out, _ = run_cli("certify", "run", "--verified", "all.csv", "--target", "0.01")
    assert code == 0
    assert "at most 0.0% of all labels are wrong after, 20.0% to 20.0% now" in out
    assert "At most 1.0% of all labels wrong: shown." in out


def test_a_run_without_answers_is_one_line(run_cli, animals):
    code, _, err = run_cli("certify", "run")
    assert code == 2
    assert "expected answers given on the review page (or imported, or --verified FILE), got" in err
    code, _, err = run_cli("certify", "run", "--verified", "answers.csv", "--target", "2")
    assert code == 2
    assert "--target: expected a number" in err


def test_answers_of_the_review_page_count(run_cli, animals):
    data, store = open_review(Run.open(Path("run")))
    with closing(store), open("answers.csv", newline="") as file:
        from adacorr.review.answers import AnswerLog, Said

        log = AnswerLog(store, data)
        for row in csv.DictReader(file):
            log.add(Said(int(row["row"]), ("cat", "dog").index(row["label"]), "Ann"))
    assert run_cli("certify", "run", "--quiet")[0] == 0
    told = json.loads(Path("run/certificate.json").read_text())
    assert told["certificate"]["counted"] == 60
    assert told["answers_by"]["Ann"].startswith("60, ")


def test_answers_that_are_numbers_mean_the_names(run_cli, tmp_path):
    """With columns in another order than the numbers, answers were read as other classes."""
    n, k = 400, 4
    rng = np.random.default_rng(0)
    truth = rng.integers(0, k, n)
    f = rng.random((n, k)) * 0.3 + 2 * np.eye(k)[truth]
    f /= f.sum(axis=1, keepdims=True)
    given = np.where(rng.random(n) < 0.1, (truth + 1) % k, truth)
    columns = {f"p_{c + 1}": f[:, c] for c in (2, 0, 3, 1)}
    table, answers, run = (str(tmp_path / name) for name in ("t.csv", "a.csv", "run"))
    pd.DataFrame({"label": given + 1, **columns}).to_csv(table, index=False)
    run_cli("correct", table, "--run-dir", run, "--quiet")
    run_cli("ask", table, "--n", "80", "--output", answers, "--quiet")
    rows = pd.read_csv(answers)["row"]
    pd.DataFrame({"row": rows, "label": truth[rows] + 1}).to_csv(answers, index=False)
    run_cli("certify", run, "--verified", answers, "--json")
    found = json.loads(Path(run, "certificate.json").read_text())
    low, high = found["certificate"]["wrong_before"]
    assert low < np.mean(given != truth) < high

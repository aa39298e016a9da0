"""Questions: the order of adacorr.ask, double answers, and what the answers would do."""

import csv
import io
import json
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

import adacorr
from adacorr.cli.export import _reviewed
from adacorr.core.asking import is_disputed
from adacorr.core.certify import Tally, certify
from adacorr.core.validation import InputError
from adacorr.report.certificate import fingerprint
from adacorr.review import answers_of
from adacorr.review.answers import Said, as_answers, brought, brought_by
from adacorr.review.app import Desk, create_app
from adacorr.review.export import applied_labels, export
from adacorr.review.guard import Guard
from adacorr.review.questions import AGAIN, Analyst, Outlook, Questions, outlook_of, plan
from adacorr.review.server import DATABASE
from adacorr.runs.imports import FILE
from adacorr.runs.reader import RunData

BASE = "http://127.0.0.1:8350"
ANN, BOB = ("Ann", "a"), ("Bob", "b")


@pytest.fixture
def opened(make_run):
    def start(**options):
        run = make_run(**options)
        desk = Desk.open(RunData.open(run), run.file(DATABASE))
        guard = Guard("127.0.0.1", 8350)
        client = TestClient(create_app(desk, guard), base_url=BASE, headers={"Origin": BASE})
        client.api = f"/api/{guard.run}"
        client.get(f"/?token={guard.token}")
        return desk, client

    return start


def answer(client, row, label, reviewer="Ann", **more):
    body = {"reviewer": reviewer, "row": row, "label": label, **more}
    return client.post(f"{client.api}/answer", json=body)


def test_rows_come_in_the_order_of_ask(make_run):
    data = RunData.open(make_run(n=70_000))
    given = np.concatenate([batch.given for batch in data.batches()])
    ours = plan(given, data.pred_probs, 300)
    theirs = adacorr.ask(given, np.asarray(data.pred_probs), n=300)
    np.testing.assert_array_equal(ours, theirs)


def test_people_get_different_rows_and_every_tenth_again():
    questions = Questions(np.arange(200))
    said: list[Said] = []
    repeated = {"Ann": 0, "Bob": 0}
    for _ in range(40):
        for name, author in (ANN, BOB):
            row = questions.next(said, f"tab {name}", (name, author), 3)[0]
            repeated[name] += any(one.row == row for one in said)
            said.append(Said(row, 0, name, author))
    assert repeated == {"Ann": 40 // AGAIN, "Bob": 40 // AGAIN}
    once = {row for row in range(200) if sum(one.row == row for one in said) == 1}
    assert len(once) == 80 - 2 * 8  # nobody was given another's row but for the repeated ones
    fresh = list(dict.fromkeys(one.row for one in said))
    assert sorted(fresh) == list(range(len(fresh)))  # no gap: the limits count them all


def test_one_person_alone_meets_an_early_row_again():
    questions, said = Questions(np.arange(200)), []
    for _ in range(45):
        row = questions.next(said, "tab", ANN, 8)[0]
        said.append(Said(row, 0, *ANN))
    rows = [one.row for one in said]
    again = [row for i, row in enumerate(rows) if row in rows[:i]]
    assert len(again) == 3  # not at the tenth: it would be too fresh
    assert len(set(again)) == 3
    assert all(rows.index(row) + 10 <= rows.index(row, rows.index(row) + 1) for row in again)


def test_a_question_tells_nothing_of_the_labels(opened):
    _, client = opened()
    for item in client.get(f"{client.api}/questions?client=a&reviewer=Ann").json():
        assert set(item) == {"row", "sample"}
        assert client.get(f"{client.api}/hint/{item['row']}").json()["bars"]


def test_answers_change_the_outlook_and_are_applied(opened):
    desk, client = opened(n=400)
    truth = pq.read_table(desk.data.run.file("labels.parquet"))["truth"].to_numpy()
    for _ in range(30):
        (item, *_) = client.get(f"{client.api}/questions?client=a&reviewer=Ann").json()
        status = answer(client, item["row"], int(truth[item["row"]])).json()
    (item, *_) = client.get(f"{client.api}/questions?client=a&reviewer=Ann").json()
    answer(client, item["row"], None, note="blurred")
    assert desk.interview.analyst.wait(120) is not None
    status = client.get(f"{client.api}/outlook").json()
    assert status["up_to_date"]
    assert status["cannot_tell"] == 1
    verified = desk.interview.verified()
    given, expected = (
        desk.interview.rows.given,
        outlook_of(desk.interview.inputs, as_answers(verified)),
    )
    labels, certificate = expected.labels, expected.certificate
    assert status["outlook"]["sentence"].lower() == f"{certificate.sentence}.".lower()
    low, high = status["outlook"]["wrong_before"]
    assert low <= (given != truth).mean() <= high
    assert status["outlook"]["wrong_after"] >= (labels != truth).mean()

    done = client.post(f"{client.api}/apply", json={"reviewer": "Ann"}).json()
    assert done["status"]["applied"]
    table = pq.read_table(desk.data.run.file("final-labels.parquet")).to_pydict()
    names = desk.data.run.class_names()
    assert [names.index(name) for name in table["adacorr_label"]] == labels.tolist()
    assert applied_labels(desk.data).tolist() == labels.tolist()
    assert (
        table["adacorr_decided_by"].count("answers") == 28
    )  # three of 31 were asked again, one unsure
    told = json.loads(desk.data.run.file("certificate.json").read_text())
    assert told["certificate"]["counted"] == certificate.counted
    assert told["data"]["fingerprint"] == fingerprint(desk.data)
    assert told["rule"] == expected.note
    assert told["answers_by"]["Ann"].startswith("31, ")
    assert "Certificate of labels" in client.get(f"{client.api}/certificate").text
    assert client.get(f"{client.api}/labels").content[:4] == b"PAR1"


def test_applied_labels_are_in_every_export_of_the_run(opened, tmp_path):
    """Whole data set: the applied rule, over it the answers, over them the decisions."""
    desk, client = opened(n=400)
    truth = pq.read_table(desk.data.run.file("labels.parquet"))["truth"].to_numpy()
    for _ in range(30):
        (item, *_) = client.get(f"{client.api}/questions?client=a&reviewer=Ann").json()
        answer(client, item["row"], int(truth[item["row"]]))
    client.post(f"{client.api}/apply", json={"reviewer": "Ann"})
    applied = applied_labels(desk.data)
    assert (applied != desk.interview.rows.given).sum() > 30
    later = int(np.flatnonzero(applied != desk.interview.rows.given)[-1])
    flip = desk.flips.find(later)
    assert flip is not None
    rejected = {"flip": flip, "choice": "reject"}
    client.post(f"{client.api}/decide", json={"reviewer": "Bob", "decisions": [rejected]})
    expected = applied.copy()
    expected[later] = desk.interview.rows.given[later]

    export(desk.data, desk.store, tmp_path / "labels.parquet")
    whole, names = pq.read_table(tmp_path / "labels.parquet"), desk.data.run.class_names()
    assert [names.index(name) for name in whole["adacorr_label"].to_pylist()] == expected.tolist()
    words = whole["adacorr_decision"].to_pylist()
    assert whole["adacorr_decided_by"][later].as_py() == "Bob"
    assert words[later] == "rejected"
    assert words.count("rule") + words.count("answered") > 30
    desk.store.close()
    final = _reviewed(RunData.open(desk.data.run))
    assert final is not None
    assert final.labels.tolist() == expected.tolist()


def test_applied_labels_of_another_run_are_refused(opened):
    desk, _ = opened(n=400)
    path = desk.data.run.file("final-labels.parquet")
    names = desk.data.run.class_names()
    columns = {"adacorr_row": range(400), "adacorr_given": names[:1] * 400}
    other = pa.table({**columns, "adacorr_label": names[1:2] * 400})
    pq.write_table(other, path)
    with pytest.raises(InputError, match="expected labels of this run, got others"):
        applied_labels(desk.data)
    pq.write_table(other.slice(0, 5), path)
    with pytest.raises(InputError, match="400 rows, got 5"):
        applied_labels(desk.data)


def test_the_rule_of_the_run_is_the_rule_of_the_page(make_run):
    """A run with a threshold of its own is certified with it."""
    run = make_run(n=400)
    with run.file("config.toml").open("a") as config:
        config.write("\n[correct]\ndelta = 0.4\n")
    desk = Desk.open(RunData.open(run), run.file(DATABASE))
    given, f = desk.interview.rows.given, np.asarray(desk.data.pred_probs)
    row = int(np.flatnonzero(f.argmax(axis=1) != given)[0])
    found = desk.interview.outlook(as_answers({row: int(given[row])}))
    expected = adacorr.correct(given, f, 0.4, verified={row: int(given[row])}, classes=range(4))
    assert found.labels.tolist() == expected.labels.tolist()
    assert found.certificate == expected.certificate


def test_answers_of_a_run_serve_another_on_the_same_data(opened):
    desk, client = opened(n=100)
    answer(client, 7, 2)
    answer(client, 9, None)
    said = answers_of(desk.data.run)
    assert (said.keys, said.labels) == ((7, 9), ("class 2", "cannot tell"))


def test_a_decision_counts_as_an_answer(opened):
    desk, client = opened()
    said = {"flip": 0, "choice": "accept"}
    client.post(f"{client.api}/decide", json={"reviewer": "Ann", "decisions": [said]})
    row = int(desk.flips.row[0])
    assert desk.interview.verified() == {row: int(desk.flips.proposed[0])}
    answer(client, row, int(desk.flips.given[0]))
    assert desk.interview.verified() == {row: int(desk.flips.proposed[0])}  # made with all in view


def test_answers_are_in_the_export(opened):
    desk, client = opened()
    row = next(r for r in range(desk.data.n) if desk.flips.find(r) is None)
    other = (int(desk.interview.rows.given[row]) + 1) % 4
    answer(client, row, other, note="blurred")
    text = client.get(f"{client.api}/export?format=csv").text
    found = list(csv.DictReader(io.StringIO(text)))[row]
    assert found["adacorr_label"] == desk.names[other]
    assert found["adacorr_decision"] == "answered"
    assert found["adacorr_decided_by"] == "Ann"
    assert found["adacorr_note"] == "Ann: blurred"


def test_a_note_on_a_decision_is_kept_and_exported(opened):
    desk, client = opened()
    said = {"flip": 3, "choice": "reject", "note": "a wolf"}
    client.post(f"{client.api}/decide", json={"reviewer": "Bob", "decisions": [said]})
    text = client.get(f"{client.api}/export?format=csv").text
    found = list(csv.DictReader(io.StringIO(text)))[int(desk.flips.row[3])]
    assert found["adacorr_note"] == "Bob: a wolf"
    client.post(f"{client.api}/undo", json={"reviewer": "Bob"})
    assert "a wolf" not in client.get(f"{client.api}/export?format=csv").text


def test_imported_answers_are_on_the_page_and_in_the_certificate(make_run):
    """As those of one more person: counted, compared, not asked again, taken back by nobody."""
    run = make_run(n=400)
    data = RunData.open(run)
    first = plan(np.concatenate([b.given for b in data.batches()]), data.pred_probs)[:30]
    truth = pq.read_table(run.file("labels.parquet"))["truth"].to_numpy()
    names = run.class_names()
    lines = [f"{row},{names[truth[row]]}" for row in first[:29].tolist()]
    run.file(FILE).write_text("\n".join(["row,label", *lines, f"{first[29]},cannot tell\n"]))
    desk = Desk.open(RunData.open(run), run.file(DATABASE))
    panel = desk.interview
    (item, *_) = panel.ask("a", ("Ann", "x"), 1)
    assert item["row"] not in first
    panel.answer(Said(int(first[0]), int(truth[first[0]]), "Ann", "x"))
    panel.answer(Said(int(first[1]), int(truth[first[1]] + 1) % 4, "Ann", "x"))
    panel.analyst.wait(120)
    status = panel.status()
    assert status["answers"] == 30
    assert status["cannot_tell"] == 2  # one said so, and of one people disagree
    assert "2 rows were answered by several people, 1 alike" in status["agreement"][0]
    assert panel.undo("answers", "import") is None
    panel.apply()
    told = json.loads(run.file("certificate.json").read_text())
    assert told["certificate"]["answers"] == 30
    assert told["answers_by"]["people outside of the page"].startswith("30, imported 2")
    assert told["answers_by"]["Ann"].startswith("2, ")


def test_answers_that_a_run_was_corrected_with_are_counted_on_its_page(make_run):
    run = make_run(n=400)
    columns = pq.read_table(run.file("labels.parquet"))
    by = ["answers" if row < 5 else "given" for row in range(400)]
    pq.write_table(columns.append_column("decided_by", pa.array(by)), run.file("labels.parquet"))
    data = RunData.open(run)
    found = [(one.row, one.label) for one in brought(data)]
    assert found == list(enumerate(columns["corrected"].to_pylist()[:5]))
    assert brought_by(data, brought(data)) == {"people outside of the page": "5, with the run"}


def test_odd_answers_are_refused(opened):
    desk, client = opened()
    assert answer(client, 10**6, 0).status_code == 404
    assert answer(client, 0, 4).status_code == 422
    assert answer(client, 0, -1).status_code == 400
    assert answer(client, 0, 0, note="x" * 501).status_code == 400
    assert answer(client, 0, 0, reviewer="").status_code == 400
    assert client.get(f"{client.api}/labels").status_code == 503  # nothing was applied yet
    assert desk.interview.log.standing() == ()


def test_a_run_without_probabilities_has_no_questions(opened):
    _, client = opened(probs=False)
    told = client.get("/api/run").json()
    assert told["questions"] is False
    assert "pred_probs" in told["no_questions"]
    assert client.get(f"{client.api}/questions?client=a").status_code == 404


def test_a_rule_that_fails_is_said_and_tried_again():
    calls = []
    given, f = np.zeros(20, dtype=np.int64), np.full((20, 2), 0.5)

    def rule(answers):
        calls.append(len(answers))
        if len(calls) == 1:
            raise InputError("labels: expected more, got few")
        tally = Tally.of(given, given, is_disputed(given, f), answers)
        return Outlook(given, certify(tally), answers)

    analyst = Analyst(rule, lambda: {0: 0})
    analyst.tell()
    assert analyst.wait(60) is None
    assert "expected more" in str(analyst.problem)
    analyst.tell()
    deadline = time.monotonic() + 60
    while not analyst.up_to_date and time.monotonic() < deadline:
        time.sleep(0.01)
    assert analyst.up_to_date
    assert analyst.problem is None


def test_a_hundred_thousand_rows_and_a_slow_fit_hold_up_no_answer(make_run):
    """Every answer is there while the rule is being fitted: the fit is released after them."""
    run = make_run(n=100_000, k=10)
    desk = Desk.open(RunData.open(run), run.file(DATABASE))
    started, released = threading.Event(), threading.Event()

    def slow(answers):
        started.set()
        released.wait()
        raise ValueError("stopped")

    desk.interview.analyst = Analyst(slow, desk.interview.verified)
    guard = Guard("127.0.0.1", 8350)
    client = TestClient(create_app(desk, guard), base_url=BASE, headers={"Origin": BASE})
    client.api = f"/api/{guard.run}"
    client.get(f"/?token={guard.token}")
    for _ in range(30):
        (item, *_) = client.get(f"{client.api}/questions?client=a&reviewer=Ann").json()
        assert answer(client, item["row"], 0).status_code == 200
    assert started.wait(60)
    assert not released.is_set()
    released.set()


def test_the_doubtful_rest_is_what_the_answered_rule_is_least_sure_of(opened):
    desk, client = opened(n=400)
    truth = pq.read_table(desk.data.run.file("labels.parquet"))["truth"].to_numpy()
    before = client.get(f"{client.api}/queue?client=a&order=rest&limit=100").json()
    assert len(before) == 100  # nobody has answered: changes and suspects, the least certain first
    said = set()
    for _ in range(30):
        (item, *_) = client.get(f"{client.api}/questions?client=a&reviewer=Ann").json()
        answer(client, item["row"], int(truth[item["row"]]))
        said.add(item["row"])
    found = desk.interview.analyst.wait(120)
    assert found is not None
    rest = client.get(f"{client.api}/queue?client=a&order=rest&limit=30").json()
    rows = [item["row"] for item in rest]
    assert not said & set(rows)
    sure = np.nan_to_num(found.sure)
    assert (np.diff(sure[rows]) >= 0).all()
    others = [int(r) for r in desk.flips.row if int(r) not in said and int(r) not in set(rows)]
    assert sure[rows].max() <= sure[others].min()


def test_many_answers_do_not_slow_the_next_question_down():
    """Work grows in step with the answers: counted in looks at answers, not in time."""
    looks = 0

    class Counted(Said):
        @property
        def person(self):
            nonlocal looks
            looks += 1
            return super().person

    said = [Counted(row, 0, f"p{row % 3}", "x") for row in range(3000)]
    questions = Questions(np.arange(10_000))
    assert questions.next(said, "a", ANN, 8)
    assert looks <= 3 * len(said)

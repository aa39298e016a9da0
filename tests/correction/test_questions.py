"""Questions and answers on tables: the same rows and decisions as for arrays, in any batches."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adacorr
from adacorr.core.validation import InputError
from adacorr.correction import Request, TableSettings, correct_table
from adacorr.correction.questions import ask_table, write_questions
from adacorr.correction.verified import Verified


@pytest.fixture
def table(problem, tmp_path):
    y, f, names = problem
    probs = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), 4)
    ids = [f"n{i}" for i in range(len(y))]
    whole = pa.table({"id": ids, "text": ids, "label": names[y], "pred_probs": probs})
    pq.write_table(whole, tmp_path / "in.parquet")
    (tmp_path / "parts").mkdir()
    for i in range(4):
        pq.write_table(whole.slice(i * 750, 750), tmp_path / "parts" / f"{i}.parquet")
    return tmp_path, Request(classes=names.tolist())


def answers(problem, rows):
    """What a person says who goes by the model, and cannot tell now and then."""
    _, f, names = problem
    said = {int(row): str(names[f[row].argmax()]) for row in rows}
    return said | {int(rows[3]): "cannot tell"}


@pytest.mark.parametrize("place", ["in.parquet", "parts"])
@pytest.mark.parametrize("batch_rows", [None, 97])
def test_a_table_is_asked_about_the_rows_that_arrays_are(problem, table, place, batch_rows):
    y, f, names = problem
    folder, columns = table
    found = ask_table(folder / place, 40, columns=columns, batch_rows=batch_rows)
    assert found.rows.tolist() == adacorr.ask(y, f, 40).tolist()
    assert found.fields[0] == {"id": f"n{found.rows[0]}", "text": f"n{found.rows[0]}"}
    assert found.class_names == tuple(names)
    said = answers(problem, found.rows)
    more = ask_table(folder / place, 25, columns=columns, verified=said, rng=0)
    assert more.rows.tolist() == adacorr.ask(y, f, 25, verified=said, classes=names).tolist()
    assert not set(more.rows.tolist()) & set(said)


def test_seeds_give_other_questions(table):
    folder, columns = table
    assert ask_table(folder / "parts", 20, columns=columns, rng=5).rows.tolist() != (
        ask_table(folder / "parts", 20, columns=columns).rows.tolist()
    )


def test_batches_files_and_formats_of_answers_do_not_matter(problem, table):
    folder, columns = table
    said = answers(problem, ask_table(folder / "parts", 80, columns=columns).rows)
    pa_rows = pa.table({"id": [f"n{row}" for row in said], "label": list(said.values())})
    pq.write_table(pa_rows, folder / "by_id.parquet")
    with open(folder / "by_row.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "comment", "label"])
        writer.writerows((row, "x", label) for row, label in said.items())
        writer.writerow([2999, "no answer yet", ""])
    results = [
        correct_table(
            folder / place,
            folder / f"out{i}{'' if place == 'parts' else '.parquet'}",
            columns=columns,
            settings=TableSettings(verified=verified),
            batch_rows=rows,
        )
        for i, (place, verified, rows) in enumerate(
            [
                ("in.parquet", said, None),
                ("in.parquet", folder / "by_id.parquet", 61),
                ("parts", folder / "by_row.csv", None),
            ]
        )
    ]
    assert results[0].certificate is not None
    assert results[0].certificate == results[1].certificate == results[2].certificate
    assert results[0].certificate.counted == 80
    tables = [
        pq.read_table(folder / f"out{i}{end}") for i, end in enumerate((".parquet", ".parquet", ""))
    ]
    labels = [table["adacorr_label"].to_pylist() for table in tables]
    assert labels[0] == labels[1] == labels[2]
    y, f, names = problem
    expected = adacorr.correct(names[y], f, classes=names, verified=said)
    assert labels[0] == expected.labels.tolist()
    assert results[0].certificate == expected.certificate
    assert results[0].summary["answers"] == 79
    for row, label in said.items():
        if label != "cannot tell":
            assert labels[0][row] == label


def test_a_threshold_is_kept_and_certified(problem, table):
    folder, columns = table
    said = answers(problem, ask_table(folder / "in.parquet", 60, columns=columns).rows)
    result = correct_table(
        folder / "in.parquet", columns=columns, settings=TableSettings(0.5, verified=said)
    )
    assert result.summary["rule"] == "threshold"
    assert result.certificate is not None
    assert result.certificate.family_size == 1


def test_the_file_of_questions_shows_neither_label_nor_prediction(table):
    folder, columns = table
    found = ask_table(folder / "in.parquet", 5, columns=columns)
    write_questions(found, folder / "q.csv")
    with open(folder / "q.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["row", "id", "text", "label"]
    assert [int(row["row"]) for row in rows] == found.rows.tolist()
    assert {row["label"] for row in rows} == {""}
    write_questions(found, folder / "q.json", "label-studio")
    tasks = json.loads((folder / "q.json").read_text())
    assert [task["data"]["row"] for task in tasks] == found.rows.tolist()
    assert set(tasks[0]["data"]) == {"row", "id", "text"}


def test_finished_tasks_of_label_studio_are_answers(problem, table):
    """As Label Studio exports them: one answer, two people who differ, one skipped, one open."""
    folder, columns = table
    names = problem[2]
    found = ask_table(folder / "in.parquet", 4, columns=columns)
    write_questions(found, folder / "q.json", "label-studio")
    tasks = json.loads((folder / "q.json").read_text())

    def by(label, skipped=False):
        chosen = {"type": "choices", "from_name": "label", "value": {"choices": [label]}}
        return {"completed_by": 1, "was_cancelled": skipped, "result": [chosen]}

    said = [[by(names[0])], [by(names[0]), by(names[1])], [by(names[0], skipped=True)], []]
    for number, (task, annotations) in enumerate(zip(tasks, said, strict=True)):
        task |= {"id": 70 + number, "annotations": annotations}
    path = folder / "done.json"
    path.write_text(json.dumps(tasks))
    answers = Verified.of(path)
    first, second, *_ = found.rows.tolist()
    assert dict(zip(answers.keys, answers.labels, strict=True)) == {
        first: str(names[0]),
        second: "cannot tell",
    }
    options = {"columns": columns}
    by_file = correct_table(folder / "in.parquet", settings=TableSettings(verified=path), **options)
    assert by_file.certificate is not None
    assert by_file.certificate.answers == 2
    tasks[0]["data"]["id"] = "n-other"  # the table was sorted again since
    path.write_text(json.dumps(tasks))
    with pytest.raises(InputError, match="the table has changed since"):
        correct_table(folder / "in.parquet", settings=TableSettings(verified=path), **options)
    path.write_text(json.dumps([{**tasks[0], "data": {"text": "no row"}}]))
    with pytest.raises(InputError, match="expected a row number in each record"):
        Verified.of(path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("row,label\n1,wolf\n", "expected a label among"),
        ("row,label\n3000,cat\n", "expected row numbers 0 to 2999, got 3000"),
        ("row,label\nx,cat\n", "expected row numbers, got 'x'"),
        ("row,label\n1,\n", "expected answers in column 'label', got none"),
        ("row,label\n1,cat\n1,fish\n", "expected one answer for row 1, got two that differ"),
        ("id,label\nzz,cat\n", "expected ids of the table, got 'zz'"),
        ("label\ncat\n", "expected a column row or index or id"),
        ("row\n1\n", "expected a column label or answer"),
    ],
)
def test_answers_that_cannot_be_are_named(table, content, text):
    folder, columns = table
    (folder / "answers.csv").write_text(content)
    settings = TableSettings(verified=folder / "answers.csv")
    with pytest.raises(InputError) as caught:
        correct_table(folder / "in.parquet", columns=columns, settings=settings)
    assert text in str(caught.value)


def test_other_forms_of_answers_are_refused():
    with pytest.raises(InputError, match="or a file, got ndarray"):
        Verified.of(np.zeros(3))


@pytest.mark.parametrize("row", ["99999999999999999999", "1.5", "x"])
def test_answers_for_rows_that_cannot_be_are_named(row):
    with pytest.raises(InputError, match=f"verified: expected row numbers, got '{row}'"):
        Verified((row,), ("cat",)).rows([])

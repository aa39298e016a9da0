"""Answers come back from other tools: files as these tools write them."""

import csv
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from adacorr.cli import main
from adacorr.core.validation import InputError
from adacorr.correction import TableSettings, correct_table
from adacorr.runs.directory import Run
from adacorr.runs.imports import FILE, keep_answers, read_answers
from adacorr.runs.labelstudio import labelling_config, write_tasks
from adacorr.runs.reader import RunData

LONG = "a text that is long enough to be read as prose by a person, and so it is the text"


@pytest.fixture
def table(tmp_path):
    """60 rows, of which every tenth has a wrong label; ids are texts."""
    path = tmp_path / "pets.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "label", "p_cat", "p_dog", "text", "age"))
        for i in range(60):
            truth = i % 2
            given = 1 - truth if i % 10 == 0 else truth
            p = 0.9 if truth == 0 else 0.2
            name = ("cat", "dog")[given]
            writer.writerow((f"pet-{i}", name, p, round(1 - p, 2), f"{LONG} {i}", i))
    return path


@pytest.fixture
def data(table, tmp_path):
    correct_table(table, settings=TableSettings(0.9), run_dir=tmp_path / "run")
    return RunData.open(Run.open(tmp_path / "run"))


def finished(tasks, label):
    """Tasks as Label Studio exports them after a person has answered (fields of version 1.11)."""
    return [
        {
            "id": 87 + i,
            "annotations": [
                {
                    "id": 22 + i,
                    "completed_by": 1,
                    "result": [
                        {
                            "value": {"choices": [label(task["data"])]},
                            "id": "qd1jIVAq1h",
                            "from_name": "label",
                            "to_name": "sample",
                            "type": "choices",
                            "origin": "manual",
                        }
                    ],
                    "was_cancelled": False,
                    "ground_truth": False,
                    "created_at": "2024-01-30T02:40:43.893565Z",
                    "updated_at": "2024-01-30T02:40:43.893578Z",
                    "lead_time": 8.65,
                    "prediction": {},
                    "result_count": 0,
                    "task": 87 + i,
                    "project": 29,
                    "parent_prediction": None,
                }
            ],
            "file_upload": "tasks.json",
            "drafts": [],
            "predictions": [3],
            "data": task["data"],
            "meta": {},
            "total_annotations": 1,
            "cancelled_annotations": 0,
            "project": 29,
        }
        for i, task in enumerate(tasks)
    ]


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def truth(row):
    return ("cat", "dog")[row % 2]


def test_round_trip_through_label_studio(data, table, tmp_path):
    count, config = write_tasks(data, tmp_path / "tasks.json", most=12)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert count == len(tasks) == 12
    assert {t["data"]["adacorr_row"] for t in tasks[:6]} == set(range(0, 60, 10))  # the wrong ones
    first = tasks[0]
    assert first["data"]["text"] == f"{LONG} {first['data']['adacorr_row']}"
    (result,) = first["predictions"][0]["result"]
    assert result["value"] == {"choices": [truth(first["data"]["adacorr_row"])]}
    assert f'name="{result["from_name"]}" toName="{result["to_name"]}"' in config
    assert '<Choice value="cannot tell"/>' in config

    answers = write(tmp_path / "done.json", finished(tasks, lambda d: truth(d["adacorr_row"])))
    found = read_answers(data, answers)
    assert found.labels == {row: truth(row) for row in (t["data"]["adacorr_row"] for t in tasks)}
    path, total = keep_answers(data, found)
    assert total == 12
    again = correct_table(table, tmp_path / "out.csv", settings=TableSettings(verified=path))
    assert again.stats.rows == 60


def test_skipped_and_cancelled_tasks_are_no_answers(data, tmp_path):
    write_tasks(data, tmp_path / "tasks.json", most=3)
    done = finished(json.loads((tmp_path / "tasks.json").read_text()), lambda d: "cat")
    done[0]["annotations"][0]["was_cancelled"] = True
    done[1]["annotations"] = []
    found = read_answers(data, write(tmp_path / "done.json", done))
    assert list(found.labels.values()) == ["cat"]
    assert found.unanswered == 2


FILES = {  # name -> what the tool writes for rows 3 (dog), 4 (cannot tell) and 10 (cat)
    "label studio JSON-MIN.json": [
        {"adacorr_row": 3, "text": "x", "id": 1, "label": "dog", "annotator": 1, "lead_time": 2.5},
        {"adacorr_row": 4, "text": "y", "id": 2, "label": "cannot tell", "annotator": 1},
        {"adacorr_row": 10, "text": "z", "id": 3, "label": "cat", "annotator": 1},
    ],
    "label studio.csv": "adacorr_row,annotation_id,annotator,id,label,lead_time,text\n"
    "3,7,1,91,dog,3.2,x\n4,8,1,92,cannot tell,1.2,y\n10,9,1,93,cat,2.2,z\n",
    "doccano.jsonl": '{"id":51,"text":"x","adacorr_row":3,"label":["dog"],"Comments":[]}\n'
    '{"id":52,"text":"y","adacorr_row":4,"label":["cannot tell"],"Comments":[]}\n'
    '{"id":53,"text":"z","adacorr_row":10,"label":["cat"],"Comments":[]}\n'
    '{"id":54,"text":"z","adacorr_row":11,"label":[],"Comments":[]}\n',
    "doccano.csv": "id,text,adacorr_row,label,Comments\n51,x,3,dog,\n52,y,4,cannot tell,\n"
    "53,z,10,cat,\n",
    "argilla.json": [
        {
            "id": f"r{row}",
            "fields": {"text": "x"},
            "metadata": {"adacorr_row": row},
            "suggestions": {"label": {"value": "cat", "score": 0.9, "agent": "adacorr"}},
            "responses": {"label": [{"value": said, "user_id": "6c4e"}]},
            "vectors": {},
            "status": "completed",
            "_server_id": "b3f1",
        }
        for row, said in ((3, "dog"), (4, "cannot tell"), (10, "cat"))
    ],
    "argilla flat.csv": "id,text,adacorr_row,label.responses,label.responses.status\n"
    "r3,x,3,['dog'],['submitted']\n"
    "r4,y,4,\"['dog', 'cat']\",\"['submitted', 'submitted']\"\n"
    "r10,z,10,\"['dog', 'cat']\",\"['discarded', 'submitted']\"\n",
    "by id.csv": "id,label\npet-3,dog\npet-4,cannot tell\npet-10,cat\n",
}


@pytest.mark.parametrize("name", FILES)
def test_each_tool_gives_the_same_answers(data, tmp_path, name):
    found = read_answers(data, write(tmp_path / name, FILES[name]))
    assert found.labels == {3: "dog", 4: "cannot tell", 10: "cat"}


def test_later_answers_replace_earlier_ones(data, tmp_path):
    for label in ("cat", "dog"):
        file = write(tmp_path / "a.csv", f"row,label\n3,{label}\n")
        keep_answers(data, read_answers(data, file))
    keep_answers(data, read_answers(data, write(tmp_path / "b.csv", "row,label\n7,cat\n")))
    assert data.run.file(FILE).read_text().split() == ["row,label", "3,dog", "7,cat"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "row,label\n3,horse\n", "expected a label among"),
        ("a.csv", "row,label\n99,cat\n", "expected rows of this run, got row 99 in record 0"),
        ("a.csv", "id,label\n3,cat\n", "expected adacorr_row in each record"),
        ("a.csv", "row,label\n3,\n", "expected answered tasks, got none"),
        ("a.json", "{", "expected records as JSON"),
        ("a.json", "[1]", "int in place of a record"),
        ("a.json", '[{"row":3,"label":"cat"}] x', "more after the end"),
        ("a.json", '[{"row":3,"label":"cat"} 5]', "no comma"),
        ("a.json", '[{"row":3,"label":"cat"},', "expected records as JSON"),
        ("a.json", "[" * 100_000, "recursion depth"),
        ("a.json", '[{"row":"' + "9" * 5000 + '","label":"cat"}]', "expected rows of this run"),
        ("a.json", '[{"annotations":[{"result":5}],"data":{"row":3}}]', "expected answered tasks"),
        ("a.json", '[{"x":"' + "y" * (9 << 20) + '"}]', "a record of more than 4,194,304 char"),
        ("a.jsonl", '{"x":"' + "y" * (5 << 20) + '"}', "a record of more than 4,194,304 char"),
        ("a.csv", "label\ncat,1,2,3\n", "expected adacorr_row in each record"),
        ("a.csv", "row,label\n3," + "[" * 60_000 + "\n", "expected a label among"),
    ],
)
def test_other_files_are_refused_in_one_line(data, tmp_path, name, content, said):
    with pytest.raises(InputError, match=said):
        read_answers(data, write(tmp_path / name, content))


def test_a_device_is_no_file(data):
    with pytest.raises(InputError, match="no file"):
        read_answers(data, Path("/dev/zero"))


def test_records_do_not_pile_up_in_memory(data, tmp_path):
    """12 MB of empty lists took 320 MB, and as a text in brackets several GB."""
    text = '[{"row":3,"label":"cat"},' + "{}," * 2_000_000 + "{}]"
    tasks = write(tmp_path / "a.json", text)
    long = '[{"row":3,"label":"[' + "()," * 1_000_000 + '"}]'
    brackets = write(tmp_path / "b.json", long)
    tracemalloc.start()
    assert read_answers(data, tasks).labels == {3: "cat"}
    with pytest.raises(InputError, match="expected a label among"):
        read_answers(data, brackets)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 << 20


def test_names_are_escaped_in_the_interface():
    assert 'value="a&lt;b"' in labelling_config(["a<b"], image=True)


def run_command(argv, capsys):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert not end.value.code, capsys.readouterr().err
    return capsys.readouterr().out


def test_commands(data, tmp_path, capsys):
    folder, tasks = str(data.run.path), tmp_path / "tasks.json"
    out = run_command(
        ["export", folder, "--to", "label-studio", "--output", str(tasks), "--most", "5"], capsys
    )
    assert "5 tasks in" in out
    assert "<Choices" in out
    done = write(tmp_path / "d.json", finished(json.loads(tasks.read_text()), lambda d: "cat"))
    out = run_command(["import", folder, str(done)], capsys)
    assert "5 answers" in out
    command = out.splitlines()[-1].partition("adacorr ")[2].split()
    assert "labels are wrong after" in run_command(command, capsys)  # as it was printed


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_one_table_with_all_columns(data, tmp_path, capsys, suffix):
    path = tmp_path / f"final.{suffix}"
    run_command(["export", str(data.run.path), "--output", str(path)], capsys)
    if suffix == "csv":
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        rows = pq.read_table(path).to_pylist()
    assert len(rows) == 60
    assert list(rows[0])[:6] == ["id", "label", "p_cat", "p_dog", "text", "age"]
    for i, row in enumerate(rows):
        assert row["id"] == f"pet-{i}"
        assert row["adacorr_given"] == row["label"]
        assert row["adacorr_label"] == truth(i)
        assert row["adacorr_decided_by"] == ("rule" if i % 10 == 0 else "given")
    doubt = np.array([float(row["adacorr_suspicion"]) for row in rows])
    assert set(np.argsort(-doubt, kind="stable")[:6]) == set(range(0, 60, 10))


def test_a_changed_source_gives_no_columns_and_says_so(data, table, tmp_path, capsys):
    with open(table, "a") as file:
        file.write("pet-60,cat,0.5,0.5,new,1\n")
    path = tmp_path / "final.csv"
    out = run_command(["export", str(data.run.path), "--output", str(path)], capsys)
    assert "has changed since the run" in out
    assert path.read_text().startswith('"adacorr_row"')


def test_imported_answers_are_in_the_final_table(data, tmp_path, capsys):
    answers = write(tmp_path / "a.csv", "row,label\n0,cat\n10,dog\n3,cannot tell\n")
    run_command(["import", str(data.run.path), str(answers)], capsys)
    path = tmp_path / "final.parquet"
    run_command(["export", str(data.run.path), "--output", str(path)], capsys)
    rows = pq.read_table(path, columns=["adacorr_label", "adacorr_decided_by"]).to_pylist()
    said = [tuple(rows[i].values()) for i in (0, 10, 3, 20, 4)]
    assert said[:3] == [("cat", "answers"), ("dog", "answers"), ("dog", "given")]
    assert said[3:] == [("cat", "rule"), ("cat", "given")]


def test_names_in_a_message_do_not_reach_the_terminal_as_codes(data, tmp_path, capsys):
    file = write(tmp_path / "a.json", [{"\x1b]0;owned\x07": 1, "label": "cat"}])
    with pytest.raises(SystemExit):
        main(["import", str(data.run.path), str(file)])
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert r"\x1b]0;owned\x07" in said

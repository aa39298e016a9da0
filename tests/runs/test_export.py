import csv

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from adacorr.cli import main
from adacorr.correction import TableSettings, correct_table
from adacorr.runs.directory import Run, write_labels, write_toml
from adacorr.runs.export import write_cleanlab, write_label_studio, write_tensorboard


@pytest.fixture
def run(tmp_path):
    """A run over three images in two classes; the middle one was changed."""
    images = tmp_path / "images"
    for name in ("cat/1.png", "cat/2.png", "dog, big/3.png"):
        (images / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4)).save(images / name)
    folder = tmp_path / "run"
    folder.mkdir()
    data = {"source": str(images), "class_names": ["cat", "dog, big"]}
    write_toml(folder / "config.toml", {"run": {"seed": 0}, "data": data})
    write_labels(
        folder / "labels.parquet",
        {
            "index": np.arange(3),
            "given": np.array([0, 0, 1]),
            "corrected": np.array([0, 1, 1]),
            "ratio": np.array([1.0, 0.25, 1.0]),
            "flipped": np.array([False, True, False]),
            "suggested": np.array([0, 1, 1]),
            "confidence": np.array([0.9, 0.8, np.nan]),
        },
    )
    (folder / "metrics.jsonl").write_text(
        '{"epoch": 1, "loss": 0.5, "note": "text"}\n{"epoch": 2, "loss": 0.25}\n{"epo'
    )
    return Run.open(folder)


def read(path):
    with open(path, newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def test_label_studio_tasks(run, tmp_path):
    assert write_label_studio(run, tmp_path / "all.csv") == 3
    rows = read(tmp_path / "all.csv")
    assert [row["sample"] for row in rows] == ["cat/1.png", "cat/2.png", "dog, big/3.png"]
    assert rows[1] == {
        "index": "1",
        "sample": "cat/2.png",
        "given": "cat",
        "suggested": "dog, big",
        "label": "dog, big",
        "changed": "True",
        "ratio": "0.25",
        "confidence": "0.8",
    }
    assert rows[2]["confidence"] == ""
    assert write_label_studio(run, tmp_path / "changed.csv", changed_only=True) == 1
    assert [row["index"] for row in read(tmp_path / "changed.csv")] == ["1"]


@pytest.mark.parametrize(
    ("changed_only", "texts"), [(False, ["purrs", "barks"]), (True, ["barks"])]
)
def test_a_table_run_shows_the_other_columns(tmp_path, changed_only, texts):
    source, folder, tasks = (tmp_path / name for name in ("pets.csv", "run", "tasks.csv"))
    source.write_text("label,p_cat,p_dog,text\ncat,0.9,0.1,purrs\ncat,0.1,0.9,barks\n")
    correct_table(source, settings=TableSettings(0.9), run_dir=folder)
    write_label_studio(Run.open(folder), tasks, changed_only=changed_only)
    assert [row["text"] for row in read(tasks)] == texts
    assert read(tasks)[-1]["suggested"] == "dog"


def test_a_withheld_change_is_a_task_and_an_issue(run, tmp_path):
    table = run.labels()
    columns = {name: table[name].to_numpy() for name in table.column_names}
    columns |= {"corrected": columns["given"], "flipped": np.zeros(3, bool)}
    write_labels(run.file("labels.parquet"), columns | {"review": np.array([False, True, False])})
    assert write_label_studio(run, tmp_path / "asked.csv", changed_only=True) == 1
    (row,) = read(tmp_path / "asked.csv")
    assert (row["label"], row["suggested"], row["changed"]) == ("cat", "dog, big", "False")
    write_cleanlab(run, tmp_path / "issues.csv")
    issues = [row["is_label_issue"] for row in read(tmp_path / "issues.csv")]
    assert issues == ["False", "True", "False"]


def test_without_the_source_the_sample_is_its_number(run, tmp_path):
    config = run.config()
    config["data"]["source"] = str(tmp_path / "gone")
    write_toml(run.file("config.toml"), config)
    write_label_studio(run, tmp_path / "all.csv")
    assert [row["sample"] for row in read(tmp_path / "all.csv")] == ["0", "1", "2"]


def test_cleanlab_issues(run, tmp_path):
    assert write_cleanlab(run, tmp_path / "issues.csv") == 3
    assert read(tmp_path / "issues.csv")[1] == {
        "index": "1",
        "is_label_issue": "True",
        "label_quality": "0.25",
        "given_label": "cat",
        "predicted_label": "dog, big",
    }


def test_tensorboard_reads_the_curves(run, tmp_path):
    assert write_tensorboard(run, tmp_path / "logs") == 2
    events = EventAccumulator(str(tmp_path / "logs")).Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]


def test_a_run_without_epochs_has_no_curves(run, tmp_path):
    run.file("metrics.jsonl").unlink()
    with pytest.raises(ValueError, match=r"metrics\.jsonl: expected a line per epoch, got none"):
        write_tensorboard(run, tmp_path / "logs")


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["--to", "label-studio", "--output", "t.csv", "--changed-only"], 0, "1 rows in t.csv"),
        (["--to", "cleanlab", "--output", "t.csv", "--json"], 0, '"rows": 3'),
        (["--to", "tensorboard", "--output", "logs"], 0, "2 numbers in logs"),
        (
            ["--to", "cleanlab", "--output", "no/t.csv"],
            2,
            "no/t.csv: expected an existing output folder, got no no\n",
        ),
        (["--to", "cleanlab", "--output", "t.csv", "--changed-only"], 2, "--changed-only"),
    ],
)
def test_command(run, tmp_path, monkeypatch, capsys, argv, code, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        main(["export", str(run.path), *argv])
    captured = capsys.readouterr()
    assert (exit_.value.code or 0) == code
    assert text in captured.out + captured.err
    assert "Traceback" not in captured.err


def test_nothing_is_fetched_because_a_run_says_so(tmp_path, capsys):
    """A table behind a URL is read when the user names it, not when a run from elsewhere does."""
    fsspec = pytest.importorskip("fsspec")
    f = np.array([[0.9, 0.1], [0.2, 0.8]] * 20)
    np.save(tmp_path / "p.npy", f)
    np.save(tmp_path / "y.npy", np.arange(40) % 2)
    correct_table((tmp_path / "y.npy", tmp_path / "p.npy"), run_dir=tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    config = tmp_path / "run" / "config.toml"
    place = "memory://elsewhere/a.csv"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("source")]
    config.write_text("\n".join(lines).replace("[data]", f'[data]\nsource = "{place}"'))
    secret = "\n".join(["secret", *map(str, range(40))]).encode()
    fsspec.filesystem("memory").pipe("/elsewhere/a.csv", secret)
    with pytest.raises(SystemExit, match="0"):
        main(["export", str(tmp_path / "run"), "--output", str(tmp_path / "o.csv")])
    assert f"the columns of {place} are left out" in capsys.readouterr().out
    assert "secret" not in read(tmp_path / "o.csv")[0]

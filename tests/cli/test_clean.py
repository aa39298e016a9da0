"""``adacorr clean``: the summary, the run, going on, and one-line errors."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import adacorr


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "table.csv")


def write_table(path):
    """200 rows, 10% of the labels wrong."""
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 2
    given = truth.copy()
    given[rng.choice(200, 20, replace=False)] ^= 1
    columns = {
        "label": np.array(["no", "yes"])[given],
        "truth": np.array(["no", "yes"])[truth],
        "size": rng.normal(size=200) + 3 * truth,
        "weight": rng.normal(size=200),
    }
    pyarrow.csv.write_csv(pa.table(columns), path)
    return path


def test_summary_and_run(table, tmp_path, run_cli):
    code, said, _ = run_cli("clean", str(table), "--run-dir", str(tmp_path / "run"))
    assert code == 0
    assert "200 samples of 2 classes (values), judged by linear, neighbours, boosting" in said
    assert said.count("\n  row ") == 5
    assert said.endswith(f"next               adacorr review {tmp_path / 'run'}\n")
    for name in ("labels.parquet", "pred_probs.npy", "features.npy", "report.html"):
        assert (tmp_path / "run" / name).is_file()


def test_json_and_resume_agree(table, tmp_path, run_cli):
    run = str(tmp_path / "run")
    first = json.loads(run_cli("clean", str(table), "--run-dir", run, "--json", "--seed", "3")[1])
    second = json.loads(run_cli("clean", "--resume", run, "--json")[1])
    assert first.pop("seconds") >= 0
    second.pop("seconds")
    assert first == second
    assert first["label_accuracy_before"] == 0.9
    wrong = [row["given"] != row["predicted"] for row in first["most_suspicious"]]
    assert all(wrong)


def test_answers_of_people_go_straight_to_the_rule(table, tmp_path, run_cli):
    """Nothing is predicted again; what a person said is the label, and is counted as evidence."""
    run = tmp_path / "run"
    run_cli("clean", str(table), "--run-dir", str(run), "--quiet")
    before = (run / "cache" / "linear-0.npy").stat().st_mtime_ns
    truth = np.array(["no", "yes"])[np.arange(200) % 2]
    rows = np.arange(40)
    answers = tmp_path / "answers.csv"
    pyarrow.csv.write_csv(pa.table({"index": rows, "label": truth[rows]}), answers)
    code, said, error = run_cli("clean", "--resume", str(run), "--verified", str(answers), "--json")
    assert code == 0, error
    assert json.loads(said)["label_accuracy_after"] >= 0.9
    assert (run / "cache" / "linear-0.npy").stat().st_mtime_ns == before
    labels = pq.read_table(run / "labels.parquet")
    kept = np.array(["no", "yes"])[labels["corrected"].to_numpy()]
    assert kept[rows].tolist() == truth[rows].tolist()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"index": [1]}, "expected a column label or answer or verified"),
        ({"index": [999], "label": ["no"]}, "verified: expected a row of the data, got '999'"),
        ({"index": [1], "label": ["maybe"]}, "verified: expected a label among no, yes"),
    ],
)
def test_bad_answers_are_one_line(table, tmp_path, run_cli, columns, message):
    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "answers.csv")
    flags = ["--verified", str(tmp_path / "answers.csv"), "--run-dir", str(tmp_path / "run")]
    code, _, error = run_cli("clean", str(table), *flags, "--quiet")
    assert (code, error.count("\n")) == (2, 1)
    assert message in error


def test_predict_takes_its_runs(table, tmp_path, run_cli):
    run = str(tmp_path / "run")
    run_cli("clean", str(table), "--run-dir", run, "--quiet")
    out = tmp_path / "predicted.csv"
    code, said, _ = run_cli("predict", run, str(table), "--output", str(out))
    assert (code, said) == (0, f"200 predictions in {out}\n")
    assert out.read_text().splitlines()[0] == '"index","predicted","p_no","p_yes"'


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "data: expected a folder, a table or a named dataset, got none"),
        (["no-such-thing"], "data: expected a file, a folder or one of"),
        (["{table}", "--label-column", "size2"], "expected a column 'size2'"),
        (["{table}", "--text-column", "x"], "expected a column 'x'"),
        (["{table}", "--encoder", "tf"], "encoder: expected none for a table of values"),
        (["--resume", "{folder}"], "expected a run of `adacorr clean`"),
        (["{table}", "--run-dir", "{folder}"], "expected a new run directory"),
    ],
)
def test_bad_input_is_one_line(table, tmp_path, run_cli, flags, message):
    places = {"table": table, "folder": tmp_path}
    code, _, error = run_cli("clean", *(flag.format(**places) for flag in flags), "--quiet")
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    adacorr.clean(write_table(folder / "table.csv"), run_dir=folder / "run")
    return folder / "run"


@pytest.fixture
def cleaned(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.mark.parametrize("encoder", ["evil:go", "evil.payload:go", "somebody/model", "./folder"])
def test_a_run_chooses_neither_code_nor_a_model(cleaned, table, tmp_path, run_cli, encoder):
    settings = cleaned / "cache" / "settings.toml"
    text = settings.read_text().replace("[clean]\n", f'[clean]\nencoder = "{encoder}"\n')
    settings.write_text(text)
    out = ["--output", str(tmp_path / "o.csv")]
    for words in (["clean", "--resume", str(cleaned)], ["predict", str(cleaned), str(table), *out]):
        code, _, error = run_cli(*words)
        assert code == 2
        assert f"expected an encoder of adacorr's, got '{encoder}'" in error
        code, _, error = run_cli(*words, "--encoder", "other:go")
        assert f"--encoder: expected {encoder} as in the run, got other:go" in error
        code, _, error = run_cli(*words, "--encoder", encoder)  # trusted, but of no use here
        assert "expected none for a table of values" in error


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("features.npy", Path.symlink_to),
        ("features.npy", Path.hardlink_to),
        ("cache/digests.npy", Path.symlink_to),
        ("cache/linear-0.npy", Path.hardlink_to),
        ("cache", Path.symlink_to),
    ],
)
def test_going_on_writes_through_no_link(cleaned, tmp_path, run_cli, name, link):
    place, precious = cleaned / name, tmp_path / "precious"
    place.rename(precious)
    kept = {f: f.read_bytes() for f in [precious, *precious.glob("*")] if f.is_file()}
    link(place, precious)
    if name != "cache":
        (cleaned / "cache" / "encoder.json").write_text("{}")  # all is to be made anew
    code, _, error = run_cli("clean", "--resume", str(cleaned))
    assert (code, "expected a file of this run alone, got a link" in error) == (2, True), error
    assert {f: f.read_bytes() for f in kept} == kept


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cache/encoder.json", DEEP),
        ("cache/encoder.json", "3"),
        ("cache/folds.json", DEEP),
        ("cache/folds.json", "[]"),
        ("cache/folds.json", '{"identity": 3}'),
        ("cache/linear-0.npy", np.zeros((1, 1), np.float32)),
        ("cache/digests.npy", np.zeros(3)),
        ("cache/encoded.npy", "rubbish"),
    ],
)
def test_what_is_damaged_in_the_cache_is_made_again(cleaned, run_cli, name, content):
    wanted = (cleaned / "pred_probs.npy").read_bytes()
    if isinstance(content, str):
        (cleaned / name).write_text(content)
    else:
        np.save(cleaned / name, content)
    code, _, error = run_cli("clean", "--resume", str(cleaned), "--quiet")
    assert code == 0, error
    assert (cleaned / "pred_probs.npy").read_bytes() == wanted


def test_damaged_features_are_not_gone_on_with(cleaned, run_cli):
    features = cleaned / "features.npy"
    damaged = bytearray(features.read_bytes())
    damaged[900] ^= 64
    features.write_bytes(damaged)
    code, _, error = run_cli("clean", "--resume", str(cleaned))
    assert code == 2
    assert "features.npy: expected the file as the run wrote it" in error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("count = 1", "folds: expected a whole number >= 2"),
        ('count = "5"', "expected count of type int"),
        ("count = 5\nrepeats = 100000000", "repeats: expected at most 100"),
        (".".join("a" * 50_000) + " = 1", "keys of at most 8 parts"),
    ],
)
def test_odd_settings_of_a_run_are_one_line(cleaned, run_cli, line, message):
    settings = cleaned / "cache" / "settings.toml"
    settings.write_text(settings.read_text().replace("count = 5", line))
    code, _, error = run_cli("clean", "--resume", str(cleaned))
    assert code == 2
    assert message in error


def test_a_clean_killed_before_its_first_file_is_started_again(table, tmp_path, run_cli):
    """It was refused both as new, for its folder, and with --resume, for its missing settings."""
    code = (
        "import os, sys\n"
        "os.replace = lambda *_: os.kill(os.getpid(), 9)\n"
        "from adacorr.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    words = ["clean", str(table), "--run-dir", str(tmp_path / "run"), "--quiet"]
    killed = subprocess.run([sys.executable, "-c", code, *words], check=False)
    assert killed.returncode == -9
    assert (tmp_path / "run" / "cache").is_dir()
    assert run_cli(*words)[0] == 0
    assert not list(tmp_path.rglob("*.tmp"))
    assert run_cli(*words)[0] == 2  # a finished one is not overwritten

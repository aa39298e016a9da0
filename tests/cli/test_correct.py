"""``adacorr correct`` as a user meets it: good input, and every kind of bad input."""

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.core.test_annotators import people

from adacorr import ask, correct
from adacorr.cli import main
from adacorr.correction import Request, TableSettings, correct_table

NAMES = ["cat", "dog", "eel"]
COMMAND = [sys.executable, "-m", "adacorr"]


def good(n=60):
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, n)
    f = np.full((n, 3), 0.1)
    f[np.arange(n), true] = 0.8
    label = np.where(rng.random(n) < 0.3, (true + 1) % 3, true)
    return {
        "id": np.arange(n),
        "label": np.array(NAMES)[label],
        **{f"p_{name}": f[:, j] for j, name in enumerate(NAMES)},
    }


def save(columns, path):
    table = pa.table(columns)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


@pytest.fixture(params=[".csv", ".parquet"])
def table(request, tmp_path):
    return lambda columns: save(columns, tmp_path / f"in{request.param}")


@pytest.fixture
def refused(run_cli, tmp_path):
    """Run a correction that must fail; checks that it is one line and nothing was touched."""

    def run(source, *flags, output=None):
        before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        target = output or tmp_path / f"out{source.suffix or '.parquet'}"
        code, out, err = run_cli("correct", str(source), "--output", str(target), *flags)
        assert code == 2, (out, err)
        assert err.startswith("adacorr: ")
        assert err.count("\n") == 1
        assert "expected" in err
        assert "got" in err
        assert out == ""
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
        return err

    return run


def test_prints_changes_pairs_and_noise_rate(run_cli, table, tmp_path):
    source = table(good())
    code, out, _ = run_cli(
        "correct", str(source), "--output", str(tmp_path / "o.csv"), "--delta", "0.9"
    )
    assert code == 0
    changed = sum(a != b for a, b in _labels(tmp_path / "o.csv"))
    assert f"changed {changed} of 60 labels" in out
    assert "cat -> eel" in out
    assert "estimated noise rate of the given labels" in out
    assert "rows/s" in out


def _labels(path):
    read = pa.csv.read_csv(path)
    return list(zip(read["label"].to_pylist(), read["adacorr_label"].to_pylist(), strict=True))


def test_json_is_one_object(run_cli, table, tmp_path):
    source = table(good())
    output = str(tmp_path / f"o{source.suffix}")
    code, out, err = run_cli("correct", str(source), "--output", output, "--json", "--delta", "0.9")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["rows"] == 60
    assert answer["classes"] == NAMES
    assert answer["written"] == [output]
    assert sum(change["rows"] for change in answer["top_changes"]) == answer["flipped"]
    assert 0.1 < answer["noise_rate"] < 0.5


def test_quiet_prints_nothing(run_cli, table, tmp_path):
    source = table(good())
    assert run_cli("correct", str(source), "--output", str(tmp_path / "o.csv"), "--quiet") == (
        0,
        "",
        "",
    )


def test_dry_run_writes_nothing(run_cli, table, tmp_path):
    source = table(good())
    code, out, _ = run_cli(
        "correct", str(source), "--dry-run", "--output", str(tmp_path / "o.parquet")
    )
    assert code == 0
    assert "would change" in out
    assert list(tmp_path.iterdir()) == [source]


def test_columns_and_classes_by_flag(run_cli, tmp_path):
    columns = good()
    renamed = {"who": columns["label"], **{n: columns[f"p_{n}"] for n in NAMES}}
    source = save(renamed, tmp_path / "in.parquet")
    flags = ["--label-column", "who", "--class-columns", "cat,dog,eel", "--dry-run"]
    assert run_cli("correct", str(source), *flags)[0] == 0
    assert (
        run_cli(
            "correct", str(source), "--label-column", "who", "--classes", "cat,dog,eel", "--dry-run"
        )[0]
        == 0
    )
    starred = save(columns, tmp_path / "star.parquet")
    assert run_cli("correct", str(starred), "--class-columns", "p_*", "--dry-run")[0] == 0


def test_pair_thresholds_and_T_from_files(run_cli, tmp_path):
    source = save(good(), tmp_path / "in.parquet")
    np.save(tmp_path / "never.npy", np.zeros((3, 3)))
    flags = ["--delta", str(tmp_path / "never.npy"), "--dry-run", "--json"]
    assert json.loads(run_cli("correct", str(source), *flags)[1])["flipped"] == 0
    np.save(tmp_path / "T.npy", np.eye(3) * 0.7 + 0.1)
    code, _, err = run_cli(
        "correct", str(source), "--transition", str(tmp_path / "T.npy"), "--dry-run"
    )
    assert (code, err) == (0, "")


def test_run_directory_and_report(run_cli, tmp_path):
    source = save(good(), tmp_path / "in.parquet")
    page = tmp_path / "page.html"
    code, out, err = run_cli(
        "correct", str(source), "--run-dir", str(tmp_path / "run"), "--report", str(page)
    )
    assert (code, err) == (0, "")
    assert str(page) in out
    assert "<html" in page.read_text()
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "config.toml",
        "labels.parquet",
        "manifest.json",
        "pred_probs.npy",
    ]
    page.unlink()
    assert run_cli("correct", str(source), "--report", str(page))[0] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.parquet", "page.html", "run"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, "got nan"),
        (np.inf, "got inf"),
        (-0.2, "got -0.2"),
        (0.95, "a sum of 1 (within 0.01), got"),
    ],
    ids=["nan", "infinite", "negative", "sum"],
)
def test_bad_probabilities(refused, table, value, words):
    columns = good()
    columns["p_dog"][41] = value
    source = table(columns)
    err = refused(source)
    assert words in err
    assert f"{source}: " in err
    assert "row 41 (counted from 0)" in err
    assert "p_" in err.split("column")[1]


def test_normalize_accepts_other_sums(run_cli, table):
    columns = good()
    columns["p_dog"][41] = 3.0
    assert run_cli("correct", str(table(columns)), "--normalize", "--dry-run")[0] == 0
    columns["p_dog"][7] = np.nan
    assert (
        "got nan in row 7" in run_cli("correct", str(table(columns)), "--normalize", "--dry-run")[2]
    )


def test_unknown_name(refused, table):
    columns = good()
    columns["label"] = columns["label"].astype(object)
    columns["label"][23] = "cow"
    err = refused(table(columns))
    assert "labels among cat, dog, eel, got 'cow' in row 23 (counted from 0), column 'label'" in err


@pytest.mark.parametrize("label", [3, -1])
def test_label_out_of_range(refused, table, label):
    columns = good()
    columns["label"] = np.arange(60) % 3
    columns["label"][23] = label
    err = refused(table(columns))
    assert f"{label}" in err
    assert "row 23 (counted from 0), column 'label'" in err


def test_one_class(refused, table):
    columns = {"label": ["a", "a"], "p_a": [1.0, 1.0]}
    assert "at least 2" in refused(table(columns), "--class-columns", "p_*")


def test_one_class_in_a_list(refused, tmp_path):
    source = save({"label": [0, 0], "probs": [[1.0], [1.0]]}, tmp_path / "in.parquet")
    assert "expected at least 2 classes, got 1 in row 0" in refused(source)


def test_no_rows(refused, table):
    empty = {
        "label": pa.array([], pa.string()),
        "p_a": pa.array([], pa.float64()),
        "p_b": pa.array([], pa.float64()),
    }
    assert "at least one row" in refused(table(empty))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".csv.gz"])
def test_empty_file(refused, tmp_path, suffix):
    source = tmp_path / f"in{suffix}"
    source.touch()
    assert str(source) in refused(source, output=tmp_path / "out.parquet")


def test_wrong_shapes(refused, tmp_path):
    source = save(
        {"label": [0, 1, 0], "probs": [[0.5, 0.5], [0.5, 0.5], [0.2, 0.3, 0.5]]},
        tmp_path / "in.parquet",
    )
    assert "lists of 2 probabilities, got 3 in row 2 (counted from 0), column 'probs'" in refused(
        source
    )


def test_arrays_of_wrong_shapes(run_cli, tmp_path):
    paths = [str(tmp_path / name) for name in ("y.npy", "f.npy")]
    cases = {
        "expected the same length, got 3 and 2": (np.zeros(3, int), np.full((2, 2), 0.5)),
        "expected numbers of shape (N, K)": (np.zeros(2, int), np.ones(2)),
        "of shape (N,)": (np.zeros((2, 1, 1), int), np.full((2, 2), 0.5)),
        "expected integers or strings": (np.array([0.5, 1]), np.full((2, 2), 0.5)),
        "f.npy: expected finite probabilities >= 0, got nan at position 1 in row 1": (
            np.zeros(2, int),
            np.array([[0.5, 0.5], [1, np.nan]]),
        ),
        "y.npy: expected a class index from 0 to 1, got 5 in row 1": (
            np.array([0, 5]),
            np.full((2, 2), 0.5),
        ),
        "at least one row": (np.zeros(0, int), np.empty((0, 2))),
        "expected at least 2 classes, got 1": (np.zeros(2, int), np.ones((2, 1))),
    }
    for words, (y, f) in cases.items():
        np.save(paths[0], y)
        np.save(paths[1], f)
        code, _, err = run_cli(
            "correct",
            "--labels",
            paths[0],
            "--probs",
            paths[1],
            "--output",
            str(tmp_path / "o.parquet"),
        )
        assert (code, err.count("\n")) == (2, 1), err
        assert words in err
    np.save(paths[0], np.array([{}, {}], object), allow_pickle=True)
    code, _, err = run_cli("correct", "--labels", paths[0], "--probs", paths[1], "--dry-run")
    assert code == 2
    assert "expected a plain .npy array" in err


def test_missing_columns(refused, table):
    columns = good()
    del columns["label"]
    assert "name it with --label-column" in refused(table(columns))
    columns = {"label": ["a"], "x": [1.0]}
    assert "--probs-column or --class-columns" in refused(table(columns))
    err = refused(table(good()), "--label-column", "nowhere")
    assert "expected a column 'nowhere', got columns id, label" in err


def test_missing_value(refused, table):
    columns = good()
    columns["p_eel"] = pa.array([None if i == 12 else v for i, v in enumerate(columns["p_eel"])])
    err = refused(table(columns))
    assert "expected a number, got" in err
    assert "row 12 (counted from 0), column 'p_eel'" in err


def test_missing_label(refused, tmp_path):
    columns = good()
    columns["label"] = pa.array([None if i == 9 else v for i, v in enumerate(columns["label"])])
    err = refused(save(columns, tmp_path / "in.parquet"))
    assert "expected a label, got null in row 9 (counted from 0), column 'label'" in err


def test_text_among_numbers(refused, tmp_path):
    source = save(good(), tmp_path / "in.csv")
    lines = source.read_text().splitlines()
    lines[31] = lines[31].rsplit(",", 1)[0] + ",high"
    source.write_text("\n".join(lines))
    err = refused(source)
    assert "expected a number, got 'high' in row 30 (counted from 0), column 'p_eel'" in err


def test_integers_among_names(refused, tmp_path):
    probs = [[0.5, 0.5]] * 3
    source = save({"label": ["a", "b", "1"], "probs": [str(p) for p in probs]}, tmp_path / "in.csv")
    source.write_text(source.read_text().replace('"b"', '"a"'))
    assert "got '1' in row 2 (counted from 0), column 'label'" in refused(source)


def test_numbers_of_a_wrong_type(refused, tmp_path):
    columns = good()
    columns["label"] = np.linspace(0, 1, 60)
    assert "expected integers or strings, got type double in column 'label'" in refused(
        save(columns, tmp_path / "in.parquet")
    )
    columns = good()
    columns["p_dog"] = pa.array(["x"] * 60)
    assert "expected a number, got 'x' in row 0" in refused(save(columns, tmp_path / "in.parquet"))


def test_files_of_a_folder_that_disagree(refused, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    save(good(), folder / "a.parquet")
    columns = good()
    del columns["p_eel"]
    save(columns, folder / "b.parquet")
    err = refused(folder, output=tmp_path / "out")
    assert "b.parquet: expected a column 'p_eel'" in err
    assert "nothing" not in err
    err = refused(tmp_path / "in", output=folder / "out")
    assert "outside the input folder" in err


def test_a_bad_row_in_the_last_file_of_a_folder(refused, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    save(good(), folder / "a.parquet")
    columns = good()
    columns["p_eel"][3] = np.nan
    save(columns, folder / "b.parquet")
    err = refused(folder, output=tmp_path / "out")
    assert "b.parquet: expected finite probabilities >= 0, got nan in row 3" in err


@pytest.mark.parametrize(("name", "mark"), [("t.csv", ";"), ("t.csv", "\t"), ("t.tsv", ",")])
def test_another_separator_than_the_suffix_says(refused, tmp_path, name, mark):
    path = tmp_path / name
    path.write_text(f"label{mark}p_a{mark}p_b\na{mark}0.5{mark}0.5\n")
    line = refused(path)
    assert "expected columns separated by" in line
    assert repr(f"label{mark}p_a{mark}p_b") in line


def test_ragged_csv(refused, tmp_path):
    source = save(good(), tmp_path / "in.csv")
    lines = source.read_text().splitlines()
    lines[20] += ",1,2"
    source.write_text("\n".join(lines))
    err = refused(source)
    assert "Expected 5 columns, got 7" in err
    assert "Row #21" in err


@pytest.mark.parametrize("keep", [0.5, 0.95])
def test_truncated_parquet(refused, tmp_path, keep):
    source = save(good(), tmp_path / "in.parquet")
    data = source.read_bytes()
    source.write_bytes(data[: int(len(data) * keep)])
    assert f"{source}: expected a readable parquet file" in refused(source)


def test_damaged_parquet(refused, tmp_path):
    source = save(good(20_000), tmp_path / "in.parquet")
    data = bytearray(source.read_bytes())
    data[200:5000] = b"\x07" * 4800
    source.write_bytes(bytes(data))
    assert str(source) in refused(source)


def test_not_text(refused, tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes(b"label,p_a,p_b\n\xff\xfe,0.5,0.5\n")
    assert f"{source}: expected a readable CSV file" in refused(source)


def test_output_equal_to_input(refused, table, tmp_path):
    source = table(good())
    assert "other than the input" in refused(source, output=source)
    link = tmp_path / f"link{source.suffix}"
    link.symlink_to(source)
    assert "other than the input" in refused(source, output=link)


def test_an_output_on_an_input_or_another_output(run_cli, tmp_path):
    source = save(good(), tmp_path / "in.parquet")
    other = save(good(), tmp_path / "other.parquet")
    np.save(tmp_path / "y.npy", np.zeros(2, int))
    np.save(tmp_path / "p.npy", np.full((2, 2), 0.5))
    arrays = ["--labels", str(tmp_path / "y.npy"), "--probs", str(tmp_path / "p.npy")]
    out, before = tmp_path / "out.parquet", {p: p.read_bytes() for p in tmp_path.iterdir()}
    cases = [
        [str(source), "--report", str(source)],
        [str(tmp_path), "--report", str(other)],
        [f"{tmp_path}/*.parquet", "--report", str(other)],
        [f"file://{source}", "--report", str(source)],
        [*arrays, "--delta", "0.9", "--report", str(tmp_path / "p.npy")],
        [str(source), "--output", str(out), "--report", str(out)],
        [
            str(source),
            "--output",
            str(out),
            "--run-dir",
            f"{tmp_path}/../{tmp_path.name}/{out.name}",
        ],
        [f"file://{source}", "--output", str(source)],
        [str(source), "--output", f"file://{source}"],
        [f"file://{source}", "--output", f"file://{tmp_path}//in.parquet"],
        ["", "--output", str(out)],
    ]
    for case in cases:
        code, _, err = run_cli("correct", *case)
        assert code == 2, case
        assert "expected" in err, case
        assert err.count("\n") == 1, case
        assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before, case


def test_a_file_url_is_a_path(run_cli, tmp_path):
    source = save(good(), tmp_path / "in.parquet")
    argv = ("--output", f"file://{tmp_path}/a.parquet", "--quiet")
    assert run_cli("correct", f"file://{source}", *argv)[0] == 0
    assert run_cli("correct", str(source), "--output", str(tmp_path / "b.parquet"))[0] == 0
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_more_classes_than_there_can_be(refused, tmp_path):
    columns = {"label": [0, 1], "indices": [[0, 1], [1, 0]], "values": [[0.9, 0.1], [0.9, 0.1]]}
    source = save(columns, tmp_path / "in.parquet")
    assert "n_classes: expected 2 to 1,000,000" in refused(source, "--n-classes", "2147483648")
    limit = refused(source, "--n-classes", "200000", "--delta", "0.9", "--run-dir", "run")
    assert "at most 100,000 classes" in limit


def test_places_that_cannot_be_written(refused, table, tmp_path):
    source = table(good())
    assert "existing output folder" in refused(source, output=tmp_path / "no" / "out.csv")
    assert "expected an output named" in refused(source, output=tmp_path / "out.xlsx")
    (tmp_path / "folder.csv").mkdir()
    assert "got an existing folder" in refused(source, output=tmp_path / "folder.csv")


def test_input_that_is_not_there(refused, tmp_path):
    assert "expected an existing file" in refused(tmp_path / "none.csv")
    (tmp_path / "empty").mkdir()
    assert "*.parquet files, got none" in refused(tmp_path / "empty", output=tmp_path / "o")


def test_a_second_correction_of_the_same_table(refused, run_cli, table, tmp_path):
    once = tmp_path / "once.parquet"
    run_cli("correct", str(table(good())), "--output", str(once))
    assert "got column 'adacorr_label'" in refused(once)


@pytest.mark.parametrize(
    "flags",
    [
        ["--delta", "2"],
        ["--delta", "x"],
        ["--max-flip-error", "7"],
        ["--transition", "no.npy"],
        ["--classes", "a,b"],
        ["--delta", "0.9", "--max-flip-error", "0.1"],
        ["--probs-column", "id", "--class-columns", "p_*"],
    ],
)
def test_impossible_flags(refused, table, flags):
    refused(table(good()), *flags)


def test_neither_output_nor_dry_run(run_cli, table):
    code, _, err = run_cli("correct", str(table(good())))
    assert code == 2
    assert "--dry-run" in err


def big(path, n=400_000):
    """Large enough to be interrupted."""
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.ones(10), n).astype(np.float32)
    probs = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), 10)
    pq.write_table(pa.table({"label": rng.integers(0, 10, n), "probs": probs}), path)
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_half_way_leaves_nothing(tmp_path, number):
    source = big(tmp_path / "in.parquet")
    before = source.read_bytes()
    # small batches and no fitting: most of the time goes into the second pass
    code = (
        "import sys; from adacorr.correction import tables; tables.BATCH_ROWS = 256;"
        "from adacorr.cli import main; main(sys.argv[1:])"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            "correct",
            str(source),
            "--output",
            str(tmp_path / "out.parquet"),
            "--delta",
            "0.9",
            "--run-dir",
            str(tmp_path / "run"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not any(".tmp" in p.name for p in tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert process.poll() is None, "it was done before it could be interrupted"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "adacorr: interrupted; nothing half-written was left behind\n"
    assert out == ""
    assert list(tmp_path.iterdir()) == [source]
    assert source.read_bytes() == before


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", "folder", "run", "npy"])
def test_a_full_disk_leaves_nothing(tmp_path, suffix):
    """A limit on the size of files stands in for the disk: writes fail with 'File too large'."""
    rng = np.random.default_rng(0)
    source = tmp_path / "in"
    output = tmp_path / "out"
    if suffix == "npy":
        np.save(tmp_path / "y.npy", np.tile(np.array(["a" * 40, "b"]), 2000))
        np.save(tmp_path / "f.npy", np.full((4000, 2), 0.5))
        inputs = ["--labels", str(tmp_path / "y.npy"), "--probs", str(tmp_path / "f.npy")]
        output = tmp_path / "out.npy"
    elif suffix == "folder":
        source.mkdir()
        for i in range(3):
            big(source / f"{i}.parquet", n=3000)
        inputs = [str(source)]
    else:
        inputs = [str(big(tmp_path / "in.parquet", n=3000))]
        output = tmp_path / f"out{'.parquet' if suffix == 'run' else suffix}"
    del rng
    flags = (
        ["--run-dir", str(tmp_path / "rundir")] if suffix == "run" else ["--output", str(output)]
    )
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = subprocess.run(
        [*COMMAND, "correct", *inputs, *flags, "--delta", "0.9"],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "expected enough room on the disk, got: File too large" in done.stderr
    assert str(tmp_path / ("rundir" if suffix == "run" else output.name)) in done.stderr
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert not (tmp_path / "out").exists()


def test_a_read_only_folder(tmp_path):
    if os.geteuid() == 0:
        target = "/proc/out.parquet"  # nobody can create a file there, not even root
    else:
        (tmp_path / "locked").mkdir(mode=0o500)
        target = str(tmp_path / "locked" / "out.parquet")
    source = save(good(), tmp_path / "in.parquet")
    done = subprocess.run(
        [*COMMAND, "correct", str(source), "--output", target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert target in done.stderr


def test_a_bar_with_rows_per_second_on_a_terminal(tmp_path):
    pty = pytest.importorskip("pty")
    source = big(tmp_path / "in.parquet", n=20_000)
    code = (
        "import sys; from adacorr.correction import tables as t; t.BATCH_ROWS = 1000;"
        "from adacorr.cli import progress as p; p.BAR_AFTER = 0;"
        "from adacorr.cli import main; main(sys.argv[1:])"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", code, "correct", str(source), "--dry-run", "--delta", "0.9"],
        stderr=theirs,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 20).decode()
    os.close(ours)
    assert "checking" in shown
    assert "correcting" in shown
    assert "rows/s" in shown
    assert b"would change" in done.stdout


@pytest.mark.parametrize("damage", [b"\x93NUMPY\x01\x00v\x00{'descr'", b"PK\x03\x04", b""])
def test_damaged_arrays(run_cli, tmp_path, damage):
    (tmp_path / "y.npy").write_bytes(damage)
    np.save(tmp_path / "f.npy", np.full((2, 2), 0.5))
    arrays = ["--labels", str(tmp_path / "y.npy"), "--probs", str(tmp_path / "f.npy")]
    code, _, err = run_cli("correct", *arrays, "--dry-run")
    assert (code, err.count("\n")) == (2, 1)
    assert "y.npy: expected a plain .npy array" in err


def test_help_names_every_flag(run_cli):
    _, out, _ = run_cli("correct", "--help")
    for flag in ("--output", "--labels", "--probs", "--normalize", "--dry-run", "--json"):
        assert flag in out


def test_lists_in_csv_tell_null_from_empty(tmp_path):
    """null, [] and [1, null, 3] all became []."""
    lists = pa.array([None, [], [1, None, 3], [4]], pa.list_(pa.int64()))
    columns = {"label": [0, 1, 0, 1], "probs": [[0.9, 0.1], [0.2, 0.8]] * 2, "tags": lists}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    out = tmp_path / "t.csv"
    columns = Request(probs_column="probs")
    correct_table(tmp_path / "t.parquet", out, columns=columns, settings=TableSettings(0.5))
    with open(out, newline="") as file:
        assert [row["tags"] for row in csv.DictReader(file)] == ["", "[]", "[1, null, 3]", "[4]"]


def test_a_report_alone_advises_no_review_of_a_run_that_is_not_there(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("label,p_a,p_b\na,0.1,0.9\nb,0.2,0.8\n")
    with pytest.raises(SystemExit) as exit_:
        main(["correct", str(source), "--delta", "0.5", "--report", str(tmp_path / "r.html")])
    assert not exit_.value.code
    page = (tmp_path / "r.html").read_text()
    assert page.count("adacorr review RUN") == page.count("--run-dir RUN")


def test_annotators_and_models_at_the_command_line(run_cli, tmp_path):
    """Columns with commas, with a star, or one option each are the same; the report has a table."""
    truth, codes, f = people(n=300)
    names = np.array(["ant", "bee", "cow", "dog"])
    columns = {f"said_{j}": np.where(codes[:, j] < 0, "", names[codes[:, j]]) for j in range(3)}
    for m, model in enumerate((f, 0.5 * f + 0.125)):
        columns |= {f"p{m}_{name}": model[:, c] for c, name in enumerate(names)}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    labels = [
        ("--label-column", "said_*"),
        ("--label-column", "said_0,said_1,said_2"),
        ("--label-column", "said_0", "--label-column", "said_1", "--label-column", "said_2"),
    ]
    probs = [
        ("--class-columns", "p0_*,p1_*"),
        ("--class-columns", "p0_*", "--class-columns", "p1_ant,p1_bee,p1_cow,p1_dog"),
    ]
    expected = correct(codes, [f, 0.5 * f + 0.125])
    said = []
    for label in labels:
        for prob in probs:
            how = ("correct", str(tmp_path / "in.parquet"), *label, *prob)
            code, out, err = run_cli(*how, "--dry-run", "--json")
            assert (code, err) == (0, "")
            said.append(json.loads(out))
    assert {one["flipped"] for one in said} == {expected.n_flipped}
    found = said[0]["annotators"]
    assert [one["name"] for one in found] == ["said_0", "said_1", "said_2"]
    assert found[2]["quality"] == pytest.approx(expected.annotators[2].quality)
    np.testing.assert_allclose(found[2]["confusion"], expected.annotators[2].confusion, atol=1e-6)
    run, page = tmp_path / "run", tmp_path / "report.html"
    code, out, _ = run_cli(*how, "--run-dir", str(run), "--report", str(page))
    assert code == 0
    assert "said_2: " in out
    assert "labels right" in out
    assert "Who labelled how well" in page.read_text()
    assert json.loads((run / "annotators.json").read_text())["annotators"] == found
    code, out, _ = run_cli(
        "ask", *how[1:], "--n", "5", "--output", str(tmp_path / "q.csv"), "--json"
    )
    assert json.loads(out)["rows"] == ask(expected.given, [f, 0.5 * f + 0.125], 5).tolist()
    rows = ask(expected.given, [f, 0.5 * f + 0.125], 30).tolist()
    said = {row: int(truth[row]) for row in rows}
    lines = [f"{row},{names[code]}" for row, code in said.items()]
    (tmp_path / "answers.csv").write_text("\n".join(["row,label", *lines]))
    code, out, err = run_cli(
        "certify", str(run), "--verified", str(tmp_path / "answers.csv"), "--json"
    )
    assert (code, err) == (0, "")
    proved = correct(codes, [f, 0.5 * f + 0.125], verified=said).certificate
    assert json.loads(out)["sentence"] == proved.sentence


def test_arrays_of_several_models(run_cli, tmp_path):
    _, codes, f = people(n=200)
    paths = [str(tmp_path / name) for name in ("y.npy", "f.npy", "g.npy", "out.npy")]
    np.save(paths[1], f)
    np.save(paths[2], f**2 / (f**2).sum(axis=1)[:, None])
    labels = np.where((codes[:, :2] < 0).all(axis=1)[:, None], 0, codes[:, :2])
    np.save(paths[0], labels)
    arrays = ("--labels", paths[0], "--probs", *paths[1:3])
    code, _, err = run_cli("correct", *arrays, "--output", paths[3], "--quiet")
    assert (code, err) == (0, "")
    expected = correct(labels, [np.load(path) for path in paths[1:3]])
    np.testing.assert_array_equal(np.load(paths[3]), expected.labels)

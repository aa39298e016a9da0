"""A kill between the names of several outputs: the same command, given again, finishes."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

KILLED = """
import os, signal, sys
import adacorr.files as files
left, replace = int(sys.argv[1]), os.replace
def killing(old, new):
    global left
    replace(old, new)
    if os.path.basename(str(new)) in ("out.parquet", "run", "report.html"):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
files.os.replace = killing
from adacorr.cli import main
main(sys.argv[2:])
"""


@pytest.fixture
def words(tmp_path):
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.full(3, 0.3), 300)
    table = pa.table({"label": rng.integers(0, 3, 300), **{f"p_{j}": f[:, j] for j in range(3)}})
    pq.write_table(table, tmp_path / "in.parquet")
    places = {"--output": "out.parquet", "--run-dir": "run", "--report": "report.html"}
    named = [word for flag, name in places.items() for word in (flag, str(tmp_path / name))]
    return ["correct", str(tmp_path / "in.parquet"), *named]


def killed_after(n, words):
    command = [sys.executable, "-c", KILLED, str(n), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


COMPLETE = ["in.parquet", "out.parquet", "report.html", "run"]


@pytest.mark.parametrize("n", [1, 2])
def test_the_same_command_finishes(n, words, tmp_path):
    assert killed_after(n, words).returncode == -9
    shown = [name for name in names(tmp_path) if not name.startswith(".")]
    assert len(shown) == 1 + n  # some outputs, and not the others
    done = killed_after(99, words)
    assert done.returncode == 0, done.stderr
    assert names(tmp_path) == COMPLETE
    done = killed_after(99, words)
    assert done.returncode == 2  # a finished result is not replaced
    assert "expected a new file, got an existing one" in done.stderr


def test_what_was_changed_since_is_not_removed(words, tmp_path):
    assert killed_after(2, words).returncode == -9
    (tmp_path / "run" / "review.sqlite").write_text("decisions")
    done = killed_after(99, words)
    assert done.returncode == 2
    assert "run: expected a new or empty folder, got an existing one" in done.stderr
    assert (tmp_path / "run" / "review.sqlite").read_text() == "decisions"

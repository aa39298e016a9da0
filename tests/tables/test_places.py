"""Nobody ever sees half a result, and what a killed process left goes with the next one."""

import subprocess
import sys

import pytest

from adacorr.files import atomic_folder
from adacorr.tables.places import arriving, targets

KILLED = """
import os, sys
from pathlib import Path
from adacorr.files import atomic_folder
from adacorr.tables.places import arriving, targets
out, run = Path(sys.argv[1]), Path(sys.argv[2])
with targets(out, ["table"], folder=False) as (target,), atomic_folder(run) as folder:
    (folder / "labels.parquet").write_text("half")
    with arriving(target) as part:
        part.write_text("half")
        os._exit(9)
"""


@pytest.fixture
def leftovers(tmp_path):
    """A folder in which a process was killed while it wrote `out` and `run`."""
    words = [sys.executable, "-c", KILLED, str(tmp_path / "out"), str(tmp_path / "run")]
    assert subprocess.run(words, check=False).returncode == 9
    assert len(list(tmp_path.iterdir())) == 2
    return tmp_path


def test_the_next_one_removes_what_a_killed_one_left(leftovers):
    out, run = leftovers / "out", leftovers / "run"
    with targets(out, ["table"], folder=False) as (target,), atomic_folder(run) as folder:
        (folder / "labels.parquet").write_text("whole")
        with arriving(target) as part:
            part.write_text("whole")
        assert not out.exists()
    assert out.read_text() == (run / "labels.parquet").read_text() == "whole"
    assert set(leftovers.iterdir()) == {out, run}


def test_a_failed_one_leaves_nothing(tmp_path):
    def fail():
        with targets(tmp_path / "out", ["a", "b"], folder=True) as both:
            for target in both:
                with arriving(target) as part:
                    part.write_text("whole")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())

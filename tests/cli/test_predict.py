"""``adacorr predict``: whole files or none. What it predicts is tested with `fit` and `clean`."""

import os
import subprocess
import sys

import pytest

LIMITED = """
import resource, sys
import torch
from adacorr.cli import main
torch.set_num_threads(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    begin = "fit digits --subset 60 --epochs 1 --method standard --no-correct --quiet --run-dir run"
    run(["-c", "from adacorr.cli import main; main()", *begin.split()], folder, check=True)
    return folder


def run(words, folder, check=False):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=check)


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_a_full_disk_is_one_line_and_leaves_nothing(trained, suffix):
    """A memory map, as .npy files were written before, ends in SIGBUS there."""
    before = sorted(p.name for p in trained.iterdir())
    output = f"out{suffix}"
    done = run(["-c", LIMITED, "predict", "run", "digits", "--output", output], trained)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "File too large" in done.stderr
    assert sorted(p.name for p in trained.iterdir()) == before


def test_another_suffix_is_refused_before_anything_is_read(trained):
    done = run(["-m", "adacorr", "predict", "run", "digits", "--output", "out.txt"], trained)
    assert done.returncode == 2
    assert "output: expected a name in .parquet, .csv, .npy, got out.txt" in done.stderr

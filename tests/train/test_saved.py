"""A run directory from elsewhere does not choose which code runs."""

import subprocess
import sys

import numpy as np
import pytest
from torch import nn

from adacorr.core.validation import InputError
from adacorr.runs.directory import Run
from adacorr.train import Standard, fit
from adacorr.train.saved import load_model

EVIL = "evil.payload:go"


@pytest.fixture
def run(tmp_path):
    """A run whose config.toml names code that lies in the run and in the current folder."""
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    np.savez(tmp_path / "new.npz", features=X)
    fit(
        lambda k: nn.Linear(2, k),
        X,
        (X[:, 0] > 0).astype(int),
        method=Standard(),
        epochs=1,
        run_dir=tmp_path / "run",
        config={"data": {"source": str(tmp_path / "new.npz")}, "train": {"net": EVIL}},
    )
    for folder in (tmp_path, tmp_path / "run"):
        (folder / "evil").mkdir()
        code = "open('ran', 'w').close()\nfrom torch import nn\ngo = lambda k: nn.Linear(2, k)\n"
        (folder / "evil" / "payload.py").write_text(code)
        (folder / "evil" / "__init__.py").write_text("")
    return tmp_path / "run"


def adacorr(folder, *words):
    command = [sys.executable, "-m", "adacorr", *map(str, words)]  # puts the current folder first
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_code_that_a_run_names_does_not_run(run):
    for folder in (run.parent, run):
        predict = ("predict", run, run.parent / "new.npz", "--output", run.parent / "out.npy")
        for words in (predict, ("fit", "--resume", run)):
            done = adacorr(folder, *words)
            assert done.returncode == 2, done.stderr
            assert f"got '{EVIL}', which is code; if you trust it, say so: --net {EVIL}" in (
                done.stderr
            )
            assert not (folder / "ran").exists()
            done = adacorr(folder, *words, "--net", "evil.other:go")
            assert f"--net: expected {EVIL} as in the run, got evil.other:go" in done.stderr
            assert not (folder / "ran").exists()


def test_code_that_the_user_names_runs(run):
    words = ("predict", run, run.parent / "new.npz", "--output", run.parent / "out.npy")
    done = adacorr(run.parent, *words, "--net", EVIL)
    assert done.returncode == 0, done.stderr
    assert (run.parent / "ran").exists()
    assert np.load(run.parent / "out.npy").shape == (60, 2)


def test_the_net_itself_is_passed_from_python(run):
    with pytest.raises(InputError, match="which is code"):
        load_model(Run.open(run))
    X = np.load(run.parent / "new.npz")["features"]
    model = load_model(Run.open(run), lambda k: nn.Linear(2, k))
    assert model.predict_proba(X).shape == (60, 2)

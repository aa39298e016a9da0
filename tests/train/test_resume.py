import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adacorr.core.validation import InputError
from adacorr.runs.directory import Run
from adacorr.train import METHODS, AdaCorr, Standard, fit

EPOCHS = 5
EXACT = ("model.safetensors", "pred_probs.npy", "labels.parquet")


class Stop(Exception):
    """Pulls the plug after a batch."""


class StopAt:
    def __init__(self, epoch, batch):
        self.at = (epoch, batch)
        self.lines = []

    def batch(self, epoch, done, total):
        if (epoch, done) == self.at:
            raise Stop

    def epoch(self, record, epochs): ...

    def log(self, line):
        self.lines.append(line)


def outcome(path):
    """Everything that must be the same, to the bit; only times may differ."""
    records = [{k: v for k, v in r.items() if k != "seconds"} for r in Run(path).metrics()]
    return records, [hashlib.sha256((path / name).read_bytes()).hexdigest() for name in EXACT]


def train(images, cnn, path, method, **options):
    X, y = images
    return fit(cnn, X, y, method=method, epochs=EPOCHS, batch_size=20, run_dir=path, **options)


PAST_BURN_IN = {  # settings with which what comes after burn-in begins within these few epochs
    "adacorr": {"burn_in": 1, "correct_after": 1},
    "posterior": {"burn_in": 1},
    "coteaching": {"noise_rate": 0.3, "ramp": 1},
    "mentornet": {"noise_rate": 0.3},
    "abstention": {"warmup": 1},
}


@pytest.mark.parametrize("name", list(METHODS))
def test_stopped_in_any_epoch_the_run_ends_the_same(images, cnn, tmp_path, name):
    def make():
        return METHODS[name](**PAST_BURN_IN.get(name, {}))

    train(images, cnn, tmp_path / "whole", make())
    for epoch in (1, 2, 3, 5):  # the first, across a change of stage, the last
        path = tmp_path / f"stopped-{epoch}"
        with pytest.raises(Stop):
            train(images, cnn, path, make(), progress=StopAt(epoch, 2))
        train(images, cnn, path, make(), resume=True)
        assert outcome(path) == outcome(tmp_path / "whole")


def test_the_released_recipe_too(images, cnn, tmp_path):
    def make():
        return AdaCorr(recipe="released", burn_in=1, correct_after=1, window=2)

    train(images, cnn, tmp_path / "whole", make())
    with pytest.raises(Stop):
        train(images, cnn, tmp_path / "stopped", make(), progress=StopAt(4, 1))
    train(images, cnn, tmp_path / "stopped", make(), resume=True)
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


KILLED = """
import os, signal, sys
import numpy as np
import torch
sys.path.insert(0, sys.argv[2])
from conftest import small_cnn
from adacorr.train import AdaCorr, fit
torch.set_num_threads(1)

class Kill:
    def batch(self, epoch, done, total):
        if (epoch, done) == (3, 2):
            os.kill(os.getpid(), signal.SIGKILL)
    def epoch(self, record, epochs): ...
    def log(self, line): ...

rng = np.random.default_rng(1)
X, y = rng.integers(0, 256, (90, 8, 8, 3), dtype=np.uint8), rng.integers(0, 3, 90)
fit(small_cnn, X, y, method=AdaCorr(burn_in=1, correct_after=1), epochs=5, batch_size=20,
    run_dir=sys.argv[1], progress=Kill())
"""


def test_sigkill_during_an_epoch(images, cnn, tmp_path):
    path = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -9
    assert len(Run(path).metrics()) == 2
    method = AdaCorr(burn_in=1, correct_after=1)
    train(images, cnn, path, method, resume=True)  # the dead process no longer holds the lock
    train(images, cnn, tmp_path / "whole", method)
    assert outcome(path) == outcome(tmp_path / "whole")


def test_a_damaged_checkpoint_costs_one_epoch_and_no_bit(images, cnn, tmp_path):
    train(images, cnn, tmp_path / "whole", Standard())
    path = tmp_path / "stopped"
    with pytest.raises(Stop):
        train(images, cnn, path, Standard(), progress=StopAt(4, 1))
    (path / "checkpoint" / "epoch-000003" / "tensors.safetensors").write_bytes(b"broken")
    follow = StopAt(0, 0)
    train(images, cnn, path, Standard(), resume=True, progress=follow)
    assert "epoch-000003: damaged checkpoint refused" in follow.lines[0]
    assert outcome(path) == outcome(tmp_path / "whole")


def test_resuming_a_finished_run_changes_nothing(images, cnn, tmp_path):
    train(images, cnn, tmp_path, Standard())
    before = outcome(tmp_path)
    train(images, cnn, tmp_path, Standard(), resume=True)
    assert outcome(tmp_path) == before


def test_another_job_is_not_resumed(images, cnn, tmp_path):
    X, y = images
    train(images, cnn, tmp_path, Standard())
    with pytest.raises(InputError, match=r"resume: expected the run's own lr, 0.001, got 0.1"):
        train(images, cnn, tmp_path, Standard(), resume=True, lr=0.1)
    with pytest.raises(InputError, match="resume: expected the run's own labels"):
        train((X, (y + 1) % 3), cnn, tmp_path, Standard(), resume=True)
    with pytest.raises(InputError, match="resume: expected the run's own method"):
        train(images, cnn, tmp_path, AdaCorr(), resume=True)


def test_replaced_samples_are_refused(images, cnn, tmp_path):
    """Only the labels were compared: a run went on with other features."""
    X, y = images
    options = {"method": Standard(), "epochs": 1, "run_dir": tmp_path / "run"}
    fit(cnn, X, y, **options)
    fit(cnn, X, y, resume=True, **options)
    with pytest.raises(InputError, match="resume: expected the run's own samples, got others"):
        fit(cnn, X[::-1].copy(), y, resume=True, **options)


RESUMED = """
import os, sys
import numpy as np
import torch
from torch import nn
from adacorr.train import METHODS, fit
from test_resume import PAST_BURN_IN, Stop, StopAt
torch.set_num_threads(1)
rng = np.random.default_rng(0)
truth = rng.integers(0, 3, 120)
X = (rng.normal(size=(120, 4)) + 4 * np.eye(3, 4)[truth]).astype(np.float32)
given = np.where(rng.random(120) < 0.3, (truth + 1) % 3, truth)

def net(k):
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, k))

for name in METHODS:
    def train(kind, **options):
        method = METHODS[name](**PAST_BURN_IN.get(name, {}))
        return fit(net, X, given, method=method, epochs=5, lr=0.01, batch_size=32,
                   run_dir=f"{sys.argv[1]}/{name}-{kind}", correct=False, **options)
    train("whole")
    for epoch in (3, 5):
        try:
            train(epoch, progress=StopAt(epoch, 2))
        except Stop:
            train(epoch, resume=True)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """Runs of every method by two ranks: whole, and stopped past burn-in and resumed."""
    folder = tmp_path_factory.mktemp("resumed")
    script = folder / "script.py"
    script.write_text(RESUMED)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), env.get("PYTHONPATH", "")])
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, "-m", *launcher, str(script), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.stdout.count("done") == 2, done.stderr
    return folder


@pytest.mark.parametrize("epoch", [3, 5])
@pytest.mark.parametrize("name", list(METHODS))
def test_two_ranks_go_on_as_if_never_stopped(resumed, name, epoch):
    whole = outcome(resumed / f"{name}-whole")
    assert len(whole[0]) == 5
    assert outcome(resumed / f"{name}-{epoch}") == whole

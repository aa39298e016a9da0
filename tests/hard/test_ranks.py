"""One rank of a torchrun is killed in the middle; the restarted run ends with the same labels."""

import os
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import os, signal, sys
import numpy as np
import torch
from torch import nn
from adacorr.core import noise
from adacorr.train import METHODS, AdaCorr, fit
torch.set_num_threads(1)
folder, name, death, resume = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "resume"
rank = os.environ["RANK"]
rng = np.random.default_rng(0)
truth = rng.integers(0, 3, 221)
X = (rng.normal(size=(221, 4)) + 4 * np.eye(3, 4)[truth]).astype(np.float32)
given = noise.inject(truth, noise.uniform(3, 0.3), rng)

def net(k):
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, k))

class Kill:
    def batch(self, epoch, done, total):
        if f"{rank}:{epoch}:{done}" == death:
            os.kill(os.getpid(), signal.SIGKILL)
    def epoch(self, record, epochs): ...
    def log(self, line): ...

method = (AdaCorr(burn_in=4, correct_after=2, refresh_after=6) if name == "adacorr"
          else METHODS[name]())
result = fit(net, X, given, method=method, epochs=12, lr=0.01, batch_size=32, progress=Kill(),
             run_dir=f"{folder}/run", resume=resume)
np.savez(f"{folder}/{rank}.npz", labels=result.labels, pred_probs=result.pred_probs, given=given)
"""


def launch(folder, name, death="", resume=""):
    folder.mkdir(exist_ok=True)
    script = folder / "script.py"
    script.write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [sys.executable, *launcher, str(script), str(folder), name, death or "-", resume or "-"],
        timeout=900,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def outcome(folder):
    ranks = [np.load(folder / f"{rank}.npz") for rank in (0, 1)]
    np.testing.assert_array_equal(ranks[0]["labels"], ranks[1]["labels"])
    return ranks[0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    done = launch(folder, "adacorr")
    assert done.returncode == 0, done.stderr
    return outcome(folder)


@pytest.mark.parametrize("death", ["1:8:3", "0:6:1", "1:12:7"])
def test_a_rank_dies_and_the_run_ends_the_same(tmp_path, undisturbed, death, record):
    broken = launch(tmp_path, "adacorr", death)
    assert broken.returncode != 0
    assert not (tmp_path / "0.npz").exists()
    again = launch(tmp_path, "adacorr", resume="resume")
    assert again.returncode == 0, again.stderr
    got = outcome(tmp_path)
    np.testing.assert_array_equal(got["labels"], undisturbed["labels"])
    np.testing.assert_array_equal(got["pred_probs"], undisturbed["pred_probs"])
    assert (got["labels"] != got["given"]).sum() > 20
    record("faults", killed_rank="of two: the restarted run ends with the same labels")

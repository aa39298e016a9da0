import os
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import os, sys
import numpy as np
import torch
from torch import nn
from adacorr.core import noise
from adacorr.train import AdaCorr, fit
torch.set_num_threads(1)
rng = np.random.default_rng(0)
truth = rng.integers(0, 3, 221)
X = (rng.normal(size=(221, 4)) + 4 * np.eye(3, 4)[truth]).astype(np.float32)
given = noise.inject(truth, noise.uniform(3, 0.3), rng)
def net(k):
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, k))

method = AdaCorr(burn_in=4, correct_after=2, refresh_after=6)
result = fit(net, X, given, method=method, epochs=12, lr=0.01, batch_size=32,
             run_dir=f"{sys.argv[1]}/run-{os.environ.get('WORLD_SIZE', 1)}")
rank = os.environ.get("RANK", "alone")
np.savez(f"{sys.argv[1]}/{rank}.npz", labels=result.labels, pred_probs=result.pred_probs,
         loss=[r["loss"] for r in result.history], given=given)
"""


def launch(tmp_path, *launcher):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    subprocess.run(
        [sys.executable, *launcher, str(script), str(tmp_path)],
        check=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("ranks")
    launch(tmp_path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    launch(tmp_path)
    files = {name: np.load(tmp_path / f"{name}.npz") for name in ("0", "1", "alone")}
    return tmp_path, files


def test_every_rank_has_the_same_labels(outcomes):
    _, files = outcomes
    for name in ("labels", "pred_probs", "loss"):
        np.testing.assert_array_equal(files["0"][name], files["1"][name])
    assert (files["0"]["labels"] != files["0"]["given"]).sum() > 20


def test_two_processes_do_what_one_does_at_the_same_global_batch(outcomes):
    _, files = outcomes
    np.testing.assert_array_equal(files["0"]["labels"], files["alone"]["labels"])
    np.testing.assert_allclose(files["0"]["pred_probs"], files["alone"]["pred_probs"], atol=1e-5)
    np.testing.assert_allclose(files["0"]["loss"], files["alone"]["loss"], rtol=1e-5)


def test_the_first_rank_alone_writes(outcomes):
    tmp_path, _ = outcomes
    written = [sorted(p.name for p in (tmp_path / f"run-{n}").iterdir()) for n in (1, 2)]
    assert written[0] == written[1]
    lines = (tmp_path / "run-2" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 12

"""Train your own torch module on noisy labels; get a run directory and a report.

python examples/own_network.py
"""

import shutil

import numpy as np
import torch

from adacorr import noise
from adacorr.data import load
from adacorr.report import write_report
from adacorr.train import AdaCorr, fit


def make_net(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, n_classes)
    )


digits = load("digits").train
truth = digits.labels
given = noise.inject(truth, noise.uniform(10, 0.4), rng=0)

method = AdaCorr(delta=0.5)
shutil.rmtree("own-network", ignore_errors=True)  # of an earlier go
result = fit(
    make_net, digits.features, given, method=method, epochs=30, lr=1e-2, run_dir="own-network"
)
print(f"right labels before: {np.mean(given == truth):.1%}")
print(f"right labels after:  {np.mean(result.labels == truth):.1%}")
assert result.run is not None
print(f"report: {write_report(result.run)}")

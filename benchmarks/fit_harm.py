"""What `adacorr fit` does to the labels of small sets: does it ever leave them worse than given?

python benchmarks/fit_harm.py --output results/fit-harm.jsonl              tables, MNIST, Fashion
python benchmarks/fit_harm.py --output results/fit-harm.jsonl --sets cifar human labels, slow

The labels that `fit` hands out do not depend on the method (see docs/methods.md), so only the nets
that predict the rows they have not learnt from are trained. Sets with a record are not run again.
A set is SOURCE:ROWS:NOISE; sources that come with real wrong labels have no noise put in.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
import torch
from numpy.typing import NDArray

from adacorr.core import noise
from adacorr.data import load
from adacorr.paper.bench.records import RecordFile
from adacorr.train.crossfit import out_of_fold
from adacorr.train.engine import Silent
from adacorr.train.fitting import make_job, net_factory, read_labels
from adacorr.train.handout import hand_out
from adacorr.train.ranks import Ranks
from adacorr.train.settings import Settings, default_epochs

SETS = {
    "tables": (
        *(
            f"{name}:{rows}:{kind}"
            for name, rows in (
                ("iris", 150),
                ("wine", 178),
                ("breast_cancer", 569),
                ("digits", 1797),
                ("optdigits", 3000),
                ("spambase", 4601),
            )
            for kind in ("clean", "uniform-0.05", "uniform-0.2")
        ),
    ),
    "images": (
        *(
            f"{name}:{rows}:{kind}"
            for name in ("mnist", "fashion_mnist")
            for rows in (300, 600)
            for kind in ("clean", "uniform-0.2", "pair-0.3")
        ),
    ),
    "cifar": (
        "cifar10n-aggre:300:human",
        "cifar10n-random1:300:human",
        "cifar10n-random1:1000:human",
    ),
}
SEEDS = {"tables": range(5), "images": range(3), "cifar": range(2)}
Labels = NDArray[np.int64]


def samples(name: str, rows: int, kind: str, seed: int) -> tuple[Any, Labels, Labels]:
    """Features, true labels, given labels."""
    if name.startswith("cifar10n"):
        data = load(name.replace("-", ":"), subset=rows, seed=seed).train
        assert data.truth is not None
        return data.features, data.truth, data.labels
    if name in ("mnist", "fashion_mnist"):
        data = load(name, subset=rows, seed=seed).train
        X, truth = data.features, data.labels
    else:
        X, truth = table(name)
        order = np.sort(np.random.default_rng(seed).permutation(len(truth))[:rows])
        X, truth = X[order], truth[order]
    if kind == "clean":
        return X, truth, truth
    T = noise.parse(kind.replace("-", ":"), int(truth.max()) + 1)
    return X, truth, noise.inject(truth, T, np.random.default_rng([seed, 1]))


def table(name: str) -> tuple[NDArray[np.float32], Labels]:
    """scikit-learn's own, or a .csv.gz under ADACORR_DATA with the label in its last column."""
    if name in ("optdigits", "spambase"):
        path = Path(os.environ["ADACORR_DATA"]) / "tabular" / f"{name}.csv.gz"
        content = np.loadtxt(path, delimiter=",")
        return content[:, :-1].astype(np.float32), content[:, -1].astype(np.int64)
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return X.astype(np.float32), y.astype(np.int64)


def run(spec: str, seed: int) -> dict[str, Any]:
    name, rows, kind = spec.split(":")
    X, truth, given = samples(name, int(rows), kind, seed)
    began = time.perf_counter()
    settings, ranks = Settings(seed=seed), Ranks()
    job = make_job(X, read_labels(X, given, None), 0.1, settings, ranks.device)
    settings = replace(settings, epochs=default_epochs(len(job.train)))
    with torch.random.fork_rng():
        make_net = net_factory(None, job.feed.source.shape)
        f = out_of_fold(job, make_net, settings, ranks, Silent())
    handed = hand_out(given, f)
    found = handed.correction
    wrong = found.flipped & (found.labels != truth)
    return {
        "key": f"{spec} {seed}",
        "set": spec,
        "seed": seed,
        "net_right": round(float((f.argmax(axis=1) == truth).mean()), 5),
        "given_right": round(float((given == truth).mean()), 5),
        "after_right": round(float((found.labels == truth).mean()), 5),
        "changes": found.n_flipped,
        "wrong_changes": int(wrong.sum()),
        "stated_wrong": found.expected_wrong_flips,
        "noise_rate": found.noise_rate,
        "noise_rate_interval": found.noise_rate_interval,
        "withheld": handed.withheld,
        "note": found.note,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What fit does to the labels of small sets.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["tables", "images"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    file = RecordFile(arguments.output)
    with file.open():
        done = file.finished()
        # seeds outermost, so that a stopped run has whole tables
        plan = sorted(
            (
                (spec, seed)
                for kind in arguments.sets
                for seed in SEEDS[kind]
                for spec in SETS[kind]
            ),
            key=lambda job: job[1],
        )
        for spec, seed in plan:
            if f"{spec} {seed}" not in done:
                record = run(spec, seed)
                file.append(record)
                print(json.dumps({k: v for k, v in record.items() if k != "note"}), flush=True)


if __name__ == "__main__":
    main()

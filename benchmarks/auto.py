"""Measure the automatic correction rule: datasets x classifiers x noise x seeds -> a table.

    python benchmarks/auto.py predict --cache DIR     out-of-fold probabilities, once, resumable
    python benchmarks/auto.py run --cache DIR         apply the rules -> results/auto/records.jsonl
    python benchmarks/auto.py table                   records -> docs/auto-rule.md

Needs ADACORR_DATA (a folder with MNIST/raw and tabular/). The truth is used here to score, never
inside a rule. Seeds 0-4 are the record; the rule was developed on digits and Optdigits with
seeds of 100 and above (``--seeds 100 101 --datasets digits optdigits``).
"""

from __future__ import annotations

import argparse
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adacorr.core import noise

DATASETS = ("digits", "optdigits", "spambase", "mnist")
CLASSIFIERS = ("logistic", "boosting", "weak")
NOISES = ("none", *(f"{kind}:{r}" for r in (0.02, 0.1, 0.2, 0.4) for kind in ("uniform", "pair")))
SEEDS = (0, 1, 2, 3, 4)
MNIST_ROWS = 10_000


@dataclass(frozen=True)
class Cell:
    """One experiment: which labels, disturbed how, seen by which classifier."""

    dataset: str
    classifier: str
    noise: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.dataset}-{self.classifier}-{self.noise.replace(':', '')}-{self.seed}"


def cells(datasets: list[str], classifiers: list[str], seeds: list[int]) -> Iterator[Cell]:
    """Cheap ones first; the weak classifier stands in for "worse than the labels" on digits."""
    for dataset in datasets:
        for classifier in classifiers:
            if classifier == "weak" and dataset != "digits":
                continue
            for seed in seeds:
                yield from (Cell(dataset, classifier, spec, seed) for spec in NOISES)


def load(dataset: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features and true labels; MNIST is its first 10,000 training images."""
    if dataset == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        return digits["data"], digits["target"].astype(np.int64)
    root = Path(os.environ["ADACORR_DATA"])
    if dataset == "mnist":
        raw = root / "MNIST" / "raw"
        with gzip.open(raw / "train-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(16 + MNIST_ROWS * 784), np.uint8, offset=16)
        with gzip.open(raw / "train-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(8 + MNIST_ROWS), np.uint8, offset=8)
        return _principal(pixels.reshape(-1, 784) / 255.0), labels.astype(np.int64)
    table = np.loadtxt(root / "tabular" / f"{dataset}.csv.gz", delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def _principal(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """50 principal components, so that a boosting cell costs seconds."""
    from sklearn.decomposition import PCA

    return PCA(50, random_state=0).fit_transform(X)


def classifier(name: str, seed: int):
    """Very different models: a linear one, trees, and one too strongly regularised."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    if name == "boosting":
        return HistGradientBoostingClassifier(
            early_stopping=False,
            max_iter=25,
            learning_rate=0.2,
            max_leaf_nodes=15,
            random_state=seed,
        )
    if name == "weak":
        return make_pipeline(MinMaxScaler(), LogisticRegression(C=0.02))
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def predict(cell: Cell, X: NDArray[np.float64], truth: NDArray[np.int64], path: Path) -> None:
    """Disturb the labels, take five-fold out-of-fold probabilities, keep both."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    k = int(truth.max()) + 1
    rng = np.random.default_rng([cell.seed, NOISES.index(cell.noise)])
    given = truth
    if cell.noise != "none":
        given = noise.inject(truth, noise.parse(cell.noise, k), rng)
    folds = StratifiedKFold(5, shuffle=True, random_state=cell.seed)
    model = classifier(cell.classifier, cell.seed)
    f = cross_val_predict(model, X, given, cv=folds, method="predict_proba")
    part = path.with_suffix(".part.npz")
    np.savez(part, pred_probs=f.astype(np.float32), given=given, truth=truth)
    part.replace(path)


def predict_all(chosen: list[Cell], cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    for dataset in dict.fromkeys(cell.dataset for cell in chosen):
        X, truth = load(dataset)
        for cell in (c for c in chosen if c.dataset == dataset):
            path = cache / f"{cell.name}.npz"
            if not path.exists():
                predict(cell, X, truth, path)
                print(cell.name, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("predict", "run", "table"))
    parser.add_argument("--cache", type=Path, default=Path("auto-cache"))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--classifiers", nargs="+", default=list(CLASSIFIERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    options = parser.parse_args()
    chosen = list(cells(options.datasets, options.classifiers, options.seeds))
    if options.command == "predict":
        predict_all(chosen, options.cache)


if __name__ == "__main__":
    main()

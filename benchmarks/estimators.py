"""Test accuracy with noisy training labels: plain, CorrectedClassifier, cleanlab's CleanLearning.

    python benchmarks/estimators.py run      # -> results/estimators/records.jsonl, resumable
    python benchmarks/estimators.py table    # records -> docs/estimators-results.md

After a change of the correction, ``run --fresh`` drops our records of other code and makes them
again; stopped in between, the same command goes on.

Optdigits and Spambase are read from ADACORR_DATA/tabular (csv.gz, label in the last column), digits
from scikit-learn. Each cell: a seeded split into 75% training and 25% test rows, noise injected
into the training labels only, accuracy on the clean test labels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacorr import noise
from adacorr.estimators import CorrectedClassifier
from adacorr.files import atomic

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "estimators" / "records.jsonl"
PAGE = ROOT / "docs" / "estimators-results.md"
DATASETS = ("digits", "optdigits", "spambase")
NOISES = ("none", *(f"{kind}:{rate}" for kind in ("uniform", "pair") for rate in (0.1, 0.2, 0.4)))
SEEDS = tuple(range(10))
CLASSIFIERS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    # Without the penalty boosting may diverge on labels that are nearly all right: its accuracy on
    # its own training labels falls with the number of trees.
    "gradient boosting": HistGradientBoostingClassifier(
        max_iter=20, max_leaf_nodes=8, learning_rate=0.3, l2_regularization=0.1, random_state=0
    ),
}
OURS = "CorrectedClassifier"
METHODS = ("plain", OURS, "CleanLearning")


@cache
def code() -> str:
    """A fingerprint of the code that decides what `OURS` does."""
    folder = ROOT / "src" / "adacorr"
    parts = [
        folder / "estimators" / f"{name}.py" for name in ("base", "corrected", "folds", "refit")
    ]
    files = sorted([*(folder / "core").glob("*.py"), *parts])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


@cache
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and true labels."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return np.asarray(X), np.asarray(y)
    path = Path(os.environ["ADACORR_DATA"]) / "tabular" / f"{name}.csv.gz"
    table = np.loadtxt(path, delimiter=",")
    return table[:, :-1], table[:, -1].astype(int)


def make(method: str, classifier: Any, seed: int) -> Any:
    """The model that a user of `method` would fit, with that method's own defaults."""
    if method == "plain":
        return clone(classifier)
    if method == OURS:
        return CorrectedClassifier(clone(classifier))
    from cleanlab.classification import CleanLearning

    return CleanLearning(clone(classifier), seed=seed)


def run_cell(dataset: str, noise_name: str, classifier: str, method: str, seed: int) -> dict:
    X, y = load(dataset)
    k = int(y.max()) + 1
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    given = y if noise_name == "none" else noise.inject(y, noise.parse(noise_name, k), rng=seed)
    model = make(method, CLASSIFIERS[classifier], seed)
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence and class-size warnings of all three
        model.fit(X, given)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    record = {
        "dataset": dataset,
        "noise": noise_name,
        "classifier": classifier,
        "method": method,
        "seed": seed,
        "test_accuracy": float(np.mean(model.predict(X_test) == y_test)),
        "label_accuracy_before": float(np.mean(given == y)),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
    }
    if method == OURS:
        record["code"] = code()
        record["label_accuracy_after"] = float(np.mean(model.corrected_labels_ == y))
    return record


KEY = ("dataset", "noise", "classifier", "method", "seed")


def read() -> list[dict]:
    if not RECORDS.is_file():
        return []
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def is_stale(record: dict) -> bool:
    return record["method"] == OURS and record.get("code") != code()


def forget_stale() -> None:
    kept = [record for record in read() if not is_stale(record)]
    with atomic(RECORDS) as temporary:
        temporary.write_text("".join(json.dumps(record) + "\n" for record in kept))


def run(methods: Sequence[str], seeds: Sequence[int]) -> None:
    """Run the cells that have no record yet, seed by seed."""
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    done = {tuple(record[k] for k in KEY) for record in read()}
    cells = [
        (dataset, noise_name, classifier, method, seed)
        for seed, dataset, noise_name, classifier, method in product(
            seeds, DATASETS, NOISES, CLASSIFIERS, methods
        )
        if (dataset, noise_name, classifier, method, seed) not in done
    ]
    for number, cell in enumerate(cells, 1):
        record = run_cell(*cell)
        with open(RECORDS, "a") as handle:
            handle.write(json.dumps(record) + "\n")
        score = f"{record['test_accuracy']:.4f}, {record['cpu_seconds']:.1f} s"
        print(f"{number}/{len(cells)} {' '.join(map(str, cell))}: {score}", flush=True)


def complete(records: list[dict]) -> list[dict]:
    """Only the comparisons that have all methods, so that means are over the same seeds."""
    methods = defaultdict(set)
    for r in records:
        methods[r["dataset"], r["noise"], r["classifier"], r["seed"]].add(r["method"])
    whole = {place for place, found in methods.items() if found >= set(METHODS)}
    return [r for r in records if (r["dataset"], r["noise"], r["classifier"], r["seed"]) in whole]


def means(records: list[dict]) -> dict[tuple[str, str, str], dict[str, float]]:
    """(classifier, dataset, noise) -> method -> mean test accuracy in percent over seeds."""
    found: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        found[r["classifier"], r["dataset"], r["noise"]][r["method"]].append(r["test_accuracy"])
    return {c: {m: 100 * mean(v) for m, v in by.items()} for c, by in found.items()}


def table(records: list[dict]) -> str:
    """The page, all of it computed from the records."""
    cells = means(records)
    seeds = Counter((r["classifier"], r["dataset"], r["noise"], r["method"]) for r in records)
    fewest, most = min(seeds.values()), max(seeds.values())
    lines = [
        "# Measured: test accuracy with noisy training labels",
        "",
        "Generated by `python benchmarks/estimators.py table` from the records in",
        "`results/estimators/`. Percent of clean test labels predicted right, mean over "
        f"{most if fewest == most else f'{fewest} to {most}'} seeds;",
        "all methods with their defaults. Bold: best in the row. With two classes (Spambase), pair",
        "noise is the same as uniform noise. Boosting has 20 iterations and 8 leaves, for time,",
        "and an L2 penalty of 0.1, without which it may diverge where nearly all labels are right.",
        "",
        *reservations(records),
        "",
    ]
    for classifier in CLASSIFIERS:
        lines += [f"## {classifier.capitalize()}", ""]
        lines += ["| data | noise | " + " | ".join(METHODS) + " |", "|---|---|" + "---:|" * 3]
        for dataset, noise_name in product(DATASETS, NOISES):
            row = cells.get((classifier, dataset, noise_name))
            if row is None:
                continue
            best = max(row.values())
            shown = [
                f"**{row[m]:.1f}**" if row[m] >= best - 1e-9 else f"{row[m]:.1f}" for m in METHODS
            ]
            lines.append(f"| {dataset} | {noise_name} | " + " | ".join(shown) + " |")
        lines.append("")
    import refit  # it stands on this file

    return "\n".join([*lines, *refit.section(), *goals(cells), ""])


def reservations(records: list[dict]) -> list[str]:
    """What speaks against the table: choices made on the same data, records of other code."""
    ours = [r for r in records if r["method"] == OURS]
    stale = sum(map(is_stale, ours))
    lines = [
        "Which rows the refit leaves out was chosen on other splits (seeds of 100 and above) of",
        "the same three data sets.",
    ]
    if not stale:
        return [*lines, f"All {len(ours)} records of `{OURS}` are those of this version's code."]
    return [
        *lines,
        f"Of the {len(ours)} records of `{OURS}`, {stale} were made by",
        "another version of the code and are to be made again.",
    ]


def goals(cells: dict[tuple[str, str, str], dict[str, float]]) -> list[str]:
    """The project's goals beside what the records say."""
    noisy = {c: r for c, r in cells.items() if c[2] != "none"}
    clean = {c: r for c, r in cells.items() if c[2] == "none"}
    worse = [c for c, r in noisy.items() if r[OURS] <= r["plain"]]
    harm = {c: r["plain"] - r[OURS] for c, r in clean.items()}
    average = {m: mean(r[m] for r in cells.values()) for m in METHODS}
    wins = sum(r[OURS] >= r["CleanLearning"] - 1e-9 for r in cells.values())
    return [
        "## Goals",
        "",
        f"- Better than plain from 10% noise on: in {len(noisy) - len(worse)} of {len(noisy)} rows"
        + (f"; not in {', '.join(' '.join(c) for c in worse)}." if worse else "."),
        "- Never worse than plain by more than 0.5 points on clean labels: largest loss "
        f"{max(harm.values()):.2f} points ({' '.join(max(harm, key=lambda c: harm[c]))}).",
        "- At least as good as CleanLearning on average: "
        f"{average[OURS]:.2f} beside {average['CleanLearning']:.2f} "
        f"(plain {average['plain']:.2f}); at least as good in {wins} of {len(cells)} rows.",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Accuracy of the estimators.")
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--fresh", action="store_true", help="first drop our records of other code")
    arguments = parser.parse_args()
    if arguments.action == "run":
        if arguments.fresh:
            forget_stale()
        run(arguments.methods, arguments.seeds)
    else:
        PAGE.write_text(table(complete([r for r in read() if r["seed"] in arguments.seeds])))
        print(PAGE)

"""What the final model should learn from: ways to refit after one and the same correction.

    python benchmarks/refit.py        # -> results/estimators/refit.jsonl, resumable

Seeds of 100 and above, which no other table of the estimators uses. The differences are on the page
that `benchmarks/estimators.py table` writes.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from itertools import product
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from adacorr import noise
from adacorr.core.answers import Answers
from adacorr.estimators.base import decide
from adacorr.estimators.folds import make_folds, out_of_fold
from adacorr.estimators.refit import trusted_rows
from estimators import CLASSIFIERS, RECORDS, load

REFITS = RECORDS.with_name("refit.jsonl")
SEEDS = tuple(range(100, 104))
NOISES = ("uniform:0.1", "uniform:0.2", "uniform:0.3", "uniform:0.4", "pair:0.2")
MODELS: dict[str, Any] = {
    **CLASSIFIERS,
    "random forest": RandomForestClassifier(60, random_state=0),
}
WAYS = {
    "plain": "every row, the given labels",
    "corrected": "every row, the corrected labels",
    "unchanged": "the rows that were not changed",
}
KEY = ("dataset", "noise", "classifier", "seed")


def run_cell(dataset: str, noise_name: str, classifier: str, seed: int) -> dict[str, Any]:
    """Test accuracy after each way, given one correction."""
    X, y = load(dataset)
    k = int(y.max()) + 1
    parts: Any = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    X, X_test, y, y_test = parts
    given = noise.inject(y, noise.parse(noise_name, k), rng=seed)
    model = MODELS[classifier]

    def accuracy(keep: NDArray[np.bool_], labels: NDArray[Any]) -> float:
        fitted: Any = clone(model)
        fitted.fit(X[keep], labels[keep])
        return float(np.mean(fitted.predict(X_test) == y_test))

    folds = make_folds(5, X, given, {})
    oof = out_of_fold(clone(model), X, given, np.arange(k), given=given, folds=folds, fit_params={})
    found, _ = decide(given, oof, "auto", None, Answers.of([], []))
    everything = np.ones(len(given), dtype=bool)
    record: dict[str, Any] = dict(zip(KEY, (dataset, noise_name, classifier, seed), strict=True))
    record |= {"changed": found.n_flipped, "plain": accuracy(everything, given)}
    if found.n_flipped:
        record["corrected"] = accuracy(everything, found.labels)
        record["unchanged"] = accuracy(~found.flipped, given)
        record["trusted"] = accuracy(trusted_rows(given, found), found.labels)
    return record


def read() -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in REFITS.read_text().splitlines()] if REFITS.is_file() else []
    )


def section() -> list[str]:
    """For the page: how far each other way falls behind, and where nothing was changed."""
    records = read()
    if not records:
        return []
    decided = [r for r in records if "trusted" in r]
    refused = [r for r in records if "trusted" not in r]
    trials = f"{len(decided)} times (three classifiers, seeds of 100 and above)"
    lines = [
        "## What the final model learns from",
        "",
        f"After one and the same correction, {trials}:",
        "how many points of test accuracy the refit on the trusted rows, as `CorrectedClassifier`",
        "does it, is ahead of other refits, mean and standard error. Made by",
        "`python benchmarks/refit.py`.",
        "",
        "| refit on | " + " | ".join(NOISES) + " | all |",
        "|---|" + "---:|" * (len(NOISES) + 1),
    ]
    for way, what in WAYS.items():
        cells = [[r for r in decided if r["noise"] == name] for name in NOISES] + [decided]
        lines.append(f"| {what} | " + " | ".join(_lead(part, way) for part in cells) + " |")
    where = Counter(f"{r['dataset']} with {r['classifier']} and {r['noise']}" for r in refused)
    return [
        *lines,
        "",
        f"In {len(refused)} further trials nothing was changed, as two readings of the labels",
        "fitted, and the classifier is the plain one: a tool that always leaves rows out gains",
        "where labels are noisy and loses where they are right. Answers (`verified=`) settle it.",
        "These trials:",
        f"{', '.join(f'{n} of {name}' for name, n in sorted(where.items())) or 'none'}.",
        "",
    ]


def _lead(records: list[dict[str, Any]], way: str) -> str:
    gains = [100 * (r["trusted"] - r[way]) for r in records]
    if len(gains) < 2:
        return ""
    return f"{mean(gains):+.2f} ± {stdev(gains) / len(gains) ** 0.5:.2f}"


def main() -> None:
    done = {tuple(record[k] for k in KEY) for record in read()}
    for seed, dataset, name, classifier in product(
        SEEDS, ("digits", "spambase", "optdigits"), NOISES, MODELS
    ):
        cell = (dataset, name, classifier, seed)
        if cell in done or (dataset == "spambase" and name.startswith("pair")):  # two classes
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = run_cell(*cell)
        with open(REFITS, "a") as handle:
            handle.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()

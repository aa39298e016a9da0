"""What a few answers are worth: right labels against the number of answers, and how limits hold.

    python benchmarks/answers.py predict --cache DIR   out-of-fold probabilities, once, resumable
    python benchmarks/answers.py run --cache DIR       -> results/answers/records.jsonl, resumable
    python benchmarks/answers.py docs                  -> docs/answers-results.md and its figure

Rows are asked in the order of ``adacorr.ask`` (seed = repetition), answered with the truth, and, in
a second set of repetitions, with 5% of the answers replaced by another class. Beside the rule of
``adacorr.correct(verified=...)`` stands the plainest one: the likelihood ratio with the delta of
the largest net gain on answers, none if the gain is within one standard error, all answers spent on
rows where the most probable class is not the given label.

The real sets are read from ADACORR_DATA/real; text is seen by TF-IDF and logistic regression.
The synthetic ones are cells of benchmarks/auto.py.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
import auto

from adacorr.core.answers import Answers
from adacorr.core.asking import Queue, is_disputed
from adacorr.core.auto import AutoRule
from adacorr.core.certify import Tally, certify
from adacorr.core.informed import Answered, InformedRule, inform
from adacorr.core.lrt import likelihood_ratio
from adacorr.core.sampling import sample_rows, sample_size
from adacorr.correction.arrays import correct, fit_rule

REAL = {
    "CIFAR-10N aggre, ResNet-18": "cifar10n-aggre-resnet18",
    "CIFAR-10N aggre, Swin-B": "cifar10n-aggre-swin",
    "CIFAR-10 synthetic, ResNet-18": "cifar10-synthetic-resnet18",
    "AG News, keyword rules": "agnews-weak",
    "IMDB, keyword rules": "imdb-weak",
}
MODELS = (
    ("digits", "logistic"),
    ("digits", "weak"),
    ("optdigits", "logistic"),
    ("spambase", "logistic"),
)
CELLS = {
    f"{dataset} / {classifier} / {noise}": auto.Cell(dataset, classifier, noise, 0)
    for dataset, classifier in MODELS
    for noise in auto.NOISES
}
SETS = (*REAL, *CELLS)
COUNTS = (0, 10, 20, 50, 100, 200)
WRONG = (0.0, 0.05)
REPETITIONS = 30
DELTAS = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99])
ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "answers" / "records.jsonl"
PAGE = ROOT / "docs" / "answers-results.md"
FIGURE = ROOT / "docs" / "images" / "answers.svg"

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """One set: what is given, what a model says, and what is true."""

    given: Codes
    pred_probs: NDArray[np.floating]
    truth: Codes

    @classmethod
    def load(cls, name: str, cache: Path) -> Problem:
        stem = REAL[name] if name in REAL else f"auto-{CELLS[name].name}"
        path = Path(os.environ["ADACORR_DATA"]) / "real" / f"{stem}.npz"
        with np.load(path if path.exists() else cache / f"{stem}.npz") as stored:
            given = stored["labels" if "labels" in stored else "given"]
            f, truth = stored["pred_probs"], stored["truth"]
        return cls(given.astype(np.int64), f, truth.astype(np.int64))


def predict(cache: Path) -> None:
    """Probabilities that are not in the data folder."""
    cache.mkdir(parents=True, exist_ok=True)
    for stem in (stem for stem in REAL.values() if stem.endswith("weak")):
        if not (cache / f"{stem}.npz").exists():
            predict_text(stem, cache)
            print(stem, flush=True)
    loaded: dict[str, Any] = {}
    for cell in CELLS.values():
        path = cache / f"auto-{cell.name}.npz"
        if not path.exists():
            X, truth = loaded.setdefault(cell.dataset, auto.load(cell.dataset))
            auto.predict(cell, X, truth, path)
            print(cell.name, flush=True)


def predict_text(stem: str, cache: Path) -> None:
    """Five-fold TF-IDF and logistic regression on the given labels."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    path = Path(os.environ["ADACORR_DATA"]) / "real" / f"{stem}.csv.gz"
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    names = sorted({row["truth"] for row in rows})
    given, truth = (np.array([names.index(row[c]) for row in rows]) for c in ("label", "truth"))
    model = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, min_df=2), LogisticRegression(max_iter=300)
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    texts = [row["text"] for row in rows]
    f = np.asarray(cross_val_predict(model, texts, given, cv=folds, method="predict_proba"))
    np.savez(cache / f"{stem}.npz", pred_probs=f.astype(np.float32), given=given, truth=truth)


# --- one set ----------------------------------------------------------------------------------


def run(name: str, cache: Path) -> list[dict[str, Any]]:
    """All repetitions on one set."""
    problem = Problem.load(name, cache)
    given, f, truth = problem.given, problem.pred_probs, problem.truth
    base = fit_rule(given, f)
    disputed = is_disputed(given, f)
    fixed = {"set": name, "rows": len(given), "given": float((given == truth).mean())}
    fixed |= {"model": float((f.argmax(axis=1) == truth).mean())}
    start = correct(given, f)
    records = [
        {**fixed, "answers": 0, "wrong": 0.0, "repetition": 0,
         "right": float((start.labels == truth).mean()),
         "plain": fixed["given"], "best_delta": best_delta(problem)}
    ]  # fmt: skip
    for repetition in range(REPETITIONS):
        queue = Queue.of(disputed, COUNTS[-1], seed=repetition)
        for wrong in WRONG:
            rng = np.random.default_rng([repetition, int(100 * wrong)])
            said = answered(truth, f.shape[1], wrong, rng)
            for count in COUNTS[1:]:
                rows = queue.next(count)
                one = measure(problem, base, disputed, rows, said, repetition)
                picked = Queue.of(disputed, count, seed=repetition).rows[0]
                one["plain"] = plain(problem, picked, said)
                records.append(
                    {**fixed, "answers": count, "wrong": wrong, "repetition": repetition, **one}
                )
    return records


def answered(truth: Codes, k: int, wrong: float, rng: np.random.Generator) -> Codes:
    """What a person would say of every row: the truth, or now and then another class."""
    other = (truth + rng.integers(1, k, len(truth))) % k
    return np.where(rng.random(len(truth)) < wrong, other, truth)


def measure(
    problem: Problem, base: Any, disputed: NDArray[np.bool_], rows: Codes, said: Codes, seed: int
) -> dict[str, Any]:
    """Labels and limits after these answers; the same as ``correct(..., verified=...)``."""
    given, f, truth = problem.given, problem.pred_probs, problem.truth
    answers = Answers.of(rows, said[rows])
    rule = base
    if isinstance(base, AutoRule):
        sample = sample_rows(len(given), sample_size(f.shape[1]))
        rule = inform(base, given[sample], f[sample], Answered.of(given, f, answers))
    decision = rule.decide(given, f)
    proposed = np.where(decision.flipped, decision.suggested, given)
    tally = Tally.of(given, proposed, disputed, answers, seed=seed)
    size = rule.family_size if isinstance(rule, InformedRule) else 1
    proved = certify(tally, family_size=size)
    final = answers.applied(proposed)
    changes = (proposed != given) & ~np.isin(np.arange(len(given)), rows)
    return {
        "right": float((final == truth).mean()),
        "changes": int(changes.sum()),
        "wrong_changes": float((proposed != truth)[changes].mean()) if changes.any() else None,
        "limit_changes": proved.wrong_changes,
        "limit_after": proved.wrong_after,
        "limit_before": proved.wrong_before,
    }


def plain(problem: Problem, rows: Codes, said: Codes) -> float:
    """Share of right labels after the plain rule; the answered rows have their label here too."""
    given, f, truth = problem.given, problem.pred_probs, problem.truth
    suggested, ratio = likelihood_ratio(given, f)
    gain = (suggested == said)[rows].astype(int) - (given == said)[rows]
    nets = [gain[ratio[rows] < delta].sum() for delta in DELTAS]
    best = int(np.argmax(nets))
    chosen = ratio[rows] < DELTAS[best]
    new = given.copy()
    if nets[best] > np.sqrt((gain[chosen] ** 2).sum()):
        new = np.where((ratio < DELTAS[best]) & (suggested != given), suggested, given)
    new[rows] = said[rows]
    return float((new == truth).mean())


def best_delta(problem: Problem) -> float:
    """Share of right labels with the best delta in hindsight."""
    suggested, ratio = likelihood_ratio(problem.given, problem.pred_probs)
    shares = [
        (np.where(ratio < delta, suggested, problem.given) == problem.truth).mean()
        for delta in DELTAS
    ]
    return float(max(*shares, (problem.given == problem.truth).mean()))


def run_all(names: list[str], cache: Path, records: Path) -> None:
    """Every set that has no record yet. Delete the records after a change of the rule."""
    records.parent.mkdir(parents=True, exist_ok=True)
    done = {record["set"] for record in read(records)}
    for name in names:
        if name not in done:
            found = run(name, cache)
            with records.open("a") as file:
                file.writelines(json.dumps(_short(record)) + "\n" for record in found)
            print(name, flush=True)


def _short(value: Any) -> Any:
    """Five digits are more than thirty repetitions tell."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_short(one) for one in value]
    return round(value, 5) if isinstance(value, float) else value


def read(records: Path) -> list[dict[str, Any]]:
    lines = records.read_text().splitlines() if records.exists() else []
    return [json.loads(line) for line in lines]


# --- the page ---------------------------------------------------------------------------------


def write_docs(records: list[dict[str, Any]]) -> None:
    """The page and its figure, from records alone."""
    PAGE.write_text(page(records))
    figure(records, FIGURE)


def page(records: list[dict[str, Any]]) -> str:
    names = [name for name in SETS if any(r["set"] == name for r in records)]
    missing = len(SETS) - len(names)
    at_50 = partial(pick, records, count=50, wrong=0.0)
    sets_at_50 = {name: at_50(name=name) for name in names}
    gains = {n: mean(rs, "right") - mean(rs, "plain") for n, rs in sets_at_50.items()}
    worse = [f"{n} ({100 * gain:.2f} points)" for n, gain in gains.items() if gain < -1e-9]
    ahead = np.mean(list(gains.values()))
    return TEXT.format(
        coverage=f" {missing} of {len(SETS)} sets have no records yet." if missing else "",
        real=table(records, [n for n in names if n in REAL], 0.0),
        cells=table(records, [n for n in names if n in CELLS], 0.0),
        wrong=table(records, names, 0.05),
        below="\n".join(_below(records, count) for count in COUNTS[1:]),
        limits="\n".join(_limits(records, count) for count in COUNTS[1:]),
        sets=len(names),
        worse="; ".join(worse) or "none",
        ahead=f"{100 * ahead:+.2f}",
    )


def pick(
    records: list[dict[str, Any]], *, count: int, wrong: float, name: str | None = None
) -> list[dict[str, Any]]:
    return [
        r
        for r in records
        if r["answers"] == count and r["wrong"] == wrong and name in (None, r["set"])
    ]


def mean(records: list[dict[str, Any]], field: str) -> float:
    return float(np.mean([r[field] for r in records]))


def table(records: list[dict[str, Any]], names: list[str], wrong: float) -> str:
    """A line per set: mean share of right labels (worst repetition), the plain rule at 50."""
    lines = ["| set | given | best delta | none | " + " | ".join(map(str, COUNTS[1:]))]
    lines[0] += " | plain, 50 |"
    lines.append("|---" * (len(COUNTS) + 4) + "|")
    for name in names:
        (start,) = pick(records, count=0, wrong=0.0, name=name)
        cells = [f"{100 * start[field]:.1f}" for field in ("given", "best_delta", "right")]
        found = [pick(records, count=count, wrong=wrong, name=name) for count in COUNTS[1:]]
        cells += [_mean_and_worst(repetitions, "right") for repetitions in found]
        cells.append(_mean_and_worst(pick(records, count=50, wrong=wrong, name=name), "plain"))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mean_and_worst(records: list[dict[str, Any]], field: str) -> str:
    return f"{100 * mean(records, field):.1f} ({100 * min(r[field] for r in records):.1f})"


def _below(records: list[dict[str, Any]], count: int) -> str:
    """Share of repetitions that end below the given labels, by more than a hundredth of a point."""
    shares = [
        np.mean([r[field] < r["given"] - 1e-4 for r in pick(records, count=count, wrong=wrong)])
        for wrong in WRONG
        for field in ("right", "plain")
    ]
    cells = [str(count), *(f"{share:.1%}" for share in shares)]
    return f"| {' | '.join(cells)} |"


def _limits(records: list[dict[str, Any]], count: int) -> str:
    """Mean limits beside the true shares, and how often a limit is below the truth."""
    found = pick(records, count=count, wrong=0.0)
    changed = [r for r in found if r["wrong_changes"] is not None]
    after = [r["limit_after"] < 1 - r["right"] - 1e-4 for r in found]
    changes = [r["limit_changes"] < r["wrong_changes"] - 1e-4 for r in changed]
    cells = [
        str(count),
        f"{100 * np.mean([1 - r['right'] for r in found]):.1f}%",
        f"{100 * mean(found, 'limit_after'):.1f}%",
        f"{100 * np.mean(after):.1f}%",
        f"{100 * mean(changed, 'wrong_changes'):.1f}%",
        f"{100 * mean(changed, 'limit_changes'):.1f}%",
        f"{100 * np.mean(changes):.1f}%",
    ]
    return f"| {' | '.join(cells)} |"


def figure(records: list[dict[str, Any]], path: Path) -> None:
    """Right labels against the number of answers, on the real sets."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "answers"
    names = [name for name in REAL if any(r["set"] == name for r in records)]
    fig, axes = plt.subplots(1, len(names), figsize=(2.6 * len(names), 2.6), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        (start,) = pick(records, count=0, wrong=0.0, name=name)
        for field, label, at_none in (
            ("right", "adacorr", "right"),
            ("plain", "plain delta", "given"),
        ):
            found = [pick(records, count=n, wrong=0.0, name=name) for n in COUNTS[1:]]
            shares = [start[at_none], *(mean(rs, field) for rs in found)]
            ax.plot(range(len(COUNTS)), 100 * np.array(shares), marker="o", ms=3, label=label)
        ax.axhline(100 * start["given"], color="gray", lw=0.8, ls=":", label="given")
        ax.axhline(100 * start["best_delta"], color="gray", lw=0.8, ls="--", label="best delta")
        ax.set_xticks(range(len(COUNTS)), map(str, COUNTS))
        ax.set_title(name.replace(", ", "\n"), fontsize=8)
        ax.tick_params(labelsize=7)
        ax.set_xlabel("answers", fontsize=8)
    axes[0][0].set_ylabel("right labels, %", fontsize=8)
    axes[0][-1].legend(fontsize=6)
    fig.tight_layout()
    fig.savefig(path, metadata={"Date": None})


TEXT = """# What a few answers are worth, measured

<!-- Generated by `python benchmarks/answers.py docs` from results/answers/records.jsonl. -->

Share of right labels in per cent against the number of answers, mean over thirty repetitions with
the worst one in brackets. Rows are asked in the order of `adacorr.ask`; "plain" is the likelihood
ratio with the delta that gains most on as many answers, all of them about rows where the model
disagrees with the label; "best delta" is chosen in hindsight with the truth. "none" is the
automatic rule without answers.{coverage}

![Right labels against the number of answers](images/answers.svg)

## Real wrong labels

{real}

At 50 answers, of {sets} sets the mean is below the plain rule's on {worse}; over all sets it is
{ahead} points against it. Rows with an answer have their label under either rule.

## Synthetic noise

{cells}

## 5% of the answers wrong

{wrong}

## Ending below the given labels

Share of repetitions, over all sets, that end more than 0.01 points below the labels as given. A
wrong answer is itself a wrong label, as a verified row keeps its answer: on labels that are all
right nothing else is left to lose.

| answers | right answers | plain | 5% wrong | plain, 5% wrong |
|---|---|---|---|---|
{below}

## The limits

Means over all sets and repetitions. A limit is stated with 95% confidence for all moments at once,
and for the worst case, so at a given moment fewer than 5% should be below the truth.

| answers | wrong after | limit | limit too low | wrong changes | limit | limit too low |
|---|---|---|---|---|---|---|
{limits}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["predict", "run", "docs"])
    parser.add_argument("--cache", type=Path, default=Path("answers-cache"))
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    if options.command == "predict":
        predict(options.cache)
    elif options.command == "run":
        run_all(options.sets, options.cache, options.records)
    else:
        write_docs(read(options.records))


if __name__ == "__main__":
    main()

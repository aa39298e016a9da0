"""``adacorr clean`` beside cleanlab on the same features, on sets whose truth is known.

    python benchmarks/clean.py                 # every set, one process each; an hour on one core
    python benchmarks/clean.py imdb digits     # some of them
    python benchmarks/clean.py --docs          # the table of docs/clean.md from the records

Needs the data folder ($ADACORR_DATA) and the extras images and dev. The truth is used to score and,
where answers are simulated, to answer; nothing is chosen by it. Each record holds the share of
right labels before and after, the average precision with which wrong labels are ranked first, the
CPU seconds of each step on one thread, and the peak memory of the process. Sets with the same
samples share their features, which are encoded once; with $ADACORR_CLEAN_WORK they and what the
models say stay in that folder for the next time.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import adacorr
from adacorr.cleaning.clean import Predicted, decide, encoder_for, predict_rows
from adacorr.cleaning.features import Features, make_features
from adacorr.cleaning.folds import Folds
from adacorr.cleaning.issues import find_nearness
from adacorr.cleaning.samples import Columns, Samples, digests, given_samples, open_samples
from adacorr.core.answers import Answers

RECORDS = Path(__file__).parents[1] / "results" / "clean" / "records.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "clean.md"
DATA = Path(os.environ.get("ADACORR_DATA", "data"))
RATE = 0.15
FIT_ROWS = 6000
"""`adacorr fit` trains on no more here: six networks from scratch take an hour beyond."""
ANSWERS = 50
WORK = Path(os.environ.get("ADACORR_CLEAN_WORK") or tempfile.mkdtemp())
REPEATS = 10  # of the simulated answers


@dataclass(frozen=True)
class Case:
    """Samples with the labels to judge, and the truth."""

    samples: Samples
    truth: NDArray[np.int64]


def table(path: str, label: str | None = None) -> Case:
    samples = open_samples(DATA / path, Columns(label_column=label))
    return Case(samples, samples.labels if samples.truth is None else samples.truth)


def pictures(images: Any, given: NDArray[Any], truth: NDArray[Any]) -> Case:
    return Case(given_samples(images, given.astype(int), Columns()), truth.astype(np.int64))


def noisy(case: Case) -> Case:
    """15% wrong at random, to any other class."""
    T = adacorr.noise.uniform(len(case.samples.class_names), RATE)
    given = adacorr.noise.inject(case.truth, T, rng=0)
    return Case(replace(case.samples, labels=given), case.truth)


def clean_version(case: Case) -> Case:
    return Case(replace(case.samples, labels=case.truth), case.truth)


def cifar(column: str) -> Case:
    import pyarrow.parquet as pq

    column_of = pq.read_table(DATA / "cifar10" / "train-00000.parquet")["img"].to_pylist()
    people = np.load(DATA / "cifar10n" / "cifar10n_train.npz")
    n = len(column_of)
    images = [cell["bytes"] for cell in column_of]
    return pictures(images, people[column][:n], people["clean_label"][:n])


def fashion(n: int) -> Case:
    from adacorr.data import load

    data = load("fashion_mnist").train
    return noisy(pictures(np.asarray(data.features[:n]), data.labels[:n], data.labels[:n]))


def digits() -> Case:
    samples = open_samples("digits")
    return Case(samples, samples.labels)


CASES: dict[str, Callable[[], Case]] = {
    "agnews": lambda: table("real/agnews-weak.csv.gz"),
    "imdb": lambda: table("real/imdb-weak.csv.gz"),
    "cifar10n-aggre": lambda: cifar("aggre_label"),
    "cifar10n-random1": lambda: cifar("random_label1"),
    "fashion-600": lambda: fashion(600),
    "fashion-6000": lambda: fashion(6000),
    "spambase": lambda: noisy(table("tabular/spambase.csv.gz", "-1")),
    "optdigits": lambda: noisy(table("tabular/optdigits.csv.gz", "-1")),
    "digits": lambda: noisy(digits()),
    "agnews-clean": lambda: clean_version(table("real/agnews-weak.csv.gz")),
    "imdb-clean": lambda: clean_version(table("real/imdb-weak.csv.gz")),
    "cifar10-clean": lambda: clean_version(cifar("aggre_label")),
    "fashion-600-clean": lambda: clean_version(fashion(600)),
    "fashion-6000-clean": lambda: clean_version(fashion(6000)),
    "spambase-clean": lambda: table("tabular/spambase.csv.gz", "-1"),
    "optdigits-clean": lambda: table("tabular/optdigits.csv.gz", "-1"),
    "digits-clean": digits,
}


# -- one set ---------------------------------------------------------------------------------------


def run(name: str) -> None:
    """Ours first, then cleanlab, so that the memory is ours; a record for each."""
    case = CASES[name]()
    features, encoding = encoded(case.samples)
    warm_up()
    write(name, "adacorr clean", ours(name, case, features, encoding))
    write(name, "cleanlab CleanLearning", clean_learning(case, features, encoding))
    write(name, "cleanlab Datalab", datalab(case, features, encoding))
    x = raw(case.samples)
    if x is not None and len(x) <= FIT_ROWS:
        write(name, "adacorr fit", network(case, x))


def warm_up() -> None:
    """What a process does once, imports above all, is no time of a set."""
    values = np.random.default_rng(0).standard_normal((200, 4))
    adacorr.clean(values, (values[:, 0] > 0).astype(int))


def encoded(samples: Samples) -> tuple[Features, float]:
    """The features and the CPU seconds that they took, here or for an earlier set."""
    began = time.process_time()
    contents = digests(samples)
    folder = WORK / hashlib.sha256(contents.tobytes()).hexdigest()[:16]
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    features = make_features(samples, contents, encoder_for(samples.kind, None), folder)
    note = folder / "seconds.json"
    if not note.exists():
        note.write_text(json.dumps(time.process_time() - began))
    return features, json.loads(note.read_text())


def ours(name: str, case: Case, features: Features, encoding: float) -> dict[str, Any]:
    predicted, spent = models_say(name, case, features)
    began = time.process_time()
    found = decide(case.samples, features, predicted)
    deciding = time.process_time() - began
    alone = encoding + spent["models"]
    whole = alone + spent["neighbours"] + deciding
    return {
        **scores(case, case.samples.codec.encode(found.labels), found.suspicion),
        **with_answers(case, found),
        "seconds": round(whole, 1),
        "times_features_and_models": round(whole / alone, 2),
        "seconds_neighbours": round(spent["neighbours"], 1),
        "peak_mb": max(spent["peak_mb"], peak_mb()),
        "stated_noise_rate": found.correction.noise_rate,
    }


def models_say(name: str, case: Case, features: Features) -> tuple[Predicted, dict[str, float]]:
    """What the rule is given, and what it took; kept, so that another rule is quick to try."""
    path = WORK / f"{name}.pickle"
    if path.exists():  # of this script's own making
        return pickle.loads(path.read_bytes())
    began = time.process_time()
    find_nearness(features, exact_only=case.samples.kind == "values")
    between = time.process_time()
    predicted = predict_rows(case.samples, features, Folds())
    neighbours = between - began
    models = time.process_time() - between - neighbours
    kept = predicted, {"neighbours": neighbours, "models": models, "peak_mb": peak_mb()}
    path.write_bytes(pickle.dumps(kept))
    return kept


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def with_answers(case: Case, found: Any) -> dict[str, Any]:
    """The share of right labels after 50 answers by the truth, mean and worst of ten draws."""
    from adacorr.cleaning.clean import corrected

    readable, labels = ~found.issues.unreadable, case.samples.labels
    right = []
    for seed in range(REPEATS):
        rows = adacorr.ask(labels, found.pred_probs, n=ANSWERS, rng=seed)
        answers = Answers.of(rows, case.truth[rows])
        new = corrected(labels, found.pred_probs, readable, answers).labels
        right.append(float((new == case.truth).mean()))
    return {"after_50": round(float(np.mean(right)), 4), "after_50_worst": round(min(right), 4)}


def scores(case: Case, new: NDArray[np.int64], doubt: NDArray[np.float64]) -> dict[str, Any]:
    from sklearn.metrics import average_precision_score

    wrong = case.samples.labels != case.truth
    return {
        "rows": len(wrong),
        "classes": len(case.samples.class_names),
        "given": round(float(1 - wrong.mean()), 4),
        "after": round(float((new == case.truth).mean()), 4),
        "changed": int((new != case.samples.labels).sum()),
        "ranking": round(float(average_precision_score(wrong, doubt)), 4) if wrong.any() else None,
    }


def clean_learning(case: Case, features: Features, encoding: float) -> dict[str, Any]:
    """Its default: five folds of a logistic regression, issues replaced by its predictions."""
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    every = np.arange(len(case.truth))
    x = features.views(every)["sparse" if features.sparse is not None else "dense"]
    began = time.process_time()
    learner = CleanLearning(LogisticRegression(max_iter=300), seed=0)
    found = learner.find_label_issues(x, case.samples.labels)
    new = np.where(found["is_label_issue"], found["predicted_label"], case.samples.labels)
    seconds = encoding + time.process_time() - began
    return {
        **scores(case, new, 1 - found["label_quality"].to_numpy()),
        "seconds": round(seconds, 1),
    }


def datalab(case: Case, features: Features, encoding: float) -> dict[str, Any]:
    """From features alone: its nearest neighbours judge the labels."""
    from cleanlab import Datalab

    began = time.process_time()
    lab = Datalab({"y": case.samples.labels}, label_name="y", verbosity=0)
    x = np.asarray(features.reduced, np.float64)
    lab.find_issues(features=x, issue_types={"label": {}})
    try:
        found = lab.get_issues("label")
    except ValueError:  # it gave up on this set, and said why on stderr
        return {"failed": True}
    new = np.where(found["is_label_issue"], found["predicted_label"], case.samples.labels)
    seconds = encoding + time.process_time() - began
    doubt = 1 - found["label_score"].to_numpy()
    return {**scores(case, new, doubt), "seconds": round(seconds, 1)}


def raw(samples: Samples) -> NDArray[Any] | None:
    """What `adacorr fit` would train on; None for texts, and for images that lie in files."""
    if samples.kind == "values":
        columns = [np.asarray(column, np.float32) for column in samples.content.columns]
        return np.stack(columns, axis=1)
    return samples.content if isinstance(samples.content, np.ndarray) else None


def network(case: Case, x: NDArray[Any]) -> dict[str, Any]:
    """The labels that `adacorr fit` hands out: its nets' held-out predictions, and the rule."""
    import torch

    from adacorr.train.crossfit import out_of_fold as held_out
    from adacorr.train.engine import Silent
    from adacorr.train.fitting import make_job, net_factory, read_labels
    from adacorr.train.handout import hand_out
    from adacorr.train.ranks import Ranks
    from adacorr.train.settings import Settings, default_epochs

    torch.set_num_threads(1)
    began = time.process_time()
    settings, ranks = Settings(), Ranks()
    job = make_job(x, read_labels(x, case.samples.labels, None), 0.1, settings, ranks.device)
    settings = replace(settings, epochs=default_epochs(len(job.train)))
    f = held_out(job, net_factory(None, job.feed.source.shape), settings, ranks, Silent())
    found = hand_out(case.samples.labels, f).correction
    assert found.suspicion is not None  # the automatic rule states it for every row
    doubt = np.nan_to_num(found.suspicion)
    seconds = time.process_time() - began
    return {**scores(case, found.labels, doubt), "seconds": round(seconds, 1)}


def write(name: str, method: str, record: dict[str, Any]) -> None:
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    line = {"set": name, "method": method, "version": adacorr.__version__, **record}
    with open(RECORDS, "a", encoding="utf-8") as handle:
        handle.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


# -- the table -------------------------------------------------------------------------------------

METHODS = ("adacorr clean", "cleanlab CleanLearning", "cleanlab Datalab", "adacorr fit")
NAMES = ("clean", "CleanLearning", "Datalab", "fit")
BEHIND, LOST, SLOWER = 0.02, 0.002, 1.5  # the goals

Record = dict[str, Any]


def docs() -> None:
    """Write what stands between the marks of docs/clean.md, from the last record of each cell."""
    last: dict[tuple[str, str], Record] = {}
    for line in RECORDS.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        last[record["set"], record["method"]] = record
    found = {
        name: [last.get((name, method), {}) for method in METHODS]
        for name in CASES
        if (name, METHODS[0]) in last
    }
    lines = [*labels_table(found), "", *ranking_table(found), "", *time_table(found)]
    page = PAGE.read_text(encoding="utf-8")
    for mark, text in (("records", lines), ("goals", goals(found))):
        begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
        before, rest = page.split(begin)
        page = before + begin + "\n".join([*text, ""]) + end + rest.split(end)[1]
    PAGE.write_text(page, encoding="utf-8")


def labels_table(found: dict[str, list[Record]]) -> list[str]:
    head = ["right labels, %", "given", "clean", "with 50 answers", "worst draw", *NAMES[1:]]
    rows = []
    for name, (own, *others) in found.items():
        values = [own["given"], own["after"], own["after_50"], own["after_50_worst"]]
        values += [other.get("after") for other in others]
        rows.append([name, *("" if v is None else f"{100 * v:.1f}" for v in values)])
    return table_of(head, rows)


def ranking_table(found: dict[str, list[Record]]) -> list[str]:
    rows = []
    for name, records in found.items():
        values = [record.get("ranking") for record in records]
        if values[0] is not None:
            rows.append([name, *("" if v is None else f"{v:.3f}" for v in values)])
    return table_of(["average precision", *NAMES], rows)


def time_table(found: dict[str, list[Record]]) -> list[str]:
    head = ["CPU seconds", "rows", *NAMES, "clean / features and models", "peak MB of clean"]
    rows = []
    for name, records in found.items():
        own = records[0]
        seconds = (f"{r['seconds']:,.0f}" if "seconds" in r else "" for r in records)
        ratio = f"{own['times_features_and_models']:.2f}"
        rows.append([name, f"{own['rows']:,}", *seconds, ratio, f"{own['peak_mb']:,}"])
    return table_of(head, rows)


def table_of(head: list[str], rows: list[list[str]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(row)} |" for row in cells]


def goals(found: dict[str, list[Record]]) -> list[str]:
    """Each goal with the sets on which it is missed."""
    leads = {
        name: own["ranking"] - max(r.get("ranking") or 0 for r in others)
        for name, (own, *others) in with_cleanlab(found, "ranking").items()
    }
    mean, least = float(np.mean([*leads.values()])), min(leads, key=lambda name: leads[name])
    both = {
        name: (own, max(r.get("after", 0) for r in others))
        for name, (own, *others) in with_cleanlab(found, "after").items()
    }
    gains = {name: own["after_50"] - other for name, (own, other) in both.items()}
    unlucky = [name for name, (own, other) in both.items() if own["after_50_worst"] <= other]
    lost = {
        name: own["given"] - min(own["after"], own["after_50"]) for name, (own, *_) in found.items()
    }
    slow = {name: own["times_features_and_models"] for name, (own, *_) in found.items()}
    behind = {n: lead for n, lead in leads.items() if lead < -BEHIND or mean <= 0}
    return [
        f"- Ranking beside the better of cleanlab's two: ahead by {mean:.3f} on average, "
        f"least on {least} ({leads[least]:+.3f}). {verdict(leads, behind, '+.3f')}",
        f"- With 50 answers ahead of both in right labels, as the mean of ten draws. "
        f"{verdict(gains, {n: 100 * g for n, g in gains.items() if g <= 0}, '+.1f')} "
        f"The worst draw is not ahead on: {', '.join(unlucky) or 'none'}.",
        f"- Never below the given labels by more than {100 * LOST:.1f} points, with no "
        f"answers or 50. {verdict(lost, {n: 100 * v for n, v in lost.items() if v > LOST}, '.1f')}",
        f"- At most {SLOWER} times the CPU time of the features and models alone. "
        f"{verdict(slow, {n: v for n, v in slow.items() if v > SLOWER}, '.2f')}",
        f"- Not run: {', '.join(sorted(set(CASES) - set(found))) or 'none of the sets'}.",
    ]


def with_cleanlab(found: dict[str, list[Record]], key: str) -> dict[str, list[Record]]:
    """The sets where both sides have this figure: ours, CleanLearning and Datalab."""
    return {
        name: records[:3]
        for name, records in found.items()
        if records[0].get(key) is not None and any(r.get(key) is not None for r in records[1:3])
    }


def verdict(of: dict[str, float], missed: dict[str, float], form: str) -> str:
    if not missed:
        return f"Holds on all {len(of)} sets."
    names = ", ".join(f"{name} ({value:{form}})" for name, value in missed.items())
    return f"**Missed on {len(missed)} of {len(of)} sets**: {names}."


def main() -> None:
    wanted = sys.argv[1:]
    if wanted == ["--docs"]:
        docs()
    elif len(wanted) == 1:
        run(wanted[0])
    else:
        alone = {"OMP_NUM_THREADS": "1", "ADACORR_CLEAN_WORK": str(WORK)}
        try:
            for name in wanted or CASES:
                subprocess.run(
                    [sys.executable, __file__, name], check=True, env={**os.environ, **alone}
                )
        finally:
            if "ADACORR_CLEAN_WORK" not in os.environ:
                shutil.rmtree(WORK)


if __name__ == "__main__":
    main()

"""Measure the automatic rule on labels that people and rules got wrong: sets x models -> a table.

    python benchmarks/real.py predict --cache DIR     out-of-fold probabilities, once, resumable
    python benchmarks/real.py run --cache DIR         apply the rules -> results/real/records.jsonl
    python benchmarks/real.py table                   records -> docs/real-labels.md

Needs ADACORR_DATA, a folder with real/, cifar10/, cifar10n/ and tabular/. The truth is used here to
score, never inside a rule. `run` measures every set anew: records belong to the code that wrote
them.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.correction.arrays import correct

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "real" / "records.jsonl"
DOCS = ROOT / "docs" / "real-labels.md"
DELTAS = (0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
IMAGES = 10_000
WIDE = 0.2  # an interval this wide says little

# The rule that this one replaced, on the same labels (texts: another setting of TF-IDF): share of
# right labels, stated noise rate. Measured once with its last version and kept: its code is gone.
FORMER = {
    "CIFAR-10N aggre, resnet18": (0.910, 0.015),
    "CIFAR-10N aggre, swin-b": (0.910, 0.003),
    "synthetic by class, resnet18": (0.985, 0.181),
    "AG News, keyword rules": (0.841, 0.0),
    "IMDB, keyword rules": (0.741, 0.0),
}

Stored = tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Set:
    """Labels, a model's out-of-fold probabilities of them, and the truth."""

    name: str
    make: Callable[[], Stored]
    human: bool = False

    @property
    def file(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.name.lower()) + ".npz"


def root() -> Path:
    return Path(os.environ["ADACORR_DATA"])


def given(file: str, clean: bool = False) -> Stored:
    """Probabilities that come with the labels; clean: of the truth under the same model."""
    with np.load(root() / "real" / file) as z:
        f, labels, truth = z["pred_probs"], z["labels"], z["truth"]
    return f, truth if clean else labels, truth


def two_networks() -> Stored:
    """The mean of both networks of the human labels."""
    first, second = (given(f"cifar10n-aggre-{name}.npz") for name in ("resnet18", "swin"))
    return (first[0] + second[0]) / 2, first[1], first[2]


def out_of_fold(model: Any, X: Any, labels: NDArray[np.int64]) -> NDArray[np.float32]:
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    f = cross_val_predict(model, X, labels, cv=folds, method="predict_proba")
    return np.asarray(f, np.float32)


def texts(file: str, clean: bool = False) -> Stored:
    """TF-IDF and logistic regression, which can learn keyword rules as well as topics."""
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    frame = pd.read_csv(root() / "real" / file)
    words = [str(text) for text in frame["text"].tolist()]
    names = sorted(set(frame["truth"].tolist()))
    code = {name: i for i, name in enumerate(names)}
    X = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(words)
    truth = np.array([code[name] for name in frame["truth"].tolist()])
    labels = truth if clean else np.array([code[name] for name in frame["label"].tolist()])
    return out_of_fold(LogisticRegression(C=10, max_iter=500), X, labels), labels, truth


def image_bytes() -> list[bytes]:
    import pyarrow.parquet as pq

    table = pq.read_table(root() / "cifar10" / "train-00000.parquet", columns=["img"])
    return [image["bytes"] for image in table["img"].to_pylist()][:IMAGES]


def human_labels(kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    with np.load(root() / "cifar10n" / "cifar10n_train.npz") as z:
        truth = z["clean_label"][:IMAGES].astype(np.int64)
        return (truth if kind == "clean" else z[kind][:IMAGES].astype(np.int64)), truth


def encoder_probe(kind: str, cache: Path) -> Stored:
    """Logistic regression on 200 components of a small pretrained encoder."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    path = cache / "cifar10-encoder.npy"
    if not path.exists():
        from adacorr.cleaning.encoders.images import image_encoder

        np.save(path, image_encoder(None).encode(image_bytes()).dense)
    X = PCA(200, random_state=0).fit_transform(StandardScaler().fit_transform(np.load(path)))
    labels, truth = human_labels(kind)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.003, max_iter=200))
    return out_of_fold(model, X, labels), labels, truth


def pixel_probe(kind: str) -> Stored:
    """Logistic regression on random cosine features of small images: weak on purpose."""
    import io

    from PIL import Image
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    small = [Image.open(io.BytesIO(b)).convert("RGB").resize((16, 16)) for b in image_bytes()]
    pixels = np.stack([np.asarray(image) for image in small]).reshape(len(small), -1) / 255.0
    parts = PCA(60, random_state=0).fit_transform(pixels - pixels.mean(axis=0))
    waves = np.random.default_rng(0).normal(size=(60, 800)) * 0.12
    phase = np.random.default_rng(1).uniform(0, 6.28, 800)
    X = np.cos(StandardScaler().fit_transform(parts) @ waves + phase)
    labels, truth = human_labels(kind)
    return out_of_fold(LogisticRegression(C=1, max_iter=200), X, labels), labels, truth


def few_words(count: int) -> Stored:
    """Clean Spambase labels under a model that sees `count` words, or all (0)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = np.loadtxt(root() / "tabular" / "spambase.csv.gz", delimiter=",")
    X, truth = table[:, :-1], table[:, -1].astype(np.int64)
    X = X[:, [6, 15, 22][:count]] if count else X
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    return out_of_fold(model, X, truth), truth, truth


def few_pixels() -> Stored:
    """Clean digits under a model that sees four of 64 pixels."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, target = load_digits(return_X_y=True)
    X, truth = np.asarray(X)[:, [20, 28, 36, 43]] / 16, np.asarray(target, np.int64)
    return out_of_fold(LogisticRegression(max_iter=2000), X, truth), truth, truth


def sets(cache: Path) -> list[Set]:
    """Wrong labels first, then right ones: there the best that a rule can do is nothing."""
    resnet, swin = "cifar10n-aggre-resnet18.npz", "cifar10n-aggre-swin.npz"
    synthetic = "cifar10-synthetic-resnet18.npz"
    probes = [
        Set(f"CIFAR-10N {name}, {model}", partial(make, kind), True)
        for model, make in (
            ("encoder and linear probe", partial(encoder_probe, cache=cache)),
            ("random features", pixel_probe),
        )
        for name, kind in (("aggre", "aggre_label"), ("random1", "random_label1"))
    ]
    return [
        Set("CIFAR-10N aggre, resnet18", partial(given, resnet), True),
        Set("CIFAR-10N aggre, swin-b", partial(given, swin), True),
        Set("CIFAR-10N aggre, both networks", two_networks, True),
        *probes,
        Set("synthetic by class, resnet18", partial(given, synthetic)),
        Set("AG News, keyword rules", partial(texts, "agnews-weak.csv.gz"), True),
        Set("IMDB, keyword rules", partial(texts, "imdb-weak.csv.gz"), True),
        Set("clean CIFAR-10, resnet18", partial(given, resnet, True)),
        Set("clean CIFAR-10, swin-b", partial(given, swin, True)),
        Set("clean CIFAR-10, encoder and linear probe", partial(encoder_probe, "clean", cache)),
        Set("clean CIFAR-10, random features", partial(pixel_probe, "clean")),
        Set("clean AG News", partial(texts, "agnews-weak.csv.gz", True)),
        Set("clean IMDB", partial(texts, "imdb-weak.csv.gz", True)),
        *(
            Set(f"clean Spambase, {n} word{'s' * (n > 1)}", partial(few_words, n))
            for n in (1, 2, 3)
        ),
        Set("clean Spambase, all words", partial(few_words, 0)),
        Set("clean digits, 4 pixels", few_pixels),
    ]


def predict_all(chosen: Sequence[Set], cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    for one in chosen:
        path = cache / one.file
        if not path.exists():
            f, labels, truth = one.make()
            part = path.with_suffix(".part.npz")
            np.savez(part, pred_probs=f, given=labels, truth=truth)
            part.replace(path)
            print(one.name, flush=True)


def cleanlab_filter(labels: NDArray[np.int64], f: NDArray[np.floating]) -> NDArray[np.int64]:
    """What users of cleanlab do: the rows that it flags get the model's first choice."""
    from cleanlab.filter import find_label_issues

    flagged = np.asarray(find_label_issues(labels, f))
    return np.where(flagged, f.argmax(axis=1), labels)


def average_precision(
    wrong: NDArray[np.bool_], labels: NDArray[np.int64], f: NDArray[np.floating], doubt: Any
) -> dict[str, float]:
    """Of the ranking by suspicion, and of cleanlab's three scores; nothing without wrong labels."""
    from cleanlab.rank import get_label_quality_scores
    from sklearn.metrics import average_precision_score

    if not wrong.any():
        return {}
    found = {"auto": float(average_precision_score(wrong, doubt))}
    for score in SCORES:
        quality = get_label_quality_scores(labels, f, method=score)
        found[score] = float(average_precision_score(wrong, -quality))
    return found


def measure(one: Set, path: Path) -> dict[str, Any]:
    with np.load(path) as stored:
        f, labels, truth = stored["pred_probs"], stored["given"], stored["truth"]
    result = correct(labels, f)
    wrong = labels != truth
    return {
        "set": one.name,
        "human": one.human,
        "rows": len(truth),
        "classes": f.shape[1],
        "given": float((~wrong).mean()),
        "model": float((f.argmax(axis=1) == truth).mean()),
        "auto": float((result.labels == truth).mean()),
        "fixed": {str(d): float((correct(labels, f, d).labels == truth).mean()) for d in DELTAS},
        "cleanlab": float((cleanlab_filter(labels, f) == truth).mean()),
        "changes": result.n_flipped,
        "wrong_changes": int((result.flipped & (result.labels != truth)).sum()),
        "stated_wrong_changes": result.expected_wrong_flips,
        "noise_rate": result.noise_rate,
        "interval": list(result.noise_rate_interval or ()),
        "average_precision": average_precision(wrong, labels, f, result.suspicion),
        "note": result.note,
        "warnings": list(result.warnings),
    }


def measure_people(model: str) -> dict[str, Any]:
    """Two columns of human labels: the majority of three people, and one of the three.

    The files number some stretches of rows differently; blocks of 100 rows in which they agree
    about the truth and the labels are kept, whether or not the labels are right.
    """
    f, labels, truth = given(f"cifar10n-aggre-{model}.npz")
    with np.load(root() / "cifar10n" / "cifar10n_train.npz") as z:
        clean, aggre = z["clean_label"], z["aggre_label"]
        people = np.stack([aggre, z["random_label1"]], axis=1).astype(np.int64)
    same = (clean == truth) & (aggre == labels)
    rows = np.flatnonzero(same & np.repeat(same.reshape(-1, 100).mean(axis=1) >= 0.99, 100))
    result = correct(people[rows], f[rows])
    alone = correct(people[rows, 0], f[rows])
    return {
        "people": True,
        "set": f"CIFAR-10N aggre and random1, {model}",
        "rows": len(rows),
        "true_quality": (people[rows] == truth[rows, None]).mean(axis=0).tolist(),
        "quality": [person.quality for person in result.annotators],
        "consensus": float((result.labels == truth[rows]).mean()),
        "aggre_alone": float((alone.labels == truth[rows]).mean()),
        "warned": bool(result.warnings),
    }


Record = dict[str, Any]


def holds(r: Record) -> bool:
    low, high = r["interval"]
    return low <= 1 - r["given"] <= high


def best_score(r: Record) -> float:
    return max(value for name, value in r["average_precision"].items() if name != "auto")


def settled(r: Record) -> bool:
    """Better than given, or both readings named with an interval that holds the truth."""
    return r["auto"] > r["given"] or ("two readings" in r["note"] and holds(r))


def named(*names: str) -> Callable[[Record], bool]:
    return lambda r: r["set"] in names


TARGETS: tuple[tuple[str, Callable[[Record], bool], Callable[[Record], bool]], ...] = (
    (
        "never more than 0.2 points below the given labels",
        lambda _: True,
        lambda r: r["auto"] >= r["given"] - 0.002,
    ),
    (
        "the interval of the noise rate holds the truth",
        lambda _: True,
        holds,
    ),
    (
        "aggre, resnet18: at least 94.5% right",
        named("CIFAR-10N aggre, resnet18"),
        lambda r: r["auto"] >= 0.945,
    ),
    (
        "aggre, swin-b: at least 97.0% right",
        named("CIFAR-10N aggre, swin-b"),
        lambda r: r["auto"] >= 0.97,
    ),
    (
        "AG News, IMDB: better than given, or two readings named and an interval that holds",
        named("AG News, keyword rules", "IMDB, keyword rules"),
        settled,
    ),
    (
        "ranked at least as well as by the best of cleanlab's three scores",
        lambda r: bool(r["average_precision"]),
        lambda r: r["average_precision"]["auto"] >= best_score(r),
    ),
    (
        "stated wrong changes within a factor of two of the true ones (or within 1)",
        lambda r: r["changes"] > 0 and r["stated_wrong_changes"] is not None,
        lambda r: (
            r["wrong_changes"] / 2 <= r["stated_wrong_changes"] <= 2 * r["wrong_changes"]
            or abs(r["stated_wrong_changes"] - r["wrong_changes"]) <= 1
        ),
    ),
)


def table(records: list[Record]) -> str:
    """The documentation page, from records alone."""
    people = [r for r in records if "people" in r]
    records = [r for r in records if "people" not in r]
    targets = ["| target | sets where it holds | of | not on |", "|---|---|---|---|"]
    for text, applies, good in TARGETS:
        tried = [r for r in records if applies(r)]
        missed = [r["set"] for r in tried if not good(r)]
        counts = f"{len(tried) - len(missed)} | {len(tried)}"
        targets.append(f"| {text} | {counts} | {'; '.join(missed) or '-'} |")
    held = [r for r in records if holds(r)]
    wide = [r for r in held if r["interval"][1] - r["interval"][0] > WIDE]
    return PAGE.format(
        held=len(held),
        wide=len(wide),
        limit=100 * WIDE,
        targets="\n".join(targets),
        labels="\n".join(map(_labels_row, records)),
        numbers="\n".join(map(_numbers_row, records)),
        ranking="\n".join(_ranking_row(r) for r in records if r["average_precision"]),
        people="\n".join(map(_people_row, people)),
        deltas=", ".join(map(str, DELTAS)),
        count=len(records),
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _labels_row(r: Record) -> str:
    former = FORMER.get(r["set"], (None, None))[0]
    cells = [r["given"], r["model"], r["auto"], former, r["fixed"]["0.9"]]
    cells += [max(r["fixed"].values()), r["cleanlab"]]
    size = f"{r['rows']:,} x {r['classes']}"
    return f"| {r['set']} | {size} | {' | '.join(map(_percent, cells))} | {r['changes']:,} |"


def _numbers_row(r: Record) -> str:
    stated = r["stated_wrong_changes"]
    low, high = r["interval"]
    former = FORMER.get(r["set"], (None, None))[1]
    cells = [
        r["set"],
        _percent(1 - r["given"]),
        _percent(r["noise_rate"]),
        f"{_percent(low)} to {_percent(high)}",
        "yes" if holds(r) else "**no**",
        _percent(former),
        f"{r['wrong_changes']:,}",
        "-" if stated is None else f"{stated:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _ranking_row(r: Record) -> str:
    ap = r["average_precision"]
    cells = [f"{ap[name]:.3f}" for name in ("auto", *SCORES)]
    return f"| {r['set']} | {' | '.join(cells)} |"


def _people_row(r: Record) -> str:
    true, stated = (" and ".join(map(_percent, r[name])) for name in ("true_quality", "quality"))
    cells = [_percent(r["consensus"]), _percent(r["aggre_alone"])]
    return (
        f"| {r['set']} | {r['rows']:,} | {true} | {stated} | {' | '.join(cells)} | "
        f"{'yes' if r['warned'] else '**no**'} |"
    )


PAGE = """# Labels that people and rules got wrong

<!-- Generated by `python benchmarks/real.py table` from results/real/records.jsonl. -->

`adacorr.correct(labels, pred_probs)` with its defaults on {count} sets whose truth is known: human
labels (CIFAR-10N, Wei et al. 2022), keyword rules on texts, noise by class, and right labels under
good and weak models, where the best that a rule can do is nothing. All probabilities are out of
fold. The first three CIFAR-10 models come with their probabilities; texts are TF-IDF and logistic
regression; *encoder and linear probe* is logistic regression on a small pretrained encoder's
features; *random features* is a model of 16 x 16 pixels that is weak on purpose. The rule was
developed on these sets: what it does on others is not promised by this page.
[The automatic rule](auto-rule.md) has labels disturbed on purpose.

## Targets

{targets}

## Labels

Share of right labels in per cent: as given; the model's first choice; after the automatic rule;
after the rule that it replaced (measured once with its last version and kept; on the texts with
another setting of TF-IDF, whose model was up to two points better);
after LRT with delta 0.9; after the best of eight deltas ({deltas}) chosen in hindsight, which no
user can have; after cleanlab's `find_label_issues`, flagged rows set to the model's first choice.

| set | rows x classes | given | model | auto | former | 0.9 | best | cleanlab | changes |
|---|---|---|---|---|---|---|---|---|---|
{labels}

## What is stated, and what is true

Share of wrong labels before correction, in per cent: true, stated (none where two readings fit),
the stated interval and whether it holds the truth, what the former rule stated. Wrong changes:
true and stated. Of the {held} intervals that hold the truth, {wide} are wider than {limit:.0f}
points: where two readings fit, holding the truth is easy, and answers of a person are what narrows
it (`adacorr ask`).

| set | true | stated | interval | holds | former | wrong changes | stated |
|---|---|---|---|---|---|---|---|
{numbers}

## Ranking

Average precision of `suspicion` for finding the wrong labels, beside cleanlab's three scores.

| set | auto | self-confidence | normalised margin | weighted entropy |
|---|---|---|---|---|
{ranking}

## Several annotators: a miss, and what is said of it

The only two columns of human labels at hand break the assumption that people err each on their own:
*aggre* is the majority of three people, and *random1* is one of the three. They agree in their
errors, so their agreement is taken for truth. The consensus is then worse than correcting *aggre*
alone; what is expected of the tool is to say so (`warnings`). Per cent; true and estimated quality
of the two columns; share of right labels of the consensus and of *aggre* corrected alone.

| set | rows | right, true | right, estimated | consensus | aggre alone | warned |
|---|---|---|---|---|---|---|
{people}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=("predict", "run", "table"))
    parser.add_argument("--cache", type=Path, default=Path("real-cache"))
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--output", type=Path, default=DOCS)
    options = parser.parse_args()
    chosen = sets(options.cache)
    if options.command == "predict":
        predict_all(chosen, options.cache)
    elif options.command == "run":
        lines = []
        for one in chosen:
            if (options.cache / one.file).exists():
                lines.append(json.dumps(measure(one, options.cache / one.file)))
                print(one.name, flush=True)
        lines += [json.dumps(measure_people(model)) for model in ("resnet18", "swin")]
        options.records.parent.mkdir(parents=True, exist_ok=True)
        options.records.write_text("\n".join(lines) + "\n")
    else:
        lines = options.records.read_text().splitlines()
        options.output.write_text(table([json.loads(line) for line in lines]))


if __name__ == "__main__":
    main()

"""Out-of-fold probabilities: what models say of rows whose labels they have not seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.features import Features, Tick, Views, array_at, array_there, silent
from adacorr.cleaning.models import STRENGTHS, Learner
from adacorr.cleaning.workers import HERE, Workers, one_thread
from adacorr.core.streams import TUNING, numbers
from adacorr.core.validation import InputError, check_count
from adacorr.files import atomic

FIT_ROWS = 20_000
"""A model is fitted to at most so many rows, whatever the size of the data."""
PREDICT_ROWS = 4096  # at a time, for memory
TUNING_ROWS = 3000  # they choose a strength out of a few, which takes no more
PER_CLASS = 20
"""Of each class so many rows stay in a sample, where there are as many."""
MOST = 100
"""Repeats; each keeps its predictions until the end."""
FLOOR = 1e-6
"""No class is ruled out, least of all one that the fitted rows lack."""


@dataclass(frozen=True)
class Folds:
    """How to split.

    Attributes
    ----------
    count
        Parts; each is predicted by models fitted to the others.
    repeats
        Splits over which predictions are averaged; None: 3 below 2,000 rows, 2 below 8,000, else 1.
    seed
        Of the splits.
    """

    count: int = 5
    repeats: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.count, "folds", at_least=2)
        check_count(self.seed, "seed")
        if self.repeats is not None and check_count(self.repeats, "repeats", at_least=1) > MOST:
            raise InputError(f"repeats: expected at most {MOST}, got {self.repeats}")

    def repeated(self, n: int) -> int:
        if self.repeats is not None:
            return self.repeats
        return 3 if n < 2000 else 2 if n < 8000 else 1


def assign_folds(
    labels: NDArray[np.int64], groups: NDArray[np.int64], count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(N,) fold of each row: groups stay whole, and each class is dealt out evenly.

    >>> folds = assign_folds(np.array([0, 0, 1, 1]), np.arange(4), 2, np.random.default_rng(0))
    >>> np.bincount(folds[:2]).tolist(), np.bincount(folds[2:]).tolist()
    ([1, 1], [1, 1])
    """
    _, first, inverse, size = np.unique(
        groups, return_index=True, return_inverse=True, return_counts=True
    )
    key = labels[first]  # a group counts as its first row's class
    order = np.lexsort((rng.permutation(len(first)), -size, key))  # in each class the largest first
    start = np.searchsorted(key[order], key[order])
    place = np.arange(len(order)) - start
    fold = np.empty(len(first), np.int64)
    fold[order] = (place + rng.permutation(count)[key[order] % count]) % count
    return fold[inverse.reshape(-1)]


def out_of_fold(
    models: Sequence[Learner],
    features: Features,
    labels: NDArray[np.int64],
    n_classes: int,
    groups: NDArray[np.int64],
    how: Folds,
    folder: Path | None = None,
    tick: Tick = silent,
    engine: Workers = HERE,
) -> list[NDArray[np.float32]]:
    """(N, K) per model, averaged over the repeats; unreadable rows get the shares of the classes.

    With a folder every fold that is done is kept there, and a killed run goes on after it.
    """
    usable = np.flatnonzero(features.readable)
    if len(np.unique(groups[usable])) < 2 * how.count:
        raise InputError(
            f"data: expected at least {2 * how.count} different samples, "
            f"got {len(np.unique(groups[usable]))}"
        )
    models = [tuned(model, features, labels, groups, usable, how.seed) for model in models]
    work = _Work.open(models, features, labels, n_classes, groups, how, folder)
    repeats = how.repeated(len(labels))
    said = 0
    tick("predicting out of fold", 0, len(usable))
    for repeat, fold in product(range(repeats), range(how.count)):
        rng = numbers(how.seed, repeat)
        of = assign_folds(labels[usable], groups[usable], how.count, rng)
        rows = usable[of == fold]
        if [repeat, fold] not in work.done:
            train = bounded(usable[of != fold], labels, numbers(how.seed, repeat, fold))
            fitted = fit_all(models, features.views(train), labels[train], n_classes, engine)
            for done in predict_into(work.parts[repeat], fitted, features, rows, engine):
                tick("predicting out of fold", (said + done) // repeats, len(usable))
            work.finished(repeat, fold)
        said += len(rows)
    prior = np.bincount(labels, minlength=n_classes) / len(labels)
    return [_averaged([r[m] for r in work.parts], features, prior) for m in range(len(models))]


@dataclass(frozen=True)
class Fitted:
    """Models that have learnt; called with :class:`Views`, their (B, K) probabilities."""

    models: tuple[tuple[str, Any], ...]
    n_classes: int

    @one_thread
    def __call__(self, seen: Views) -> list[NDArray[np.float32]]:
        found = [probabilities(m, seen[view].copy(), self.n_classes) for view, m in self.models]
        return [p.astype(np.float32) for p in found]


def fit_all(
    models: Sequence[Learner],
    seen: Views,
    labels: NDArray[np.int64],
    n_classes: int,
    engine: Workers,
) -> Fitted:
    """Each model fitted to these rows."""
    items = ((model, seen[model.view]) for model in models)
    fitted = engine.each(_fit, labels, items)
    return Fitted(tuple(zip((m.view for m in models), fitted, strict=True)), n_classes)


@one_thread
def _fit(labels: NDArray[np.int64], item: tuple[Learner, Any]) -> Any:
    model, x = item  # copied: sums depend on how an array lies in memory, and it may have travelled
    return model.make().fit(x.copy(), labels.copy())


def predict_into(
    out: Sequence[NDArray[np.float32]],
    fitted: Fitted,
    features: Features,
    rows: NDArray[np.int64],
    engine: Workers,
) -> Iterator[int]:
    """Write each model's probabilities of `rows`, a block at a time; says how many are done."""
    blocks = [rows[start : start + PREDICT_ROWS] for start in range(0, len(rows), PREDICT_ROWS)]
    found = engine.each(Fitted.__call__, fitted, (features.views(block) for block in blocks))
    done = 0
    for block, parts in zip(blocks, found, strict=True):
        for place, part in zip(out, parts, strict=True):
            place[block] = part
        done += len(block)
        yield done


def probabilities(fitted: Any, x: Any, n_classes: int) -> NDArray[np.float64]:
    """(B, K); classes that the model has not seen get next to nothing."""
    p = np.full((x.shape[0], n_classes), FLOOR)
    p[:, fitted.classes_] += fitted.predict_proba(x)
    return p / p.sum(axis=1, keepdims=True)


def bounded(
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    rng: np.random.Generator,
    size: int = FIT_ROWS,
) -> NDArray[np.int64]:
    """At most about `size` of the rows: a random sample, topped up where a class is rare in it."""
    if len(rows) <= size:
        return rows
    shuffled = rng.permutation(rows)
    order = np.argsort(labels[shuffled], kind="stable")
    start = np.searchsorted(labels[shuffled][order], labels[shuffled][order])
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows)) - start
    return np.sort(shuffled[(np.arange(len(rows)) < size) | (rank < PER_CLASS)])


@one_thread
def tuned(
    model: Learner,
    features: Features,
    labels: NDArray[np.int64],
    groups: NDArray[np.int64],
    usable: NDArray[np.int64],
    seed: int,
) -> Learner:
    """The model with the strength under which the given labels are likeliest out of fold."""
    if not model.tuned:
        return model
    rng = numbers(seed, TUNING)
    rows = bounded(usable, labels, rng, TUNING_ROWS)
    of = assign_folds(labels[rows], groups[rows], 3, rng)
    x, y = features.views(rows)[model.view], labels[rows]
    n_classes = int(labels.max()) + 1

    def loss(strength: float) -> float:
        total = 0.0
        for fold in range(3):
            fitted = model.make(C=strength).fit(x[of != fold], y[of != fold])
            p = probabilities(fitted, x[of == fold], n_classes)
            total -= float(np.log(p[np.arange(len(p)), y[of == fold]]).sum())
        return total

    best, least = STRENGTHS[0], np.inf
    for strength in STRENGTHS:
        if (found := loss(strength)) > least:
            break  # from weak to strong the loss falls, then rises
        best, least = strength, found
    return replace(model, make=partial(model.make, C=best), tuned=False)


@dataclass
class _Work:
    """The predictions under way: arrays per repeat and model, and which folds are in them."""

    parts: list[list[NDArray[np.float32]]]
    done: list[list[int]]
    note: Path | None
    identity: str

    @classmethod
    def open(
        cls,
        models: Sequence[Learner],
        features: Features,
        labels: NDArray[np.int64],
        n_classes: int,
        groups: NDArray[np.int64],
        how: Folds,
        folder: Path | None,
    ) -> _Work:
        names = [model.name for model in models]
        text = f"{features.identity} {how} {names} {n_classes}".encode()
        identity = hashlib.sha256(text + labels.tobytes() + groups.tobytes()).hexdigest()
        note = None if folder is None else folder / "cache" / "folds.json"
        shape, repeats = (len(labels), n_classes), range(how.repeated(len(labels)))
        files = [[f"cache/{name}-{r}.npy" for name in names] for r in repeats]
        done = _done(note, identity)
        if folder is not None and done:
            there = [[array_there(folder, f, shape, np.float32) for f in row] for row in files]
            if all(part is not None for row in there for part in row):
                return cls(cast("list[list[NDArray[np.float32]]]", there), done, note, identity)
        parts = [[array_at(folder, f, shape, np.float32) for f in row] for row in files]
        return cls(parts, [], note, identity)

    def finished(self, repeat: int, fold: int) -> None:
        self.done.append([repeat, fold])
        if self.note is None:
            return
        for part in self.parts[repeat]:
            if isinstance(part, np.memmap):
                part.flush()
        with atomic(self.note) as path:
            path.write_text(json.dumps({"identity": self.identity, "done": self.done}))


def _done(note: Path | None, identity: str) -> list[list[int]]:
    try:
        found = json.loads(note.read_text()) if note is not None else {}
    except (OSError, ValueError, RecursionError):
        return []
    known = isinstance(found, dict) and found.get("identity") == identity
    done = found.get("done") if known else []
    return done if isinstance(done, list) else []


def _averaged(
    parts: list[NDArray[np.float32]], features: Features, prior: NDArray[np.float64]
) -> NDArray[np.float32]:
    mean = np.array(parts[0])
    for part in parts[1:]:
        mean += part
    mean[~features.readable] = prior
    mean /= mean.sum(axis=1, keepdims=True)
    return mean

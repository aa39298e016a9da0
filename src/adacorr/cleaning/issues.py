"""What else is wrong with the data, from the same features; no label is changed for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.features import Features, Tick, silent
from adacorr.cleaning.neighbours import nearest
from adacorr.cleaning.workers import one_thread

NEIGHBOURS = 10  # whose mean distance is a row's own; our choice
COPY = 0.1
"""Two samples are near copies when their distance is below this share of the usual nearest one."""
FAR = 3.0
"""Outliers lie this many times the usual spread beyond the usual distance to their neighbours."""
TAKEN = 0.25
"""Two classes are hardly told apart when models take so many of one's rows for the other."""


@dataclass(frozen=True)
class Issues:
    """Per row, and per pair of classes; every array has N entries.

    Attributes
    ----------
    copy_of : the first row of the set of (near) copies that a row is in; -1: it is alone.
    copy_distance : cosine distance to the nearest other row, as a share of the usual one.
    outlier : how many times the usual spread a row lies beyond the usual distance to its
        neighbours; above 3 it is listed.
    unreadable : empty, or could not be read.
    copies_across_classes, copies_across_split : rows in sets of copies that do not agree on the
        class; that lie on both sides of the given split.
    overlaps : (class, other, share): of the rows labelled with the class, those that models take
        for the other.
    """

    copy_of: NDArray[np.int64]
    copy_distance: NDArray[np.float32]
    outlier: NDArray[np.float32]
    unreadable: NDArray[np.bool_]
    copies_across_classes: NDArray[np.bool_]
    copies_across_split: NDArray[np.bool_]
    overlaps: tuple[tuple[int, int, float], ...] = ()

    @property
    def outliers(self) -> NDArray[np.bool_]:
        return self.outlier > FAR

    def counts(self) -> dict[str, int]:
        """How many rows of each kind."""
        return {
            "near_copies": int((self.copy_of >= 0).sum()),
            "copies_across_classes": int(self.copies_across_classes.sum()),
            "copies_across_split": int(self.copies_across_split.sum()),
            "outliers": int(self.outliers.sum()),
            "unreadable": int(self.unreadable.sum()),
        }

    def columns(self) -> dict[str, NDArray[Any]]:
        """For labels.parquet."""
        return {
            "copy_of": self.copy_of,
            "copy_distance": self.copy_distance,
            "copies_across_classes": self.copies_across_classes,
            "copies_across_split": self.copies_across_split,
            "outlier": self.outlier,
            "unreadable": self.unreadable,
        }


@dataclass(frozen=True)
class Nearness:
    """Sets of copies and distances; known before any model, so that copies share a fold."""

    copy_of: NDArray[np.int64]
    copy_distance: NDArray[np.float32]
    outlier: NDArray[np.float32]

    def groups(self, given: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The user's groups, else the sets of copies; a row alone is a group of its own."""
        if given is not None:
            return given
        alone = self.copy_of < 0
        return np.where(alone, np.arange(len(alone)), self.copy_of)


@one_thread
def find_nearness(features: Features, exact_only: bool = False, tick: Tick = silent) -> Nearness:
    """Compare every row with its nearest; `exact_only` where equal features are no copies."""
    n = len(features.readable)
    usable = np.flatnonzero(features.readable)
    copy_distance, outlier = np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)
    link = _same_content(features.digests)
    if len(usable) > 1:
        x = features.reduced if len(usable) == n else features.reduced[usable]
        rows, far = nearest(x, min(NEIGHBOURS, len(usable) - 1), tick)
        usual = float(np.median(far[:, 0][far[:, 0] > 1e-6])) if (far[:, 0] > 1e-6).any() else 1.0
        copy_distance[usable] = far[:, 0] / usual
        outlier[usable] = _beyond(far.mean(axis=1))
        if not exact_only:
            near = far < COPY * usual
            pairs = np.stack([np.repeat(usable, near.sum(axis=1)), usable[rows[near]]])
            link = _joined(link, pairs)
    size = np.bincount(link, minlength=n)
    copy_of = np.where((size[link] > 1) & features.readable, link, -1)
    return Nearness(copy_of, copy_distance, outlier)


def _same_content(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """(N,) the first row with the same content."""
    _, first, inverse = np.unique(digests, axis=0, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)].astype(np.int64)


def _joined(link: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) the smallest row of the connected set that each row is in."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(link)
    a = np.concatenate([np.arange(n), pairs[0]])
    b = np.concatenate([link, pairs[1]])
    graph = coo_matrix((np.ones(len(a), np.int8), (a, b)), shape=(n, n))
    _, part = connected_components(graph, directed=False)
    first = np.full(part.max() + 1, n)
    np.minimum.at(first, part, np.arange(n))
    return first[part].astype(np.int64)


def _beyond(distance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Spreads (of the upper half) above the median."""
    middle = np.median(distance)
    spread = np.quantile(distance, 0.9) - middle
    return ((distance - middle) / max(float(spread), 1e-9)).astype(np.float32)


def find_issues(
    near: Nearness,
    readable: NDArray[np.bool_],
    judged: NDArray[np.bool_],
    labels: NDArray[np.int64],
    corrected: NDArray[np.int64],
    pred_probs: NDArray[np.floating],
    split: NDArray[np.int64] | None,
) -> Issues:
    """Everything by row, and of the judged rows the classes that models hardly tell apart."""
    return Issues(
        near.copy_of,
        near.copy_distance,
        near.outlier,
        ~readable,
        _mixed(near.copy_of, labels),
        _mixed(near.copy_of, split) if split is not None else np.zeros(len(labels), bool),
        overlapping(corrected[judged], pred_probs[judged]),
    )


def _mixed(copy_of: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows in sets of copies whose values differ."""
    in_set = copy_of >= 0
    low, high = np.full(len(value), np.iinfo(np.int64).max), np.full(len(value), -1)
    np.minimum.at(low, copy_of[in_set], value[in_set])
    np.maximum.at(high, copy_of[in_set], value[in_set])
    out = np.zeros(len(value), bool)
    out[in_set] = (low < high)[copy_of[in_set]]
    return out


def overlapping(
    labels: NDArray[np.int64], pred_probs: NDArray[np.floating]
) -> tuple[tuple[int, int, float], ...]:
    """Pairs of classes of which models take one for the other, the most confused first.

    `labels` are the corrected ones, so that wrong labels do not pass for classes that are alike.

    >>> overlapping(np.array([0, 0, 1]), np.array([[0.4, 0.6], [0.6, 0.4], [0.1, 0.9]]))
    ((0, 1, 0.5),)
    """
    k = pred_probs.shape[1]
    taken = np.zeros((k, k))
    np.add.at(taken, (labels, pred_probs.argmax(axis=1)), 1)
    share = taken / np.maximum(taken.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(share, 0)
    found = [(int(a), int(b), round(float(share[a, b]), 3)) for a, b in np.argwhere(share > TAKEN)]
    return tuple(sorted(found, key=lambda pair: -pair[2]))


def sentences(found: Issues, class_names: Sequence[str]) -> list[str]:
    """What was found, in plain words; nothing about what was not."""
    n = found.counts()
    lines = []
    if n["near_copies"]:  # at least two, as of every kind of copies
        across = n["copies_across_classes"]
        more = f", {across:,} of them in sets that disagree on the class" if across else ""
        lines.append(f"{n['near_copies']:,} rows are copies or near copies of others{more}")
    if n["copies_across_split"]:
        lines.append(
            f"{n['copies_across_split']:,} rows have copies on the other side of the split"
        )
    if n["outliers"]:
        lines.append(f"far from everything else: {_rows(n['outliers'])}")
    if n["unreadable"]:
        lines.append(f"empty or unreadable, left as given: {_rows(n['unreadable'])}")
    for a, b, share in found.overlaps[:3]:
        lines.append(f"{share:.0%} of {class_names[a]} looks like {class_names[b]} to the models")
    return lines


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"

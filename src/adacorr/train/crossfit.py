"""What nets say of rows that they did not learn from: for the labels that a user gets.

A net that was trained on a label says little about it, and a method that corrects labels trains on
its own guesses. So the labels that :func:`adacorr.train.fit` hands out do not come from the method:
the rows are dealt into folds, a fresh net of the same kind learns the given labels of all folds but
one (cross-entropy, stopped early) and predicts the one left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from adacorr.core.streams import FOLD, numbers
from adacorr.train.engine import Engine, Job, Progress
from adacorr.train.methods.standard import Standard
from adacorr.train.ranks import Ranks
from adacorr.train.settings import Settings

FOLDS = 5  # our choice: each net learns from four fifths of the rows
FEW_FOLDS, MANY_ROWS = 2, 5_000
"""With many rows a net loses little when it does without half of them."""
WINDOW = 3  # epochs whose predictions are averaged: one epoch's are noisy


def out_of_fold(
    job: Job,
    make_net: Callable[[int], nn.Module],
    settings: Settings,
    ranks: Ranks,
    progress: Progress,
) -> NDArray[np.float32]:
    """(N, K) probabilities of every row, by a net that did not learn from it."""
    n = len(job.labels)
    folds = FEW_FOLDS if n >= MANY_ROWS else FOLDS
    fold_of = deal(job.labels, folds, settings.seed)
    out = np.empty((n, job.n_classes), dtype=np.float32)
    for fold in range(folds):
        progress.log(f"labels: part {fold + 1} of {folds}, a net learns from the rest")
        rows = np.flatnonzero(fold_of == fold)
        part = replace(
            job,
            train=np.flatnonzero(fold_of != fold),
            validation=(job.feed, rows, job.labels[rows]),
        )
        out[rows] = _left_out(Engine(part, Standard(), make_net, settings, ranks)).cpu().numpy()
    return out


def _left_out(engine: Engine) -> Tensor:
    """Predictions for the fold left out, a mean of the epochs up to the best on its labels."""
    patience = max(2 * WINDOW, engine.epochs // 5)
    last: list[Tensor] = []
    best = None
    while engine.state.epoch < engine.epochs:
        engine.run_epoch(engine.state.epoch + 1)
        last = [*last, engine.validation[1]][-WINDOW:]
        if engine.state.best_epoch == engine.state.epoch:
            best = sum(last[1:], last[0]) / len(last)
        elif engine.state.epoch - engine.state.best_epoch >= patience:
            break
    assert best is not None
    return best


def deal(labels: NDArray[np.int64], folds: int, seed: int) -> NDArray[np.int64]:
    """(N,) a fold for each row: at random, each class dealt out evenly.

    >>> fold = deal(np.array([0, 0, 0, 0, 1, 1]), 2, seed=0)
    >>> [np.bincount(fold[np.array([0, 0, 0, 0, 1, 1]) == c]).tolist() for c in (0, 1)]
    [[2, 2], [1, 1]]
    """
    shuffled = numbers(seed, FOLD).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    out = np.empty(len(labels), dtype=np.int64)
    out[by_class] = np.arange(len(labels)) % folds
    return out

"""Estimate the transition matrix from noisy labels and a noisy classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import (
    InputError,
    check_pred_probs,
    check_same_length,
)
from adacorr.labels import encode_labels

_CHUNK_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Transition:
    """An estimate of T.

    Attributes
    ----------
    T : (K, K), ``T[i, j] = P(given = j | true = i)``, rows sum to one.
    counts : (K,), how many samples stand behind each row; 0 means the row is the identity, a guess.
    """

    T: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def noise_rate(self) -> float:
        """Share of wrong labels among the samples behind T: 1 - sum_i P(true = i) T_ii."""
        return float(1 - self.counts @ np.diag(self.T) / max(1, self.counts.sum()))

    def __array__(self, dtype=None, copy=None) -> NDArray[np.float64]:
        return np.array(self.T, dtype=dtype, copy=copy)


def estimate_transition(
    labels: ArrayLike,
    pred_probs: ArrayLike,
    method: Literal["anchor", "confident"] = "confident",
    *,
    classes: Sequence[Any] | None = None,
) -> Transition:
    """Estimate T from given labels and out-of-sample `pred_probs`.

    "anchor" (Patrini et al. 2017): row i is the prediction at the sample of highest p(i | x), after
    dropping the scores above the 97th percentile (kept when K >= 100, where a class has too few
    samples). "confident" (after Northcutt et al. 2021): row i is the distribution of the given
    labels over the samples confidently in class i, that is, whose p(i | x) reaches the mean over
    the samples labelled i.

    >>> labels = [0, 0, 1, 1, 1, 0]
    >>> pred_probs = [[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.1, 0.9], [0.2, 0.8], [0.2, 0.8]]
    >>> estimate = estimate_transition(labels, pred_probs)
    >>> estimate.T.round(2).tolist(), estimate.counts.tolist()
    ([[0.67, 0.33], [0.33, 0.67]], [3, 3])
    """
    f = check_pred_probs(pred_probs)
    y = encode_labels(labels, f.shape[1], classes).codes
    check_same_length(y, f)
    if method == "anchor":
        return _anchor(f)
    if method == "confident":
        return _confident(y, f)
    raise InputError(f"method: expected 'anchor' or 'confident', got {method!r}")


def _anchor(f: NDArray[np.floating]) -> Transition:
    k = f.shape[1]
    rows = np.empty(k, dtype=np.int64)
    for c in range(k):
        score = np.array(f[:, c], dtype=np.float64)
        if k < 100:
            score[score > np.percentile(score, 97)] = -1.0
        rows[c] = score.argmax()
    T = f[rows].astype(np.float64)
    return Transition(T / T.sum(axis=1, keepdims=True), np.ones(k, dtype=np.int64))


def _confident(y: NDArray[np.int64], f: NDArray[np.floating]) -> Transition:
    n, k = f.shape
    own = f[np.arange(n), y].astype(np.float64)
    size = np.bincount(y, minlength=k)
    threshold = np.bincount(y, own, minlength=k) / np.maximum(size, 1)
    threshold[size == 0] = np.inf
    joint = np.zeros((k, k), dtype=np.int64)
    step = max(1, _CHUNK_ELEMENTS // k)
    for start in range(0, n, step):
        block, given = f[start : start + step], y[start : start + step]
        above = np.where(block >= threshold, block, -1)
        likely = above.argmax(axis=1)
        sure = above[np.arange(len(block)), likely] >= 0
        np.add.at(joint, (likely[sure], given[sure]), 1)
    counts = joint.sum(axis=1)
    share = joint / np.maximum(counts, 1)[:, None]
    return Transition(np.where(counts[:, None] > 0, share, np.eye(k)), counts)

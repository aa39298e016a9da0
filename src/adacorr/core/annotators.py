"""Several people labelled the same rows: who is how good, and what each row is.

With eta(x) the model's opinion and ``T_m[i, j] = P(annotator m says j | true i)``,

    P(true = c | x, y1 .. yM)  is proportional to  eta_c(x) * product over m of T_m[c, y_m]

(Dawid & Skene 1979, with a classifier in place of class frequencies). All is fitted by EM to the
labels alone. What it assumes, in words: given the true class, annotators err independently of each
other and of the model. Errors that they share (a row that everybody takes for the same wrong class)
look like the truth, and no method that sees only these labels can tell.

The model was trained on these labels, by majority, so it has learnt some of their errors. Counting
them twice is avoided in two ways: a row's own labels were never seen by the model that predicts it
(probabilities are out of fold), and the model's opinion is ``softmax(a log f + b)``, fitted to what
all annotators together say, from an f that the caller frees of the noise by class first. And an
annotator with few labels is believed to be like the others: the T of each is shrunk to the common
one, scaled to the quality that this annotator shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adacorr.core.calibration import Array, log_features, softmax

if TYPE_CHECKING:
    from scipy.sparse import csr_array

GAP = -1  # the code of "no label"
OWN = 5.0  # labels per class that the common pattern weighs against an annotator's own
LIKE_OTHERS = 5.0  # labels that the common quality weighs against an annotator's own
STEPS = 50  # of EM at most; `SETTLED` mostly ends it before
TRUST_MOST = 10.0  # a model that is that unsure of what it knows is not believed further
SETTLED = 1e-3  # the largest mean change of a probability at which EM stops
_FIT_ROWS = 20_000  # two or K numbers of the model's opinion need no more


@dataclass(frozen=True)
class Panel:
    """What EM found, fitted to some rows and applied row by row.

    Attributes
    ----------
    T : (M, K, K) P(says | true) of each annotator.
    trust : `a`, how much firmer than it claims the model is; 1 where it claims what it knows.
    bias : (K,) `b`.
    """

    T: Array
    trust: float
    bias: Array

    def posterior(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Array:
        """(N, K) P(true | x, all labels of the row); each row depends on itself alone."""
        if len(labels) == 1:  # numpy sums a single column in another order than many
            return self.posterior(labels.repeat(2, axis=0), pred_probs.repeat(2, axis=0))[:1]
        logits = self.trust * log_features(pred_probs) + self.bias[:, None]
        for said, evidence in zip(labels.T, self._evidence, strict=True):
            logits += evidence[said].T
        return softmax(logits).T

    @cached_property
    def _evidence(self) -> Array:
        """(M, K + 1, K) log P(says | true), and zeros at the end: where a gap points to."""
        logs = np.log(self.T).transpose(0, 2, 1)
        return np.concatenate([logs, np.zeros((len(logs), 1, logs.shape[2]))], axis=1)


@dataclass(frozen=True)
class Quality:
    """How many labels of each annotator are right; those of two parts of the rows merge.

    Attributes
    ----------
    right, doubt : (M,) expected number of right labels, and its variance.
    count : (M,) labels.
    """

    right: Array
    doubt: Array
    count: NDArray[np.int64]

    @classmethod
    def of(cls, labels: NDArray[np.int64], posterior: Array) -> Quality:
        """From (N, M) codes with gaps and the (N, K) posterior of the rows."""
        rows, who = np.nonzero(labels != GAP)
        right, m = posterior[rows, labels[rows, who]], labels.shape[1]
        sums = (np.bincount(who, each, m).astype(np.float64) for each in (right, right - right**2))
        return cls(next(sums), next(sums), np.bincount(who, minlength=m))

    def merge(self, other: Quality) -> Quality:
        return Quality(self.right + other.right, self.doubt + other.doubt, self.count + other.count)

    @property
    def share(self) -> Array:
        """(M,) share of right labels."""
        return self.right / np.maximum(self.count, 1)

    @property
    def standard_error(self) -> Array:
        """(M,) of the share; a spread of zero is never stated."""
        safe = (self.right + 2) / (self.count + 4)
        unsure = self.doubt / np.maximum(self.count, 1) ** 2
        return np.sqrt(unsure + safe * (1 - safe) / (self.count + 4))


def fit_panel(labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Panel:
    """EM for (N, M) codes with gaps (-1; at least one label in each row) and (N, K) predictions.

    >>> labels = np.array([[0, 0, 1], [1, 1, 0], [0, 0, -1], [1, 1, 1]] * 20)
    >>> f = np.array([[0.6, 0.4], [0.4, 0.6]] * 40)
    >>> panel = fit_panel(labels, f)
    >>> found = Quality.of(labels, panel.posterior(labels, f))
    >>> bool(found.share[0] > 0.9 > found.share[2]), found.count.tolist()
    (True, [80, 80, 60])
    """
    features = log_features(pred_probs)
    k, n = features.shape
    said = _indicator(labels, k)
    votes = np.zeros((n, k))
    for column in labels.T:
        rows = np.flatnonzero(column != GAP)
        votes[rows, column[rows]] += 1
    q = (votes + pred_probs) / (votes.sum(axis=1, keepdims=True) + 1)
    trust, bias = 1.0, np.zeros(k)
    some = np.linspace(0, n - 1, min(n, _FIT_ROWS)).astype(np.int64)
    for _ in range(STEPS):
        T = transitions(said.T @ q, labels.shape[1])
        trust, bias = _opinion(features[:, some], q[some].T, trust, bias)
        evidence = (said @ np.log(T).transpose(0, 2, 1).reshape(-1, k)).T
        new = softmax(evidence + trust * features + bias[:, None]).T
        moved = float(np.abs(new - q).sum(axis=1).mean())
        q = new
        if moved < SETTLED:
            break
    return Panel(transitions(said.T @ q, labels.shape[1]), trust, bias)


def _indicator(labels: NDArray[np.int64], k: int) -> csr_array:
    """(N, M K) sparse: a one where annotator m gave label j to the row, at column m K + j."""
    from scipy.sparse import csr_array

    rows, who = np.nonzero(labels != GAP)
    ones = np.ones(len(rows))
    shape = len(labels), labels.shape[1] * k
    return csr_array((ones, (rows, who * k + labels[rows, who])), shape=shape)


def transitions(counts: Array, m: int) -> Array:
    """(M, K, K) T of each annotator from (M K, K) expected counts [m and said, true], shrunk.

    >>> counts = np.array([[90.0, 10], [10, 90], [5, 5], [5, 5]])  # a good one, and a coin
    >>> transitions(counts, 2).round(1)[:, 0].tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    """
    k = counts.shape[1]
    own = counts.reshape(m, k, k).transpose(0, 2, 1)  # [m, true, said]
    common = own.sum(axis=0) + 0.5 / k + 0.5 * np.eye(k)
    common /= common.sum(axis=1, keepdims=True)
    right, size = np.einsum("mii->m", own), own.sum(axis=(1, 2))
    typical = right.sum() / size.sum()
    quality = (right + LIKE_OTHERS * typical) / (size + LIKE_OTHERS)
    diagonal = np.diag(common)
    # the common errors, more or fewer of them: each row's rate scaled in odds
    odds = diagonal / (1 - diagonal + 1e-12)
    scale = quality / (1 - quality + 1e-12) / (typical / (1 - typical + 1e-12) + 1e-12)
    scaled = odds * scale[:, None]
    keep = np.clip(scaled / (1 + scaled), 1e-6, 1 - 1e-6)
    off = common * (1 - np.eye(k))
    off /= off.sum(axis=1, keepdims=True)
    belief = off * (1 - keep)[:, :, None] + np.eye(k) * keep[:, :, None]
    T = own + OWN * belief
    return T / T.sum(axis=2, keepdims=True)


def _opinion(features: Array, q: Array, trust: float, bias: Array) -> tuple[float, Array]:
    """One Newton step for `a` and one fixed-point step for b, towards softmax(a log f + b) ~ q."""
    eta = softmax(trust * features + bias[:, None])
    mean = (eta * features).sum(axis=0)
    slope = ((q * features).sum(axis=0) - mean).mean()
    curve = ((eta * features**2).sum(axis=0) - mean**2).mean()
    trust = float(np.clip(trust + (slope - (trust - 1) * 1e-3) / (curve + 1e-3), 0.0, TRUST_MOST))
    eta = softmax(trust * features + bias[:, None])
    share, now = q.mean(axis=1) + 1e-3, eta.mean(axis=1) + 1e-3
    bias = bias + np.log(share / now)
    return trust, bias - bias.mean()

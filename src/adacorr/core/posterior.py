"""The automatic rule: the posterior of the true label under a fitted noise model.

Let f be a classifier trained on the given labels and ``T[i, j] = P(given = j | true = i)``. The
model is ``eta = softmax(scale * log f + bias)`` for the clean posterior P(true | x), and
``P(given | x) = eta @ T``. Scale, bias and T are fitted together to the given labels, without any
clean one. A row's posterior ``P(true = j | x, given = g)`` is proportional to ``eta_j T[j, g]``;
its largest entry is the suggestion. In the language of Zheng et al. (2020) this is a likelihood
ratio test on eta with one threshold per pair, ``delta[m, g] = T[m, g] / T[g, g]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.lrt import Decision

FLOOR = 1e-6  # a classifier's zero is not proof; log f stays finite
_CHUNK_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class PosteriorRule:
    """A fitted noise model, applied row by row.

    Attributes
    ----------
    T : (K, K), ``T[i, j] = P(given = j | true = i)``.
    scale, bias : the map from log f to the clean posterior, a number and (K,).
    max_flip_error : flips whose probability of being wrong reaches this are withheld for review.
    summary : plain values that describe the fit.
    """

    T: NDArray[np.float64]
    scale: float
    bias: NDArray[np.float64]
    max_flip_error: float | None = None
    summary: dict[str, Any] = field(default_factory=dict)

    def posterior(
        self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """(N, K): P(true = j | x, given label)."""
        logits = self.scale * log_probs(pred_probs) + self.bias
        return softmax(logits + np.log(np.maximum(self.T.T, 1e-300))[labels])

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision:
        """Suggest the most probable true label; the ratio is P(given) / P(suggested)."""
        n, k = pred_probs.shape
        suggested, ratio, confidence = np.empty(n, np.int64), np.empty(n), np.empty(n)
        step = max(1, _CHUNK_ELEMENTS // k)
        for start in range(0, n, step):
            part = slice(start, start + step)
            y = labels[part]
            rows = np.arange(len(y))
            p = self.posterior(y, pred_probs[part])
            best = p.argmax(axis=1)
            own, top = p[rows, y], p[rows, best]
            suggested[part] = np.where(own >= top, y, best)
            ratio[part] = own / top
            confidence[part] = top
        flipped = suggested != labels
        review = None
        if self.max_flip_error is not None:
            review = flipped & (1 - confidence >= self.max_flip_error)
            flipped &= ~review
            confidence = np.where(review, ratio * confidence, confidence)
        return Decision(suggested, ratio, flipped, confidence, review)


def log_probs(pred_probs: NDArray[np.floating]) -> NDArray[np.float64]:
    """log f in float64, bounded below."""
    return np.log(np.maximum(pred_probs.astype(np.float64), FLOOR))


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row-wise; each row depends on itself alone, to the last bit."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def fit_posterior(
    labels: NDArray[np.int64],
    pred_probs: NDArray[np.floating],
    T: NDArray[np.float64] | None = None,
    max_flip_error: float | None = None,
) -> PosteriorRule:
    """Fit scale, bias and (unless given) T to the given labels by maximum a posteriori."""
    logf = log_probs(pred_probs)
    start = _confident_half(labels, logf) if T is None else T
    scale, bias, fitted = _maximise(labels, logf, start, fixed=T is not None)
    rule = PosteriorRule(fitted, scale, bias, max_flip_error)
    given = rule.posterior(labels, pred_probs)[np.arange(len(labels)), labels]
    summary = {
        "rule": "auto",
        "noise_rate": float(np.mean(1 - given)),
        "note": "the noise was estimated from the given labels",
    }
    return PosteriorRule(fitted, scale, bias, max_flip_error, summary)


def _confident_half(labels: NDArray[np.int64], logf: NDArray[np.float64]) -> NDArray[np.float64]:
    """T from the given labels of the more confident half of each predicted class."""
    k = logf.shape[1]
    predicted, top = logf.argmax(axis=1), logf.max(axis=1)
    counts = np.eye(k)
    for c in range(k):
        rows = predicted == c
        if rows.any():
            sure = rows & (top >= np.median(top[rows]))
            counts[c] += np.bincount(labels[sure], minlength=k)
    counts += 0.1 / k
    return counts / counts.sum(axis=1, keepdims=True)


def _maximise(
    labels: NDArray[np.int64], logf: NDArray[np.float64], T: NDArray[np.float64], fixed: bool
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    from scipy.optimize import minimize

    n, k = logf.shape
    prior = np.eye(k) * 0.05 * n / k + 0.02
    one_hot_order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[one_hot_order], np.arange(k))
    present = np.bincount(labels, minlength=k) > 0

    def unpack(theta):
        return np.exp(theta[0]), theta[1 : k + 1], softmax(theta[k + 1 :].reshape(k, k))

    def objective(theta):
        a, b, matrix = unpack(theta)
        if fixed:
            matrix = T
        eta = softmax(a * logf + b)
        post = eta * matrix.T[labels]
        like = post.sum(axis=1)
        post /= like[:, None]
        slope = post - eta
        counts = np.zeros((k, k))
        if not fixed:
            counts.T[present] = np.add.reduceat(post[one_hot_order], edges[present], axis=0)
            counts += prior
        value = np.log(like).sum() - 0.5 * (b**2).sum() - 0.5 * theta[0] ** 2
        gradient = np.concatenate(
            [
                [a * (slope * logf).sum() - theta[0]],
                slope.sum(axis=0) - b,
                (counts - counts.sum(axis=1, keepdims=True) * matrix).ravel(),
            ]
        )
        if fixed:
            gradient[k + 1 :] = 0
        else:
            value += (prior * np.log(matrix)).sum()
        return -value / n, -gradient / n

    theta = np.concatenate([np.zeros(k + 1), np.log(np.maximum(T, 1e-6)).ravel()])
    best = minimize(objective, theta, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    a, b, matrix = unpack(best.x)
    return float(a), b, T if fixed else matrix

"""Fit the map from a noisy classifier to the clean posterior, together with the noise.

``eta = softmax(W log f + bias)`` (Dirichlet calibration, Kull et al. 2019) and ``P(given | x) =
eta @ T``; the likelihood of the given labels is maximised over W, bias and T at once. W is a
multiple of the identity (temperature scaling), or a full matrix with a ridge on its deviation from
that: only the full one can read "the second best class tells which noise made this label", which
is what identifies pair noise. Arrays here are (K, N), classes first, so that the reductions over
classes are vectorised over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Objective = Callable[[Array], tuple[float, Array]]

FLOOR = 1e-4  # a classifier's zero is not proof: log f stays finite


@dataclass(frozen=True)
class Fit:
    """``eta = softmax(weight.T @ log f + bias)``, `weight` a number or (K, K); and T."""

    weight: Array
    bias: Array
    T: Array

    def logits(self, features: Array) -> Array:
        """(K, N) logits of the clean posterior, by matrix product: fast, for fitting."""
        scaled = self.weight.T @ features if self.weight.ndim else self.weight * features
        return scaled + self.bias[:, None]


def log_features(pred_probs: NDArray[np.floating]) -> Array:
    """(N, K) probabilities -> (K, N) log probabilities, bounded below and centred per row."""
    logs = np.array(pred_probs.T, dtype=np.float64, order="C")  # always a copy, whatever the order
    np.log(np.maximum(logs, FLOOR, out=logs), out=logs)
    logs -= logs.sum(axis=0) / len(logs)
    return logs


def softmax(logits: Array) -> Array:
    """Over the first axis; each column depends on itself alone, to the last bit."""
    p = np.exp(logits - logits.max(axis=0))
    p /= p.sum(axis=0)
    return p


def posterior(eta: Array, T: Array, labels: NDArray[np.int64]) -> tuple[Array, Array]:
    """(K, N) P(true | x, given) and (N,) P(given | x)."""
    joint = eta * T.take(labels, axis=1)
    likelihood = np.maximum(joint.sum(axis=0), 1e-300)
    joint /= likelihood
    return joint, likelihood


def log_likelihood(eta: Array, T: Array, labels: NDArray[np.int64]) -> float:
    """Of the given labels, in nats."""
    return float(np.log(posterior(eta, T, labels)[1]).sum())


def maximise(
    labels: NDArray[np.int64],
    features: Array,
    T: Array,
    *,
    prior: Array | None,
    ridge: float | None,
    start: Fit | None = None,
    steps: int = 150,
) -> Fit:
    """Maximum a posteriori fit by L-BFGS.

    Parameters
    ----------
    labels, features : (N,) and (K, N).
    T : the first guess, or the truth when `prior` is None.
    prior : (K, K) Dirichlet pseudo-counts of T; None keeps T fixed.
    ridge : weight of ``|W - scale I|^2 / 2``; None keeps W a multiple of the identity.
    start : where to begin; by default the identity map.
    """
    from scipy.optimize import minimize

    k = len(features)
    size = k * k if ridge is not None else 0
    theta = np.concatenate([[1.0], np.zeros(k + size)])
    if start is not None:
        theta[1 : k + 1] = start.bias
        if not start.weight.ndim:
            theta[0] = start.weight
        elif size:
            theta[0] = np.trace(start.weight) / k
            theta[k + 1 :] = (start.weight - theta[0] * np.eye(k)).ravel()
    if prior is not None:
        theta = np.concatenate([theta, np.log(np.maximum(T, 1e-6)).ravel()])
    function = _objective(labels, features, T, prior, ridge)
    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-7}
    best = minimize(function, theta, jac=True, method="L-BFGS-B", options=options).x
    weight, bias, rest = _unpack(best, k, ridge is not None)
    return Fit(weight, bias, softmax(rest.T).T if prior is not None else T)


def _unpack(theta: Array, k: int, full: bool) -> tuple[Array, Array, Array]:
    """theta -> weight, bias, and the logits of T's rows (empty when T is fixed)."""
    scale, bias = theta[0], theta[1 : k + 1]
    if not full:
        return np.asarray(scale), bias, theta[k + 1 :].reshape(-1, k)
    deviation = theta[k + 1 : k + 1 + k * k].reshape(k, k)
    return deviation + scale * np.eye(k), bias, theta[k + 1 + k * k :].reshape(-1, k)


def _objective(
    labels: NDArray[np.int64],
    features: Array,
    T: Array,
    prior: Array | None,
    ridge: float | None,
) -> Objective:
    """Minus the log posterior per row, and its gradient; both in closed form."""
    k, n = features.shape
    one_hot = np.zeros((n, k))
    one_hot[np.arange(n), labels] = 1.0

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        weight, bias, rest = _unpack(theta, k, ridge is not None)
        matrix = T if prior is None else softmax(rest.T).T
        eta = softmax(Fit(weight, bias, matrix).logits(features))
        post, likelihood = posterior(eta, matrix, labels)
        slope = post - eta  # of the log-likelihood by the logits
        value = np.log(likelihood).sum() - 0.5 * (bias @ bias + (theta[0] - 1) ** 2)
        parts = [np.zeros(1), slope.sum(axis=1) - bias]
        if ridge is None:
            parts[0][0] = (slope * features).sum() - (theta[0] - 1)
        else:
            outer = features @ slope.T
            deviation = theta[k + 1 : k + 1 + k * k]
            value -= 0.5 * ridge * (deviation @ deviation)
            parts[0][0] = np.trace(outer) - (theta[0] - 1)
            parts.append(outer.ravel() - ridge * deviation)
        if prior is not None:
            counts = post @ one_hot + prior
            value += (prior * np.log(np.maximum(matrix, 1e-300))).sum()
            parts.append((counts - counts.sum(axis=1, keepdims=True) * matrix).ravel())
        return -value / n, -np.concatenate(parts) / n

    return value_and_gradient


def golden_section(score: Callable[[float], float], low: float, high: float, width: float) -> float:
    """Where a function with one peak between `low` and `high` is largest, within `width`.

    >>> round(float(golden_section(lambda x: -(x - 0.3) ** 2, -1.0, 1.0, 1e-4)), 3)
    0.3
    """
    inner = (np.sqrt(5.0) - 1) / 2
    left, right = high - inner * (high - low), low + inner * (high - low)
    at_left, at_right = score(left), score(right)
    while high - low > width:
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - inner * (high - low)
            at_left = score(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + inner * (high - low)
            at_right = score(right)
    return (low + high) / 2

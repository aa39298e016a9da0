"""Label noise: transition matrices ``T[i, j] = P(given = j | true = i)`` and a seeded sampler.

The class maps are the four "asymmetric" patterns of the code released with the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import (
    InputError,
    check_count,
    check_rate,
    check_rows,
    check_transition,
)
from adacorr.labels import encode_labels

CLASS_MAPS: dict[str, dict[int, int]] = {
    "mnist": {7: 1, 2: 7, 5: 6, 6: 5, 3: 8},
    "cifar10": {9: 1, 2: 0, 3: 5, 5: 3, 4: 7},
    "cifar100": {i: i - i % 5 + (i + 1) % 5 for i in range(100)},
    "modelnet40": {3: 9, 5: 37, 37: 5, 12: 33, 33: 12, 15: 16, 16: 15, 6: 10, 10: 6}
    | {23: 33, 36: 33, 30: 3, 1: 29, 14: 38, 38: 14},
}


def uniform(K: int, rate: float) -> NDArray[np.float64]:
    """Keep a label with ``1 - rate``, else draw one of the other ``K - 1`` classes.

    >>> uniform(3, 0.2)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """
    K, rate = check_count(K, "K", at_least=2), check_rate(rate)
    T = np.full((K, K), rate / (K - 1))
    np.fill_diagonal(T, 1 - rate)
    return T


def pair(K: int, rate: float) -> NDArray[np.float64]:
    """Class ``i`` becomes ``i + 1`` (mod K) with probability `rate`."""
    K = check_count(K, "K", at_least=2)
    return class_map(K, {i: (i + 1) % K for i in range(K)}, rate)


def class_map(K: int, mapping: Mapping[int, int], rate: float) -> NDArray[np.float64]:
    """Each source class in `mapping` becomes its target with probability `rate`.

    >>> class_map(3, {0: 2}, 0.25)
    array([[0.75, 0.  , 0.25],
           [0.  , 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    K, rate = check_count(K, "K", at_least=2), check_rate(rate)
    T = np.eye(K)
    for source, target in mapping.items():
        if not (0 <= source < K and 0 <= target < K):
            raise InputError(f"class map: expected classes in [0, {K}), got {source} -> {target}")
        T[source, source] -= rate
        T[source, target] += rate
    return T


def parse(spec: str, K: int) -> NDArray[np.float64]:
    """``uniform:0.4``, ``pair:0.3`` or ``map:mnist:0.4`` -> the transition matrix."""
    kind, _, rest = spec.partition(":")
    name, _, rate_text = rest.rpartition(":")
    try:
        rate = float(rate_text)
    except ValueError:
        rate = -1.0
    if kind == "map" and name in CLASS_MAPS and 0 <= rate <= 1:
        return class_map(K, CLASS_MAPS[name], rate)
    if kind in ("uniform", "pair") and not name and 0 <= rate <= 1:
        return uniform(K, rate) if kind == "uniform" else pair(K, rate)
    raise InputError(
        f"noise: expected uniform:RATE, pair:RATE or map:{'|'.join(CLASS_MAPS)}:RATE "
        f"with RATE in [0, 1], got {spec!r}"
    )


def inject(
    labels: ArrayLike,
    T: ArrayLike,
    rng: np.random.Generator | int,
    *,
    classes: Sequence[Any] | None = None,
) -> NDArray[Any]:
    """Draw a noisy label for each true one: given ~ T[true].

    Parameters
    ----------
    labels : (N,) integers or strings; the result is of the same kind.
    T : (K, K), or (N, K) with one distribution per sample (instance-dependent noise). A square
        matrix is always read as (K, K).
    rng : a generator, or a seed.
    classes : the K names in the order of T, when the labels do not tell.

    >>> inject([0, 1, 2, 0], uniform(3, 0.0), rng=0)
    array([0, 1, 2, 0])
    """
    matrix = np.asarray(T, dtype=np.float64)
    per_sample = matrix.ndim == 2 and matrix.shape[0] != matrix.shape[1]
    if not per_sample:
        matrix = check_transition(matrix)
    true = encode_labels(labels, matrix.shape[1], classes)
    y = true.codes
    draws = np.random.default_rng(rng).random(len(y))
    if not per_sample:
        return true.decode(_draw_by_class(y, matrix, draws))
    if len(matrix) != len(y):
        raise InputError(f"T: expected (K, K) or one row per label ({len(y)}), got {matrix.shape}")
    check_rows(matrix, name="T")
    return true.decode((draws[:, None] >= _edges(matrix)).sum(axis=1))


def _edges(distributions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums; the last is exactly 1, so that every draw from [0, 1) falls below it."""
    edges = np.cumsum(distributions, axis=1)
    return edges / edges[:, -1:]


def _draw_by_class(
    y: NDArray[np.int64], T: NDArray[np.float64], draws: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Inverse transform sampling, one sorted search per class: O(N) memory for any K."""
    edges = _edges(T)
    order = np.argsort(y, kind="stable")
    ends = np.cumsum(np.bincount(y, minlength=len(T)))
    given = np.empty(len(y), np.int64)
    for c, stop in enumerate(ends):
        rows = order[ends[c - 1] if c else 0 : stop]
        given[rows] = np.searchsorted(edges[c], draws[rows], side="right")
    return given


def instance_dependent(
    X: ArrayLike, labels: ArrayLike, K: int, rate: float, rng: np.random.Generator | int
) -> NDArray[np.float64]:
    """Per-sample distributions whose flip probability and target depend on x (Xia et al. 2020).

    The flip probability of a sample is normal around `rate` (standard deviation 0.1), truncated to
    [0, 1]; the target class comes from a random projection of its features, one projection per
    true class. Pass the result to :func:`inject`. This noise is outside the paper's theory: a
    stress test. Returns (N, K).
    """
    rng = np.random.default_rng(rng)
    x = np.asarray(X, dtype=np.float64)
    x = x.reshape(len(x), -1)
    y = encode_labels(labels, K).codes
    if len(x) != len(y):
        raise InputError(f"X: expected one row per label ({len(y)}), got {len(x)}")
    flip = _truncated_normal(check_rate(rate), 0.1, len(y), rng)
    scale = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    out = np.empty((len(y), K))
    for c in range(K):
        rows = y == c
        score = (x[rows] / scale[rows]) @ rng.standard_normal((x.shape[1], K))
        score[:, c] = -np.inf
        weight = np.exp(score - score.max(axis=1, keepdims=True, initial=-1e300))
        out[rows] = flip[rows, None] * weight / weight.sum(axis=1, keepdims=True)
        out[rows, c] = 1 - flip[rows]
    return out


def _truncated_normal(
    mean: float, deviation: float, n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draws outside [0, 1] are drawn again; with the mean inside, half of them at worst."""
    values = rng.normal(mean, deviation, n)
    while (outside := (values < 0) | (values > 1)).any():
        values[outside] = rng.normal(mean, deviation, int(outside.sum()))
    return values

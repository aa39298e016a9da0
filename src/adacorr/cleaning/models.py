"""The kinds of model that judge the labels out of fold: small, quick, and different."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Values of the linear model's C that are tried."""
TREES = 300
"""Boosting grows one tree per class and step: fewer steps for more classes."""
BOOSTED_CLASSES = 30
"""Beyond so many classes boosting takes too long for what it adds."""
BLOCK = 256
"""Rows compared with all fitted ones at once: few, so that the distances stay in the cache."""


@dataclass(frozen=True)
class Learner:
    """A kind of model: which view of the features it reads and how it is made.

    Attributes
    ----------
    name : as the run names its predictions.
    view : "dense", "sparse" (words and letters) or "words".
    make : a new estimator with ``fit`` and ``predict_proba``.
    tuned : its strength C is chosen by the likelihood of the given labels out of fold.
    """

    name: str
    view: Literal["dense", "sparse", "words"]
    make: Callable[..., Any]
    tuned: bool = False


def models_for(kind: str, sparse: bool, n_classes: int) -> list[Learner]:
    """At least two kinds, of different families.

    >>> [model.name for model in models_for("values", False, 2)]
    ['linear', 'neighbours', 'boosting']
    """
    found = [
        Learner("linear", "sparse" if sparse else "dense", linear, tuned=True),
        Learner("neighbours", "dense", Neighbours),
    ]
    if sparse:
        found.append(Learner("bayes", "words", bayes))
    if kind == "values" and n_classes <= BOOSTED_CLASSES:
        found.append(Learner("boosting", "dense", partial(boosting, n_classes)))
    return found


def linear(C: float = 0.1) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C, max_iter=200, tol=1e-3)


def bayes() -> Any:
    from sklearn.naive_bayes import MultinomialNB

    return MultinomialNB(alpha=0.1)


def boosting(n_classes: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees_a_step = n_classes if n_classes > 2 else 1
    steps = min(60, max(12, TREES // trees_a_step))
    gradient: Any = HistGradientBoostingClassifier  # its stubs know no early_stopping=False
    return gradient(
        max_iter=steps,
        learning_rate=max(0.1, 3 / steps),
        max_leaf_nodes=15,
        min_samples_leaf=20,
        early_stopping=False,
        random_state=0,
    )


class Neighbours:
    """The labels of the nearest by cosine, nearer ones heavier, with a trace of the class shares.

    Rows with the same content lie in one fold, so none is its own neighbour.

    >>> x = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], np.float32)
    >>> Neighbours(k=1).fit(x, np.array([0, 0, 1, 1])).predict_proba(x).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, k: int | None = None) -> None:
        self.k = k

    def fit(self, x: NDArray[np.floating], y: NDArray[np.int64]) -> Neighbours:
        self.classes_, self._codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        self._x, self._prior = unit(x), counts / len(y)
        return self

    def predict_proba(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        blocks = [x[start : start + BLOCK] for start in range(0, len(x), BLOCK)]
        return np.concatenate([self._votes(block) for block in blocks])

    def _votes(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        k = self.k or int(np.clip(0.7 * np.sqrt(len(self._x)), 10, 60))
        k = min(k, len(self._x))
        near = unit(x) @ self._x.T
        top = np.argpartition(near, -k, axis=1)[:, -k:]
        closeness = np.take_along_axis(near, top, axis=1)
        span = closeness.max(axis=1, keepdims=True) - closeness.min(axis=1, keepdims=True)
        weight = 0.25 + (closeness - closeness.min(axis=1, keepdims=True)) / (span + 1e-12)
        votes = np.zeros((len(x), len(self.classes_)))
        rows = np.repeat(np.arange(len(x)), k)
        np.add.at(votes, (rows, self._codes[top].ravel()), weight.ravel())
        votes += self._prior  # as much as one neighbour
        return votes / votes.sum(axis=1, keepdims=True)


def unit(x: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows of length one; a row of zeros stays."""
    x = np.asarray(x, np.float32)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)

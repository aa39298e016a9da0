"""Out-of-fold probabilities: every row is judged by a model that never saw its label."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing  # pyright: ignore[reportAttributeAccessIssue]
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from adacorr.core.validation import InputError


@dataclass(frozen=True)
class OutOfFold:
    """What the folds say.

    Attributes
    ----------
    pred_probs : (N, K), zero in the rows that no fold judged.
    judged : (N,), rows predicted by a model that had seen their given class in other rows. Only
        these can be corrected: of a class it never saw, a model knows nothing.
    """

    pred_probs: NDArray[np.float64]
    judged: NDArray[np.bool_]


def make_folds(cv: Any, X: Any, codes: NDArray[np.int64], params: dict[str, Any]) -> list[Any]:
    """(train, test) index pairs; an integer `cv` gives way when the classes are too small."""
    if not isinstance(cv, int):
        splitter: Any = check_cv(cv, codes, classifier=True)
        return list(splitter.split(X, codes, **params))
    if cv < 2:
        raise InputError(f"cv: expected at least 2 folds, got {cv}")
    n_splits = min(cv, int(np.bincount(codes).max()))
    if n_splits < 2:  # every class has one member: nothing can be judged
        return []
    with warnings.catch_warnings():
        # Classes smaller than the number of folds are expected here; `judged` deals with them.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(StratifiedKFold(n_splits).split(np.zeros(len(codes)), codes))


def out_of_fold(
    estimator: Any,
    X: Any,
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    *,
    given: NDArray[np.int64],
    folds: Iterable[tuple[NDArray[np.intp], NDArray[np.intp]]],
    fit_params: dict[str, Any],
    n_jobs: int | None = None,
) -> OutOfFold:
    """Train on `codes` in each fold; rows that several folds predict get the mean."""
    n, k = len(codes), len(classes)
    total, times = np.zeros((n, k)), np.zeros(n)
    judged = np.zeros(n, dtype=bool)
    usable = [(train, test) for train, test in folds if len(np.unique(codes[train])) > 1]
    parts: Any = Parallel(n_jobs=n_jobs)(
        delayed(_predict_fold)(clone(estimator), X, codes, classes, train, test, fit_params)
        for train, test in usable
    )
    for (train, test), probs in zip(usable, parts, strict=True):
        total[test] += probs
        times[test] += 1
        seen = np.bincount(codes[train], minlength=k) > 0
        judged[test] |= seen[given[test]]
    return OutOfFold(total / np.maximum(times, 1)[:, None], judged)


def _predict_fold(
    estimator: Any,
    X: Any,
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    fit_params: dict[str, Any],
) -> NDArray[np.float64]:
    part = _check_method_params(X, params=fit_params, indices=train)
    estimator.fit(_safe_indexing(X, train), classes[codes[train]], **part)
    return all_columns(estimator, _safe_indexing(X, test), classes)


def no_probabilities(estimator: Any) -> InputError:
    return InputError(f"estimator: expected a classifier with predict_proba, got {estimator!r}")


def all_columns(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """``predict_proba`` with one column per class, zeros for classes the estimator never saw."""
    if not hasattr(estimator, "predict_proba"):
        raise no_probabilities(estimator)
    probs = np.asarray(estimator.predict_proba(X))
    if np.array_equal(estimator.classes_, classes):
        return probs
    full = np.zeros((len(probs), len(classes)), dtype=probs.dtype)
    full[:, np.searchsorted(classes, estimator.classes_)] = probs
    return full

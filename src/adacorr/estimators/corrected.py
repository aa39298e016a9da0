"""A classifier that corrects its training labels before it learns from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import _safe_indexing  # pyright: ignore[reportAttributeAccessIssue]
from sklearn.utils.validation import _check_method_params, check_is_fitted

from adacorr.estimators.base import OutOfFoldCorrection
from adacorr.estimators.folds import all_columns
from adacorr.estimators.refit import trusted_rows


class CorrectedClassifier(ClassifierMixin, OutOfFoldCorrection):
    """Any probabilistic classifier, made robust to wrong training labels.

    `fit` predicts every training row by a model that did not see it, corrects the labels with
    these probabilities (:func:`adacorr.correct`) and refits `estimator` on the corrected labels.
    If labels were changed under "auto", the refit leaves out the changed rows and the doubtful
    ones, class by class (``trusted_``): where the model is poor, a row less is better than a wrong
    change. ``corrected_labels_`` has all rows.

    Parameters
    ----------
    estimator : a classifier with ``predict_proba``; a pipeline will do.
    delta : "auto", a threshold in (0, 1], or a (K, K) array; see :func:`adacorr.correct`.
    cv : number of stratified folds, a splitter, or (train, test) pairs. Rows that no fold tests
        keep their label.
    n_rounds : with 2 or more, the folds are predicted again by models trained on the corrected
        labels, and the given labels are corrected afresh with these better probabilities.
    n_jobs : folds in parallel, as everywhere in scikit-learn.

    Attributes
    ----------
    classes_ : (K,) the class labels, sorted.
    corrected_labels_ : (N,) the corrected labels of all training rows.
    correction_ : :class:`adacorr.Correction`, what was decided for each row and why.
    transition_ : (K, K) estimated noise, ``transition_[i, j] = P(given = j | true = i)``.
    trusted_ : (N,) boolean, the training rows that the refit learnt from.
    estimator_ : `estimator`, fitted on the corrected labels of these rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> noisy = y.copy()
    >>> noisy[[3, 60, 120]] = 2, 0, 0
    >>> model = CorrectedClassifier(LogisticRegression(max_iter=500), delta=0.2).fit(X, noisy)
    >>> model.corrected_labels_[[3, 60, 120]]
    array([0, 1, 2])
    """

    def __init__(
        self,
        estimator: Any,
        delta: Any = "auto",
        cv: Any = 5,
        n_rounds: int = 1,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.delta = delta
        self.cv = cv
        self.n_rounds = n_rounds
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, verified: Any = None, **fit_params: Any
    ):
        """Correct `y` out of fold and fit the estimator on the result.

        Parameters
        ----------
        X : samples, anything that `estimator` takes and that can be indexed by row.
        y : (N,) given labels, numbers or strings.
        sample_weight : (N,), passed to the estimator's fit and used when the correction is fitted.
        verified : what people said of single rows: an array of length N with gaps, or
            ``{row: label}``; see :func:`adacorr.correct`. Their rows keep that label, the answers
            choose the rule, and ``correction_.certificate`` says what they prove. With metadata
            routing (``set_fit_request(verified=True)``) pass an array: it is split like `y`.
        **fit_params : passed to the estimator's fit, split by fold where they have N entries; with
            metadata routing enabled, routed (also ``groups`` to a group splitter).
        """
        checked = self._correct(X, y, sample_weight, verified, fit_params)
        model: Any = clone(self.estimator)
        X, labels, params = checked.X, self.corrected_labels_, checked.fit_params
        self.trusted_ = trusted_rows(checked.y, self.correction_, checked.weight)
        self.trusted_[checked.verified] = True
        if not self.trusted_.all():
            rows = np.flatnonzero(self.trusted_)
            params = _check_method_params(X, params=params, indices=rows)
            X, labels = _safe_indexing(X, rows), labels[rows]
        self.estimator_ = model.fit(X, labels, **params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(M,) predicted labels."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(M, K) probabilities, columns in the order of ``classes_``."""
        check_is_fitted(self)
        return all_columns(self.estimator_, X, self.classes_)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))

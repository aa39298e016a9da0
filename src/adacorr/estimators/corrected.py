"""A classifier that corrects its training labels before it learns from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import (
    _routing_enabled,  # pyright: ignore[reportAttributeAccessIssue]
    get_routing_for_object,
)
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from adacorr.core.correct import Correction
from adacorr.estimators.base import OutOfFoldCorrection
from adacorr.estimators.folds import all_columns


class CorrectedClassifier(ClassifierMixin, OutOfFoldCorrection):
    """Any probabilistic classifier, made robust to wrong training labels.

    `fit` predicts every training row by a model that did not see it, corrects the labels with
    these probabilities (:func:`adacorr.correct`) and refits `estimator` on the corrected labels.
    If labels were changed under "auto" and the estimator (or the last step of a pipeline) takes
    ``sample_weight``, each row counts as much as its label is likely to be right. With metadata
    routing enabled, a pipeline must ask for it (``set_fit_request(sample_weight=True)``).

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
    corrected_labels_ : (N,) the labels that the final model was trained on.
    correction_ : :class:`adacorr.Correction`, what was decided for each row and why.
    transition_ : (K, K) estimated noise, ``transition_[i, j] = P(given = j | true = i)``.
    estimator_ : `estimator`, fitted on the corrected labels.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any):
        """Correct `y` out of fold and fit the estimator on the result.

        Parameters
        ----------
        X : samples, anything that `estimator` takes and that can be indexed by row.
        y : (N,) given labels, numbers or strings.
        sample_weight : (N,), passed to the estimator's fit and used when the correction is fitted.
        **fit_params : passed to the estimator's fit, split by fold where they have N entries; with
            metadata routing enabled, routed (also ``groups`` to a group splitter).
        """
        checked = self._correct(X, y, sample_weight, fit_params)
        model: Any = clone(self.estimator)
        params = weigh(model, checked.fit_params, self.correction_)
        self.estimator_ = model.fit(checked.X, self.corrected_labels_, **params)
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


def weigh(model: Any, params: dict[str, Any], correction: Correction) -> dict[str, Any]:
    """The parameters of the last fit: doubtful labels count less, where the model can do that.

    Beside hard labels, at 40% noise this gained 2 points for logistic regression on digits, changed
    nothing on Spambase, and for boosting gained 1 point on digits and lost 2 on Optdigits. Where
    nothing was changed there is nothing to hedge, and the fit stays the plain one. The whole
    distribution P(true | x, given), as a weighted row per class, was tried as well: no better for
    logistic regression, worse for boosting, and up to 3.5 times the rows.
    """
    name = weight_parameter(model)
    if correction.confidence is None or correction.n_flipped == 0 or name is None:
        return params
    # Rounded, because the last digits of the estimate depend on the order of the rows.
    sure = np.round(np.nan_to_num(correction.confidence, nan=1.0), 2)
    given = params.get(name)
    return {**params, name: sure if given is None else sure * np.asarray(given)}


def weight_parameter(model: Any) -> str | None:
    """The name under which ``model.fit`` takes sample weights, if it does."""
    if has_fit_parameter(model, "sample_weight"):
        return "sample_weight"
    if isinstance(model, Pipeline):
        if _routing_enabled():  # only as far as the steps ask for it
            asked = get_routing_for_object(model).consumes("fit", ["sample_weight"])
            return "sample_weight" if asked else None
        step, last = model.steps[-1]
        if has_fit_parameter(last, "sample_weight"):
            return f"{step}__sample_weight"
    return None

"""Labels in, corrected labels out, with a scikit-learn classifier as the judge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.validation import _check_feature_names, _check_n_features

from adacorr.core.validation import InputError
from adacorr.estimators.base import OutOfFoldCorrection


class LabelCorrector(OutOfFoldCorrection):
    """Correct labels with out-of-fold predictions of a classifier; no final model is trained.

    Parameters and the attributes ``classes_``, ``corrected_labels_``, ``correction_`` and
    ``transition_`` are those of :class:`CorrectedClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> noisy = y.copy()
    >>> noisy[[3, 60, 120]] = 2, 0, 0
    >>> corrector = LabelCorrector(LogisticRegression(max_iter=500), delta=0.2)
    >>> corrector.fit_transform(X, noisy)[[3, 60, 120]]
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
        """Correct `y`; parameters as in :meth:`CorrectedClassifier.fit`."""
        _check_feature_names(self, X, reset=True)
        _check_n_features(self, X, reset=True)
        self._correct(X, y, sample_weight, verified, fit_params)
        return self

    def fit_transform(
        self, X: Any, y: Any, sample_weight: Any = None, verified: Any = None, **fit_params: Any
    ) -> Any:
        """Correct `y` and return the corrected labels, (N,).

        After ``set_output(transform="pandas")`` (or "polars"): a frame with one row per sample and
        the columns given, label, ratio, flipped, suggested, confidence (NaN where there is none),
        with the index of `y`, or else of `X`, if that is a pandas object.
        """
        self.fit(X, y, sample_weight, verified, **fit_params)
        return self._wrap(X, y)

    def set_output(self, *, transform: str | None = None):
        """ "default" returns an array of labels, "pandas" or "polars" a frame with the reasons."""
        if transform not in (None, "default", "pandas", "polars"):
            raise InputError(
                f"transform: expected 'default', 'pandas' or 'polars', got {transform!r}"
            )
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # clone() copies this
        return self

    def _wrap(self, X: Any, y: Any) -> Any:
        config = getattr(self, "_sklearn_output_config", {})
        kind = config.get("transform", get_config()["transform_output"])
        if kind == "default":
            return self.corrected_labels_
        sure = self.correction_.confidence
        columns: dict[str, NDArray[Any]] = {
            "given": np.asarray(y).ravel(),
            "label": self.corrected_labels_,
            "ratio": self.correction_.ratio,
            "flipped": self.correction_.flipped,
            "suggested": self.correction_.suggested,
            "confidence": np.full(len(self.corrected_labels_), np.nan) if sure is None else sure,
        }
        if kind == "polars":
            import polars

            return polars.DataFrame(columns)
        import pandas

        indexed = (pandas.Series, pandas.DataFrame)  # a list has an `index` as well
        index = next((part.index for part in (y, X) if isinstance(part, indexed)), None)
        return pandas.DataFrame(columns, index=index)

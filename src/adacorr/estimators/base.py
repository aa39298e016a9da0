"""What the two scikit-learn wrappers share: given labels in, out-of-fold correction out."""

from __future__ import annotations

import dataclasses
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import Bunch, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,  # pyright: ignore[reportAttributeAccessIssue]
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from adacorr.core.answers import Answers, encode_answers
from adacorr.core.transition import estimate_transition
from adacorr.core.validation import InputError
from adacorr.correction.arrays import Correction, correct
from adacorr.estimators.folds import OutOfFold, make_folds, no_probabilities, out_of_fold
from adacorr.labels import Codec


class OutOfFoldCorrection(MetaEstimatorMixin, BaseEstimator):
    """Base of the wrappers; `fit` of a subclass calls :meth:`_correct`."""

    estimator: Any
    delta: Any
    cv: Any
    n_rounds: int
    n_jobs: int | None

    def _correct(
        self, X: Any, y: Any, sample_weight: Any, verified: Any, fit_params: dict[str, Any]
    ) -> Any:
        """Set the attributes that both wrappers promise; return checked inputs and routing."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if not isinstance(self.n_rounds, (int, np.integer)) or self.n_rounds < 1:
            raise InputError(f"n_rounds: expected an integer >= 1, got {self.n_rounds!r}")
        if not hasattr(type(self.estimator), "predict_proba"):
            raise no_probabilities(self.estimator)  # others may get it by being fitted
        X, y = indexable(X, y)
        y = column_or_1d(y, warn=True)
        if len(y) == 0:
            raise InputError("y: expected at least one sample, got none")
        check_classification_targets(y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, y)
        if weight is not None and weight.min() < 0:
            raise InputError(f"sample_weight: expected numbers >= 0, got {weight.min():g}")
        routed = self._route(weight, fit_params)
        self.classes_, given = np.unique(y, return_inverse=True)
        codec = Codec(tuple(map(str, self.classes_.tolist())), self.classes_)
        answers = encode_answers(verified, len(y), codec)
        decided, self.transition_ = self._decide(X, given, weight, routed, answers)
        self.correction_ = _named(decided, self.classes_)
        self.corrected_labels_ = self.correction_.labels
        return Bunch(
            X=X, y=y, weight=weight, fit_params=routed.estimator.fit, verified=answers.definite.rows
        )

    def _decide(
        self,
        X: Any,
        given: NDArray[np.int64],
        weight: NDArray[np.floating] | None,
        routed: Any,
        answers: Answers,
    ) -> tuple[Correction, NDArray[np.float64]]:
        decided, T = _unchanged(given), np.eye(len(self.classes_))
        if len(self.classes_) < 2:
            return decided, T
        folds = make_folds(self.cv, X, given, routed.splitter.split)
        for rounds_left in range(self.n_rounds - 1, -1, -1):
            oof = out_of_fold(
                self.estimator,
                X,
                decided.labels,
                self.classes_,
                given=given,
                folds=folds,
                fit_params=routed.estimator.fit,
                n_jobs=self.n_jobs,
            )
            # Later rounds start from a better model, but it is always the given label, the one
            # piece of evidence there is, that is kept or changed.
            # Answers come in at the end: the strata that they were asked from, and with them the
            # certificate, must rest on models that know nothing of the answers.
            known = answers if rounds_left == 0 else Answers.of([], [])
            decided, T = decide(given, oof, self.delta, weight, known)
        return decided, T

    def _route(self, weight: NDArray[np.floating] | None, fit_params: dict[str, Any]) -> Any:
        """Who gets which parameter: by metadata routing, else all to the estimator's fit."""
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=weight, **fit_params)
        if weight is not None:
            if "sample_weight" not in signature(self.estimator.fit).parameters:
                raise InputError(
                    "sample_weight: expected an estimator whose fit takes it, "
                    f"got {type(self.estimator).__name__} (in a pipeline pass "
                    "<step>__sample_weight, or enable metadata routing)"
                )
            fit_params = {**fit_params, "sample_weight": weight}
        if "groups" in fit_params and hasattr(self.cv, "split"):
            raise InputError(
                "groups: expected metadata routing to be enabled for a group splitter, got it "
                "disabled; call sklearn.set_config(enable_metadata_routing=True)"
            )
        return Bunch(splitter=Bunch(split={}), estimator=Bunch(fit=fit_params))

    def get_metadata_routing(self) -> MetadataRouter:
        """Routing: `fit` passes metadata to the estimator's fit and to the splitter of `cv`."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.string = inner.input_tags.string
        tags.target_tags.required = True
        tags.non_deterministic = inner.non_deterministic
        if tags.classifier_tags is not None and inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags


def decide(
    given: NDArray[np.int64],
    oof: OutOfFold,
    delta: Any,
    weight: NDArray[np.floating] | None,
    answers: Answers,
) -> tuple[Correction, NDArray[np.float64]]:
    """Correct the judged rows and estimate T; the other rows keep their label with ratio 1.

    Answers to rows that no fold judges choose and prove nothing; these rows get their label too.
    """
    counts = oof.judged.astype(np.int64)
    if weight is not None:
        counts *= as_counts(weight)
    rows = np.repeat(np.arange(len(given)), counts)  # a weight of 2 is the row twice
    if len(rows) == 0:
        return _verified(_unchanged(given), given, answers), np.eye(oof.pred_probs.shape[1])
    said = dict(zip(answers.rows.tolist(), answers.codes.tolist(), strict=True))
    places = [place for place, row in enumerate(rows.tolist()) if row in said] if said else []
    known = Answers.of(places, [said[row] for row in rows[places].tolist()])
    part = correct(given[rows], oof.pred_probs[rows], delta, verified=known)
    T = part.T if part.T is not None else estimate_transition(given[rows], oof.pred_probs[rows]).T
    return _verified(_spread(part, rows, given), given, answers), T


def as_counts(weight: NDArray[np.floating]) -> NDArray[np.int64]:
    """Weights as whole numbers of repetitions: exact if they are, else to about a tenth.

    >>> as_counts(np.array([0.0, 1.0, 3.0])), as_counts(np.array([0.0, 0.5, 1.5]))
    (array([0, 1, 3]), array([ 0,  5, 15]))
    """
    if np.array_equal(weight, np.rint(weight)) and weight.sum() <= 20 * len(weight):
        return weight.astype(np.int64)
    positive = weight > 0
    scaled = np.rint(weight * (10 / weight[positive].mean()))
    return np.where(positive, np.maximum(scaled, 1), 0).astype(np.int64)


def _unchanged(given: NDArray[np.int64]) -> Correction:
    n = len(given)
    return Correction(
        labels=given, ratio=np.ones(n), flipped=np.zeros(n, dtype=bool), suggested=given
    )


def _spread(part: Correction, rows: NDArray[np.intp], given: NDArray[np.int64]) -> Correction:
    """A correction of some rows, each as often as it weighs, as one of all rows, each once."""
    keep, first = np.unique(rows, return_index=True)

    def full(values: NDArray[Any], otherwise: Any) -> NDArray[Any]:
        out = np.empty(len(given), dtype=values.dtype)
        out[:] = otherwise
        out[keep] = values[first]
        return out

    result = dataclasses.replace(
        part,
        labels=full(part.labels, given),
        ratio=full(part.ratio, 1.0),
        flipped=full(part.flipped, False),
        suggested=full(part.suggested, given),
    )
    if part.confidence is None:
        return result
    result = dataclasses.replace(
        result,
        confidence=full(part.confidence, np.nan),
        to_review=None if part.to_review is None else full(part.to_review, False),
    )
    if part.noise_rate is None:
        return result
    doubt = 1 - part.confidence[first]
    flipped = part.flipped[first]
    return dataclasses.replace(
        result,
        expected_wrong_flips=float(doubt[flipped].sum()),
        expected_missed_errors=float(doubt[~flipped].sum()),
    )


def _verified(correction: Correction, given: NDArray[np.int64], answers: Answers) -> Correction:
    """With the labels that people verified, wherever they are."""
    if not answers:
        return correction
    labels = answers.applied(correction.labels)
    suggested = answers.applied(correction.suggested)
    return dataclasses.replace(
        correction, labels=labels, suggested=suggested, flipped=labels != given
    )


def _named(correction: Correction, classes: NDArray[Any]) -> Correction:
    return dataclasses.replace(
        correction, labels=classes[correction.labels], suggested=classes[correction.suggested]
    )

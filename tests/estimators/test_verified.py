"""Answers of people in the estimators: ``fit(X, y, verified=...)``."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, cross_val_score

import adacorr
from adacorr.core.validation import InputError
from adacorr.estimators import CorrectedClassifier, LabelCorrector


@pytest.fixture
def iris():
    X, truth = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    rng = np.random.default_rng(0)
    order = rng.permutation(len(truth))
    X, truth = np.asarray(X)[order], np.asarray(truth)[order]
    given = np.where(rng.random(150) < 0.2, rng.integers(0, 3, 150), truth)
    return X, names[given], names[truth]


def model():
    return LogisticRegression(max_iter=500)


@pytest.mark.parametrize("estimator", [CorrectedClassifier, LabelCorrector])
@pytest.mark.parametrize("form", ["dict", "array"])
def test_verified_rows_keep_their_label_and_certify_the_rest(iris, estimator, form):
    X, y, truth = iris
    f = np.asarray(cross_val_predict(model(), X, y, method="predict_proba"))
    rows = adacorr.ask(y, f, n=40)
    said = {int(row): truth[row] for row in rows}
    gaps = np.full(150, None, dtype=object)
    gaps[rows] = truth[rows]
    fitted = estimator(model()).fit(X, y, verified=said if form == "dict" else gaps)
    assert (fitted.corrected_labels_[rows] == truth[rows]).all()
    assert fitted.correction_.certificate.counted == 40
    expected = adacorr.correct(y, f, verified=said)
    assert fitted.correction_.certificate == expected.certificate
    assert (fitted.corrected_labels_ == expected.labels).all()


def test_the_refit_learns_from_verified_rows(iris):
    X, y, truth = iris
    said = {row: truth[row] for row in range(60)}
    fitted = CorrectedClassifier(model()).fit(X, y, verified=said)
    assert fitted.trusted_[:60].all()


def test_rows_that_no_fold_judges_are_put_right_too(iris):
    X, y, truth = iris
    folds = [(np.arange(20, 150), np.arange(10, 20)), (np.arange(10, 150), np.arange(10))]
    wrong = int(np.flatnonzero(y[20:] != truth[20:])[0]) + 20
    fitted = LabelCorrector(model(), cv=folds).fit(X, y, verified={wrong: truth[wrong]})
    assert fitted.corrected_labels_[wrong] == truth[wrong]
    assert fitted.correction_.flipped[wrong]


def test_no_answers_change_nothing(iris):
    X, y, _ = iris
    plain = LabelCorrector(model()).fit(X, y)
    empty = LabelCorrector(model()).fit(X, y, verified={})
    assert (plain.corrected_labels_ == empty.corrected_labels_).all()
    assert empty.correction_.certificate is None


def test_metadata_routing_splits_answers_with_the_rows(iris):
    X, y, truth = iris
    gaps = np.where(np.arange(150) % 3 == 0, truth, "")
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = CorrectedClassifier(model()).set_fit_request(verified=True)
        scores = cross_val_score(estimator, X, y, params={"verified": gaps})
    assert np.isfinite(scores).all()


def test_a_label_that_is_none_is_named(iris):
    X, y, _ = iris
    with pytest.raises(InputError, match="expected a label among setosa"):
        LabelCorrector(model()).fit(X, y, verified={0: "rose"})

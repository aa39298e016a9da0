import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from adacorr.estimators import CorrectedClassifier, LabelCorrector


@parametrize_with_checks([LabelCorrector(LogisticRegression())])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_same_labels_as_the_classifier_and_no_model(iris):
    X, _, given = iris
    corrector = LabelCorrector(LogisticRegression())
    labels = corrector.fit_transform(X, given)
    model = CorrectedClassifier(LogisticRegression()).fit(X, given)
    np.testing.assert_array_equal(labels, model.corrected_labels_)
    np.testing.assert_array_equal(corrector.transition_, model.transition_)
    assert not hasattr(corrector, "estimator_")


def test_frames_on_request(iris):
    X, _, given = iris
    y = pd.Series(given, index=np.arange(len(given)) + 1000)
    corrector = clone(LabelCorrector(LogisticRegression()).set_output(transform="pandas"))
    frame = corrector.fit_transform(X, y)
    columns = ["given", "label", "ratio", "flipped", "suggested", "confidence"]
    assert frame.columns.tolist() == columns
    np.testing.assert_array_equal(frame["confidence"], corrector.correction_.confidence)
    assert frame.index[0] == 1000
    np.testing.assert_array_equal(frame["flipped"], frame["given"] != frame["label"])
    with sklearn.config_context(transform_output="polars"):
        other = LabelCorrector(LogisticRegression()).fit_transform(X, given)
    assert isinstance(other, pl.DataFrame)
    assert other["label"].to_list() == frame["label"].tolist()


@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize("kind", [list, lambda y: pd.DataFrame({"y": y}, index=range(9, 159))])
def test_a_frame_from_labels_of_any_kind(iris, kind):
    X, _, given = iris
    y = kind(given)
    frame = LabelCorrector(LogisticRegression()).set_output(transform="pandas").fit_transform(X, y)
    assert frame["given"].tolist() == given.tolist()
    assert frame.index.tolist() == pd.DataFrame(y).index.tolist()


def test_a_frame_keeps_the_index_of_the_samples_and_may_lack_confidence(iris):
    X, _, given = iris
    samples = pd.DataFrame(X, index=range(9, 159))
    corrector = LabelCorrector(LogisticRegression(), delta=0.5).set_output(transform="pandas")
    frame = corrector.fit_transform(samples, given)
    assert frame.index.tolist() == samples.index.tolist()
    assert frame["confidence"].isna().all()


def test_unknown_output_is_refused():
    with pytest.raises(ValueError, match="transform: expected"):
        LabelCorrector(LogisticRegression()).set_output(transform="xml")

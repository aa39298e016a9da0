"""Every row is judged by models that saw neither the row nor, of its class, nothing."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from adacorr.core.validation import InputError
from adacorr.estimators.folds import all_columns, make_folds, out_of_fold


class Seen(ClassifierMixin, BaseEstimator):
    """Says with full confidence the class that was most frequent, and that it saw some rows."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.rows_, self.top_ = set(X[:, 0].tolist()), counts.argmax()
        return self

    def predict_proba(self, X):
        assert not self.rows_ & set(X[:, 0].tolist())
        return np.tile(np.eye(len(self.classes_))[self.top_], (len(X), 1))


def test_no_model_judges_a_row_that_it_saw_or_a_class_that_it_did_not():
    X = np.arange(31.0)[:, None]
    codes = np.array([0] * 15 + [1] * 15 + [2])  # one sample of class 2: no other fold shows it
    folds = make_folds(5, X, codes, {})
    found = out_of_fold(Seen(), X, codes, np.arange(3), given=codes, folds=folds, fit_params={})
    assert found.judged.tolist() == [True] * 30 + [False]
    np.testing.assert_allclose(found.pred_probs.sum(axis=1), 1)


def test_rows_in_several_folds_get_the_mean():
    X, codes = np.arange(8.0)[:, None], np.array([0, 0, 0, 1, 1, 1, 0, 1])
    every = np.arange(8)
    folds = [(every[:4], every[4:]), (every[2:6], every[6:]), (every[1:6], every[6:])]
    found = out_of_fold(Seen(), X, codes, np.arange(2), given=codes, folds=folds, fit_params={})
    np.testing.assert_allclose(found.pred_probs[7], [1 / 3, 2 / 3])
    assert found.judged.tolist() == [False] * 4 + [True] * 4


def test_an_integer_gives_way_to_small_classes_and_one_fold_is_refused():
    codes = np.array([0, 0, 0, 1])
    assert len(make_folds(5, np.zeros((4, 1)), codes, {})) == 3
    assert make_folds(5, np.zeros((2, 1)), np.array([0, 1]), {}) == []
    with pytest.raises(InputError, match="cv: expected at least 2 folds, got 1"):
        make_folds(1, np.zeros((4, 1)), codes, {})


def test_columns_of_classes_that_were_not_seen_are_nought():
    model = Seen().fit(np.zeros((3, 1)), np.array(["b", "d", "d"]))
    full = all_columns(model, np.ones((2, 1)), np.array(["a", "b", "c", "d"]))
    assert full.tolist() == [[0, 0, 0, 1]] * 2

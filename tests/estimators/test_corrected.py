import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import adacorr
from adacorr.estimators import CorrectedClassifier


@parametrize_with_checks(
    [
        CorrectedClassifier(LogisticRegression()),
        CorrectedClassifier(GaussianNB(), delta=0.5, cv=3, n_rounds=2),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_equals_the_steps_done_by_hand(iris):
    X, _, given = iris
    model = CorrectedClassifier(LogisticRegression(), cv=5).fit(X, given)
    f = cross_val_predict(LogisticRegression(), X, given, cv=5, method="predict_proba")
    by_hand = adacorr.correct(given, f)
    np.testing.assert_array_equal(model.corrected_labels_, by_hand.labels)
    np.testing.assert_allclose(model.correction_.ratio, by_hand.ratio)
    np.testing.assert_allclose(model.transition_, by_hand.T)
    rows = model.trusted_
    assert not rows[by_hand.flipped].any()
    assert 0 < by_hand.n_flipped <= (~rows).sum() < 50
    refit = LogisticRegression().fit(X[rows], given[rows])
    np.testing.assert_allclose(model.predict_proba(X), refit.predict_proba(X))


def test_without_an_estimate_of_confidence_every_row_counts(iris):
    X, _, given = iris
    model = CorrectedClassifier(KNeighborsClassifier(), delta=0.5).fit(X, given)
    assert model.correction_.flipped.any()
    assert model.trusted_.all()
    hard = KNeighborsClassifier().fit(X, model.corrected_labels_)
    np.testing.assert_array_equal(model.predict_proba(X), hard.predict_proba(X))


def test_clean_labels_give_the_plain_fit(iris):
    X, truth, _ = iris
    model = CorrectedClassifier(GaussianNB(), delta=1e-6).fit(X, truth)
    assert model.correction_.n_flipped == 0
    plain = GaussianNB().fit(X, truth)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_mends_labels_and_model(iris):
    X, truth, given = iris
    model = CorrectedClassifier(LogisticRegression()).fit(X, given)
    assert (model.corrected_labels_ == truth).mean() > (given == truth).mean() + 0.1
    assert model.score(X, truth) >= LogisticRegression().fit(X, given).score(X, truth)
    assert model.transition_.shape == (3, 3)
    np.testing.assert_allclose(model.transition_.sum(axis=1), 1)


def test_second_round_starts_from_the_corrected_labels(iris):
    X, _, given = iris
    first = CorrectedClassifier(LogisticRegression()).fit(X, given)
    second = CorrectedClassifier(LogisticRegression(), n_rounds=2).fit(X, given)
    f = np.empty((len(X), 3))
    for train, test in sklearn.model_selection.StratifiedKFold(5).split(X, given):
        fold = LogisticRegression().fit(X[train], first.corrected_labels_[train])
        f[test] = fold.predict_proba(X[test])
    np.testing.assert_array_equal(second.corrected_labels_, adacorr.correct(given, f).labels)


@pytest.mark.parametrize("names", [["a", "bb", "c"], [10, 20, 30], [0.0, 1.0, 2.0]])
def test_any_kind_of_label(iris, names):
    X, _, given = iris
    by_code = CorrectedClassifier(LogisticRegression()).fit(X, given)
    named = CorrectedClassifier(LogisticRegression()).fit(X, np.array(names)[given])
    np.testing.assert_array_equal(named.classes_, np.unique(names))
    np.testing.assert_array_equal(
        named.corrected_labels_, np.array(names)[by_code.corrected_labels_]
    )
    np.testing.assert_array_equal(named.predict(X), np.array(names)[by_code.predict(X)])


def test_input_is_not_changed_and_n_jobs_does_not_matter(iris):
    X, _, given = iris
    X_before, y_before = X.copy(), given.copy()
    one = CorrectedClassifier(RandomForestClassifier(20, random_state=0)).fit(X, given)
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        two = clone(one).set_params(n_jobs=2).fit(X, given)
    np.testing.assert_array_equal(one.corrected_labels_, two.corrected_labels_)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(given, y_before)


def test_pipelines_and_texts():
    texts = ["good happy fine", "bad sad poor"] * 100
    given = ["pos", "neg"] * 100
    for row in range(0, 40, 2):  # 40 wrong ones: a few might be errors of the model
        given[row], given[row + 3] = "neg", "pos"
    model = CorrectedClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    model.fit(texts, given)
    assert model.corrected_labels_.tolist() == given  # two texts with exceptions: either reading
    answers = {row: ["pos", "neg"][row % 2] for row in range(0, 200, 4)}
    model.fit(texts, given, verified=answers)
    assert model.corrected_labels_.tolist() == ["pos", "neg"] * 100
    assert model.predict(["happy happy", "so sad"]).tolist() == ["pos", "neg"]


def test_inside_pipeline_grid_search_and_cross_validation(iris):
    X, truth, given = iris
    pipe = make_pipeline(StandardScaler(), CorrectedClassifier(LogisticRegression()))
    assert cross_val_score(pipe, X, given, cv=3).mean() > 0.6
    grid = {"correctedclassifier__delta": [0.5, "auto"], "correctedclassifier__estimator__C": [1.0]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, given)
    assert search.score(X, truth) > 0.9


def test_pickle_and_clone(iris):
    X, _, given = iris
    model = CorrectedClassifier(LogisticRegression(), delta=0.7, n_rounds=2).fit(X, given)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.correction_.ratio, model.correction_.ratio)
    fresh = clone(model)
    assert fresh.get_params()["delta"] == 0.7
    assert not hasattr(fresh, "estimator_")


def test_data_frames_keep_their_feature_names(iris):
    X, _, given = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = CorrectedClassifier(LogisticRegression()).fit(frame, pd.Series(given))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.n_features_in_ == 4


def test_small_classes_are_kept_not_judged():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (20, 2)), rng.normal(6, 1, (20, 2)), [[0, 0]]])
    given = np.array(["a"] * 20 + ["b"] * 20 + ["only"])
    model = CorrectedClassifier(LogisticRegression(), delta=0.9).fit(X, given)
    assert model.corrected_labels_[-1] == "only"
    assert model.correction_.ratio[-1] == 1
    assert model.predict_proba(X).shape == (41, 3)


def test_a_class_that_vanishes_keeps_its_column():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (40, 2)), rng.normal(6, 1, (40, 2)), rng.normal(0, 1, (2, 2))])
    given = np.array([0] * 40 + [1] * 40 + [2] * 2)  # two rows of class 2 amid class 0
    model = CorrectedClassifier(GaussianNB(), delta=0.9, cv=2).fit(X, given)
    assert 2 not in model.corrected_labels_
    probs = model.predict_proba(X)
    assert probs.shape == (82, 3)
    assert (probs[:, 2] == 0).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1)


def test_one_sample_per_class_and_one_class():
    model = CorrectedClassifier(GaussianNB()).fit([[0.0], [1.0]], ["a", "b"])
    assert model.corrected_labels_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="class"):
        CorrectedClassifier(LogisticRegression()).fit([[0.0], [1.0]], ["a", "a"])


def test_rows_outside_every_test_fold_keep_their_labels(iris):
    X, _, given = iris
    half = np.arange(len(X)) < 75
    folds = [(np.flatnonzero(~half), np.flatnonzero(half))]
    model = CorrectedClassifier(LogisticRegression(), delta=0.9, cv=folds).fit(X, given)
    assert model.correction_.flipped[half].any()
    np.testing.assert_array_equal(model.corrected_labels_[~half], given[~half])


def test_sample_weight_is_the_same_as_repeating_rows():
    X, y = make_classification(300, flip_y=0.3, class_sep=2.0, random_state=0)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    fold = np.arange(len(y)) % 3
    repeat = np.repeat(np.arange(len(y)), weight)
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    pairs_repeated = [
        (np.flatnonzero(fold[repeat] != k), np.flatnonzero(fold[repeat] == k)) for k in range(3)
    ]
    weighted = CorrectedClassifier(LogisticRegression(), cv=pairs).fit(X, y, sample_weight=weight)
    repeated = CorrectedClassifier(LogisticRegression(), cv=pairs_repeated)
    repeated.fit(X[repeat], y[repeat])
    assert weighted.correction_.flipped.any()
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5)
    np.testing.assert_array_equal(weighted.corrected_labels_[repeat], repeated.corrected_labels_)
    np.testing.assert_array_equal(weighted.trusted_[repeat], repeated.trusted_)


def test_sample_weight_that_cannot_be_used_is_refused(iris):
    X, _, given = iris
    with pytest.raises(ValueError, match="sample_weight: expected numbers >= 0, got -1"):
        CorrectedClassifier(LogisticRegression()).fit(X, given, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="sample_weight: expected an estimator whose fit takes it"):
        CorrectedClassifier(KNeighborsClassifier()).fit(X, given, sample_weight=np.ones(len(X)))


def test_fit_parameters_reach_a_pipeline_step(iris):
    X, _, given = iris
    weight = np.where(given == 0, 5.0, 1.0)
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    through = CorrectedClassifier(pipe, delta=0.5)
    through.fit(X, given, logisticregression__sample_weight=weight)
    plain = CorrectedClassifier(clone(pipe), delta=0.5).fit(X, given)
    assert not np.allclose(through.predict_proba(X), plain.predict_proba(X))


def test_groups_need_metadata_routing(iris):
    model = CorrectedClassifier(LogisticRegression(), cv=GroupKFold(3))
    with pytest.raises(ValueError, match="groups: expected metadata routing to be enabled"):
        model.fit(iris[0], iris[2], groups=np.arange(len(iris[0])) // 5)


def test_metadata_routing(iris):
    X, _, given = iris
    groups = np.arange(len(X)) // 5
    weight = np.random.default_rng(0).random(len(X)) + 0.5
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression().set_fit_request(sample_weight=True),
        )
        model = CorrectedClassifier(pipe, cv=GroupKFold(5), delta=0.5)
        model.set_fit_request(sample_weight=True)
        model.fit(X, given, sample_weight=weight, groups=groups)
        grouped = list(GroupKFold(5).split(X, given, groups))
    by_hand = CorrectedClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), cv=grouped, delta=0.5
    ).fit(X, given, logisticregression__sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X), by_hand.predict_proba(X))


def test_classifiers_that_get_predict_proba_by_being_fitted(iris):
    X, truth, given = iris
    stack = StackingClassifier([("nb", GaussianNB())], cv=2)
    assert not hasattr(stack, "predict_proba")
    assert CorrectedClassifier(stack, cv=2).fit(X, given).score(X, truth) > 0.8


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cv": 1}, "cv: expected at least 2 folds, got 1"),
        ({"n_rounds": 0}, "n_rounds: expected an integer >= 1, got 0"),
        ({"delta": 2.0}, "delta: expected"),
        ({"delta": "x"}, "delta: expected"),
        ({"estimator": object()}, "estimator: expected a classifier with predict_proba"),
        ({"estimator": LinearSVC()}, "estimator: expected a classifier with predict_proba"),
        ({"estimator": SGDClassifier()}, "estimator: expected a classifier with predict_proba"),
    ],
)
def test_bad_parameters_say_what_was_expected(iris, params, message):
    X, _, given = iris
    with pytest.raises(ValueError, match=message):
        CorrectedClassifier(**{"estimator": GaussianNB(), **params}).fit(X, given)


def test_continuous_targets_are_refused(iris):
    X, _, _ = iris
    with pytest.raises(ValueError, match="Unknown label type"):
        CorrectedClassifier(GaussianNB()).fit(X, X[:, 0])

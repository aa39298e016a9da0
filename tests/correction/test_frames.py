import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cleanlab.classification import CleanLearning
from cleanlab.count import estimate_py_noise_matrices_and_cv_pred_proba
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import adacorr
from adacorr.correction.frames import correct_frame, to_cleanlab

NAMES = ["setosa", "versicolor", "virginica"]


@pytest.fixture(scope="module")
def sample():
    X, truth = load_iris(return_X_y=True)
    given = adacorr.noise.inject(truth, adacorr.noise.uniform(3, 0.15), rng=0)
    f = cross_val_predict(LogisticRegression(max_iter=500), X, given, cv=5, method="predict_proba")
    return X, given, f, adacorr.correct(given, f)


def as_lists(frame, column):
    values = frame[column]
    return values.to_pylist() if isinstance(values, pa.ChunkedArray) else list(values)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, datasets.Dataset.from_dict])
@pytest.mark.parametrize("how", ["array", "lists", "columns"])
def test_every_frame_and_every_layout_gives_the_same(sample, make, how):
    _, given, f, expected = sample
    names = np.array(NAMES)
    columns = {"label": names[given].tolist(), "keep": list(range(len(given)))}
    if how == "lists":
        columns["p"] = f.tolist()
    if how == "columns":
        columns |= {f"p{j}": f[:, j].tolist() for j in range(3)}
    frame = make(columns)
    before = as_lists(frame, "label")
    out = correct_frame(frame, {"array": f, "lists": "p", "columns": ["p0", "p1", "p2"]}[how])
    assert type(out) is type(frame)
    assert as_lists(out, "adacorr_label") == names[expected.labels].tolist()
    assert as_lists(out, "adacorr_flipped") == expected.flipped.tolist()
    np.testing.assert_allclose(as_lists(out, "adacorr_ratio"), expected.ratio)
    np.testing.assert_allclose(as_lists(out, "adacorr_confidence"), expected.confidence)
    assert as_lists(out, "keep") == list(range(len(given)))
    assert as_lists(frame, "label") == before


def test_class_label_features_stay_class_labels(sample):
    _, given, f, expected = sample
    data = datasets.Dataset.from_dict({"label": given.tolist()}).cast_column(
        "label", datasets.ClassLabel(names=NAMES)
    )
    out = correct_frame(data, f)
    assert out.features["adacorr_label"] == data.features["label"]
    assert out["adacorr_label"][:] == expected.labels.tolist()


def test_categoricals_and_the_index_of_pandas_are_kept(sample):
    _, given, f, expected = sample
    order = ["virginica", "versicolor", "setosa"]  # the columns of f in this order
    label = pd.Categorical(np.array(NAMES)[given], categories=order)
    frame = pd.DataFrame({"label": label}, index=np.arange(len(given)) * 2)
    out = correct_frame(frame, f[:, ::-1], delta="auto")
    assert out.index.tolist() == frame.index.tolist()
    assert out["adacorr_label"].dtype == frame["label"].dtype
    agree = out["adacorr_label"].to_numpy() == np.array(NAMES)[expected.labels]
    assert agree.mean() > 0.98


ORDERS = [[2, 1, 0], [1, 2, 0]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, datasets.Dataset.from_dict])
@pytest.mark.parametrize("order", ORDERS)
def test_columns_named_by_the_classes_may_stand_in_any_order(sample, make, order):
    _, given, f, expected = sample
    columns = {f"p_{NAMES[j]}": f[:, j].tolist() for j in order}
    frame = make({"label": np.array(NAMES)[given].tolist(), **columns})
    out = correct_frame(frame, list(columns))
    assert as_lists(out, "adacorr_label") == np.array(NAMES)[expected.labels].tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_columns_and_the_labels_type_may_state_different_orders(sample, order):
    _, given, f, expected = sample
    text = np.array(NAMES)[given]
    columns = {f"p_{NAMES[j]}": f[:, j] for j in order}
    kinds = {
        "category": pd.DataFrame({"label": pd.Categorical(text, NAMES[::-1]), **columns}),
        "enum": pl.DataFrame({"label": pl.Series(text, dtype=pl.Enum(NAMES[::-1])), **columns}),
    }
    for frame in kinds.values():
        out = correct_frame(frame, list(columns))
        assert out["adacorr_label"].dtype == frame["label"].dtype
        assert out["adacorr_label"].to_list() == np.array(NAMES)[expected.labels].tolist()
    data = datasets.Dataset.from_dict({"label": given.tolist(), **columns})
    data = data.cast_column("label", datasets.ClassLabel(names=NAMES))
    assert correct_frame(data, list(columns))["adacorr_label"][:] == expected.labels.tolist()


def test_an_enum_of_polars_states_the_order_and_stays(sample):
    _, given, f, expected = sample
    order = pl.Enum(NAMES[::-1])
    frame = pl.DataFrame({"label": pl.Series(np.array(NAMES)[given], dtype=order)})
    out = correct_frame(frame, f[:, ::-1])
    assert out["adacorr_label"].dtype == order
    assert out["adacorr_label"].to_list() == np.array(NAMES)[expected.labels].tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f: correct_frame(pl.DataFrame({"label": [1]}).lazy(), f),
            r"got LazyFrame; call \.collect\(\) first",
        ),
        (
            lambda f: correct_frame(datasets.DatasetDict(), f),
            "got DatasetDict; pass one split at a time",
        ),
        (
            lambda f: correct_frame(pl.DataFrame({"label": [1], "adacorr_label": [1]}), f),
            "expected a table without output columns, got column 'adacorr_label'",
        ),
        *(
            (
                lambda f, make=make: correct_frame(make({"label": ["a", None, "b"]}), f[:3]),
                "column 'label': expected a label in every row, got none in row 1",
            )
            for make in (pd.DataFrame, pl.DataFrame, pa.table, datasets.Dataset.from_dict)
        ),
        (lambda f: correct_frame([1, 2], f), "frame: expected a pandas, polars"),
        (lambda f: correct_frame(pl.DataFrame({"a": [1]}), f), "label: expected one of"),
        (
            lambda f: correct_frame(pl.DataFrame({"label": [1]}), "p"),
            "pred_probs: expected columns of",
        ),
        (
            lambda f: correct_frame(pl.DataFrame({"label": [1]}), f),
            "labels and pred_probs: expected the same length, got 1 and 150",
        ),
    ],
)
def test_bad_input_is_one_line(sample, call, message):
    with pytest.raises(ValueError, match=message):
        call(sample[2])


@pytest.mark.parametrize("names", [np.array, pd.Index, tuple, pl.Series])
def test_names_of_columns_in_any_1d_array(sample, names):
    _, given, f, expected = sample
    frame = pd.DataFrame(f, columns=NAMES).assign(label=np.array(NAMES)[given])
    out = correct_frame(frame, names(NAMES))
    assert out["adacorr_label"].tolist() == np.array(NAMES)[expected.labels].tolist()


def test_withheld_changes_are_for_review(sample):
    _, given, f, _ = sample
    expected = adacorr.correct(given, f, max_flip_error=0.05)
    assert expected.to_review.any()
    out = correct_frame(pd.DataFrame({"label": given}), f, max_flip_error=0.05)
    np.testing.assert_array_equal(out["adacorr_review"], expected.to_review)
    issues = to_cleanlab(given, expected)["is_label_issue"]
    np.testing.assert_array_equal(issues, expected.flipped | expected.to_review)


def test_cleanlab_takes_the_issues(sample):
    X, given, _, expected = sample
    issues = to_cleanlab(given, expected)
    own = CleanLearning(LogisticRegression(max_iter=500), seed=0).find_label_issues(X, given)
    assert set(issues.columns) <= set(own.columns)
    assert issues.dtypes["is_label_issue"] == own.dtypes["is_label_issue"]
    model = CleanLearning(LogisticRegression(max_iter=500)).fit(X, given, label_issues=issues)
    used = model.get_label_issues()
    np.testing.assert_array_equal(used["is_label_issue"], expected.flipped)


def test_the_noise_matrix_of_cleanlab_is_our_transpose(sample):
    X, given, f, _ = sample
    theirs = estimate_py_noise_matrices_and_cv_pred_proba(
        X, given, LogisticRegression(max_iter=500), seed=0
    )[1]
    ours = adacorr.estimate_transition(given, f).T
    np.testing.assert_allclose(theirs.sum(axis=0), 1)
    np.testing.assert_allclose(ours.sum(axis=1), 1)
    np.testing.assert_allclose(theirs, ours.transpose(), atol=0.1)


def test_lengths_are_checked(sample):
    with pytest.raises(ValueError, match="labels: expected 150"):
        to_cleanlab([0, 1], sample[3])


def test_an_index_in_another_order_is_refused(sample):
    """The rows went together by position without a word."""
    _, given, f, expected = sample
    frame = pd.DataFrame({"label": given}, index=[f"r{i}" for i in range(len(given))])
    probs = pd.DataFrame(f, index=frame.index)
    assert correct_frame(frame, probs)["adacorr_label"].tolist() == expected.labels.tolist()
    for other in (probs[::-1], pd.DataFrame(f[::-1])):
        if other is not probs and other.index.dtype == "int64":
            continue  # numbered anew: by position
        with pytest.raises(ValueError, match="expected the index of the frame"):
            correct_frame(frame, other)
    shuffled = pd.DataFrame({"label": given}).sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match="expected the index of the frame"):
        correct_frame(shuffled, pd.DataFrame(f))

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacorr.core.validation import InputError
from adacorr.data import from_arrays

X = np.zeros((4, 3), np.float32)


@given(st.lists(st.sampled_from(["ant", "bee", "cat"]), min_size=2, max_size=20))
@settings(max_examples=30, deadline=None)
def test_names_and_codes_give_the_labels_back(labels: list[str]) -> None:
    if len(set(labels)) < 2:
        labels = [*labels, "zebra", "yak"]
    data = from_arrays(np.zeros((len(labels), 2)), labels)
    assert [data.class_names[code] for code in data.labels] == labels


def test_integers_keep_their_numbers_as_names() -> None:
    data = from_arrays(X, [1, 3, 3, 2])
    assert data.class_names == ("1", "2", "3")
    assert data.labels.tolist() == [0, 2, 2, 1]


def test_integers_index_given_names() -> None:
    data = from_arrays(X, [2, 0, 0, 2], class_names=("a", "b", "c"), truth=["a", "a", "b", "c"])
    assert data.labels.tolist() == [2, 0, 0, 2]
    assert data.truth is not None
    assert data.truth.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("shape", "dtype", "stored", "kind"),
    [
        ((4, 7), np.int64, (7,), np.float32),
        ((4, 9, 8), np.uint8, (9, 8, 1), np.uint8),
        ((4, 9, 8, 3), np.uint8, (9, 8, 3), np.uint8),
        ((4, 3, 9, 8), np.uint8, (9, 8, 3), np.uint8),
        ((4, 16, 3), np.float64, (16, 3), np.float32),
        ((4, 9, 8, 1), np.float32, (9, 8, 1), np.uint8),
    ],
)
def test_forms_of_features(shape, dtype, stored, kind) -> None:
    data = from_arrays(np.ones(shape, dtype), [0, 1, 0, 1])
    assert data.input_shape == stored
    assert np.asarray(data.features).dtype == kind


def test_fractions_become_grey_levels() -> None:
    data = from_arrays(np.full((2, 4, 4), 0.5), [0, 1])
    assert set(np.asarray(data.features).ravel().tolist()) == {128}
    data = from_arrays(np.full((2, 4, 4), 77.0), [0, 1])
    assert set(np.asarray(data.features).ravel().tolist()) == {77}


def test_channels_first_images_keep_their_pixels() -> None:
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 6), dtype=np.uint8)
    data = from_arrays(x, [0, 1])
    assert np.array_equal(np.asarray(data.features)[1, 2, 3], x[1, :, 2, 3])


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (X, [0, 0, 0, 0], "expected at least 2 classes, got only 0"),
        (X, [0, 1, -1, 0], "expected classes >= 0, got -1 in row 2"),
        (X, [0, 1], "expected the same length, got 4 and 2"),
        (X, [0.5, 1, 1, 0], "expected integers or strings, got dtype float64"),
        (X, np.array([1, "a", None, 2], object), "all integers or all strings"),
        (X, [[0, 1], [1, 0]], r"expected shape \(N,\)"),
        (X[:0], [0], r"got \(0, 3\)"),
        (X.astype(str), [0, 1, 0, 1], "expected numbers, got dtype"),
        (np.full((2, 2), np.nan), [0, 1], r"got NaN or inf at \[0, 0\]"),
        (np.full((2, 4, 4), 300), [0, 1], "expected pixels in .*, got 300 to 300"),
        (np.zeros((2, 4, 4, 5)), [0, 1], "1 or 3 channels"),
        (np.zeros((2, 4, 4, 3, 1)), [0, 1], "1 or 3 channels"),
    ],
)
def test_bad_arrays_are_explained(features, labels, message) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(features, labels)


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 1, 2, 1], ("a", "b"), r"expected integers in \[0, 2\), got 2 in row 2"),
        (["a", "b", "x", "a"], ("a", "b"), "expected labels among a, b, got 'x' in row 2"),
        ([0, 1, 0, 1], ("a", "a"), "expected at least 2 distinct names"),
        ([0, 0, 0, 0], ("a",), "expected at least 2 distinct names"),
    ],
)
def test_labels_outside_the_classes(labels, names, message) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(X, labels, class_names=names)


def test_truth_is_checked_too() -> None:
    with pytest.raises(InputError, match="truth: expected length 4, got 1"):
        from_arrays(X, [0, 1, 0, 1], truth=[0])
    with pytest.raises(InputError, match=r"truth: expected .*, got 7 in row 1"):
        from_arrays(X, [0, 1, 0, 1], truth=[0, 7, 0, 0])

"""Answers in every form that users have them."""

import numpy as np
import pytest

from adacorr.core.answers import Answers, class_codes, encode_answers
from adacorr.core.validation import InputError
from adacorr.labels import Codec, encode_labels

NAMES = encode_labels(["cat", "dog", "fox", "cat"], 3).codec
CODES = encode_labels([0, 1, 2, 0], 3).codec


def said(verified, given):
    answers = encode_answers(verified, 4, given)
    return dict(zip(answers.rows.tolist(), answers.codes.tolist(), strict=True))


@pytest.mark.parametrize(
    ("verified", "given", "expected"),
    [
        ({3: "dog", 0: "cannot tell"}, NAMES, {0: -1, 3: 1}),
        ({np.int64(3): np.str_("dog")}, NAMES, {3: 1}),
        (["dog", None, "", float("nan")], NAMES, {0: 1}),
        (np.array(["dog", "", "", "fox"]), NAMES, {0: 1, 3: 2}),
        (np.array([2, -1, 0, -1]), CODES, {0: 2, 2: 0}),
        (np.array([2, np.nan, 0, np.nan]), CODES, {0: 2, 2: 0}),
        (np.ma.array([2, 1, 0, 1], mask=[0, 1, 1, 1]), CODES, {0: 2}),
        ({1: "2", 2: 1.0, 3: True}, CODES, {1: 2, 2: 1, 3: 1}),
        ([None, 2, "cannot tell", None], CODES, {1: 2, 2: -1}),
        (None, CODES, {}),
        ({}, CODES, {}),
    ],
)
def test_every_form_reads_the_same(verified, given, expected):
    assert said(verified, given) == expected


def test_labels_that_index_names_may_be_answered_by_either():
    given = encode_labels([0, 1, 2], 3, ["cat", "dog", "fox"]).codec
    answers = encode_answers({0: "fox", 1: 0}, 3, given)
    assert answers.codes.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("verified", "text"),
    [
        ({4: "dog"}, "expected row numbers 0 to 3, got 4"),
        ({-1: "dog"}, "expected row numbers 0 to 3, got -1"),
        ({"a": "dog"}, "expected row numbers 0 to 3, got 'a'"),
        (
            {0: "wolf"},
            "expected a label among cat, dog, fox, or 'cannot tell', got 'wolf' for row 0",
        ),
        (["dog"], "expected {row: label} or an array of length 4 with gaps"),
        (Answers.of([9], [0]), "expected rows 0 to 3"),
        (Answers.of([0], [3]), "expected class indices up to 2"),
        (Answers.of([0, 0], [1, 1]), "expected ascending rows"),
    ],
)
def test_what_cannot_be_an_answer_is_named(verified, text):
    with pytest.raises(InputError) as caught:
        encode_answers(verified, 4, NAMES)
    assert text in str(caught.value)


def test_answers_are_put_in_place_and_inputs_stay_unchanged():
    answers = Answers.of([5, 2, 3], [1, 0, -1])
    codes = np.array([2, 2, 2, 2])
    assert answers.applied(codes, first_row=2).tolist() == [0, 2, 2, 1]
    assert codes.tolist() == [2, 2, 2, 2]
    assert answers.definite.rows.tolist() == [2, 5]
    assert answers.between(3, 5).rows.tolist() == [3]
    assert not Answers.of([], [])


@pytest.mark.parametrize("names", [["0", "2", "1"], ["1", "10", "2"], ["2.0", "1.0", "0.0"]])
def test_an_answer_means_the_name_where_names_are_numbers(names):
    """A run's own labels are indices; read as one of these, "10" was the class "2"."""
    codec = Codec.of_indices(names)
    padded = [f"{float(name):04.1f}" for name in names]
    for said in (
        names,
        padded,
        [float(name) for name in names],
        [int(float(name)) for name in names],
    ):
        given = dict(enumerate(said))
        assert encode_answers(given, 3, codec).codes.tolist() == [0, 1, 2]
    if "0" not in class_codes(codec):
        with pytest.raises(InputError, match="expected a label among"):
            encode_answers({0: 0}, 3, codec)


def test_names_that_differ_in_their_zeros_stay_apart():
    codec = Codec.of_indices(["03", "3.0", "4"])
    assert encode_answers({0: "03", 1: "3.0", 2: 4}, 3, codec).codes.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="got 3 for row 0"):
        encode_answers({0: 3}, 3, codec)

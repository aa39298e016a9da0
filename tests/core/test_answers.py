"""Answers in every form that users have them."""

import numpy as np
import pytest

from adacorr.core.answers import Answers, encode_answers
from adacorr.core.validation import InputError
from adacorr.labels import encode_labels

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

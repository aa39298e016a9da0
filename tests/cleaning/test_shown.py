"""What `clean` found, in a notebook."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

import adacorr


@pytest.fixture(scope="module")
def digits():
    pixels, truth = load_digits(return_X_y=True, as_frame=False)
    pixels = (pixels[:200].reshape(-1, 8, 8, 1) * 15).astype(np.uint8)
    return adacorr.clean(pixels, np.char.add("digit ", truth[:200].astype(str)))


def test_images_are_shown_with_their_suspects(digits):
    page = digits._repr_html_()
    rows = [int(row) for row in re.findall(r'alt="row (\d+)"', page)]
    assert rows == digits.suspects(10).tolist()
    assert page.count("data:image/png;base64,iVBOR") == 10
    assert f">{digits.correction.given[rows[0]]}<" in page
    assert digits.correction.given[rows[0]].startswith("digit ")


def test_repr_is_a_line_with_the_note(digits):
    assert digits.correction.note in repr(digits)
    assert "\n" not in repr(digits)
    assert len(repr(digits)) < 1000


def test_values_are_words_and_everything_is_escaped():
    values, labels = load_iris(return_X_y=True)
    found = adacorr.clean(values, np.array(["a", "<i>", "c"])[labels])
    page = found._repr_html_()
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
    assert "<img" not in page
    assert found.plot().axes

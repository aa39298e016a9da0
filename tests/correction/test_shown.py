"""A correction in a notebook."""

import re

import numpy as np
import pytest

import adacorr
from adacorr.plotting import to_svg


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 600)
    given = np.where(rng.random(600) < 0.2, (truth + 1) % 4, truth)
    f = rng.dirichlet(np.full(4, 0.5), 600) * 0.3
    f[np.arange(600), truth] += 0.7
    names = np.array(["<b>", "cat", "dog", "$x$"])
    return names[given], adacorr.correct(names[given], f, delta=0.9, classes=names.tolist())


def test_the_table_shows_the_suspects_in_order_and_escapes_names(found):
    given, result = found
    html = result._repr_html_()
    rows = [int(row) for row in re.findall(r"<tr><td [^>]*>(\d+)</td>", html)]
    assert rows == [one.row for one in result.suspects(10)]
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    first = result.suspects(1)[0]
    assert f">{given[first.row]}<".replace("<b>", "&lt;b&gt;") in html
    np.testing.assert_array_equal(result.given, given)


def test_the_plot_has_the_ranking_and_the_changes(found):
    _, result = found
    figure = result.plot()
    ranking, matrix = figure.axes[:2]
    doubt = ranking.lines[0].get_ydata()
    assert (np.diff(doubt) <= 0).all()
    assert len(doubt) == 600
    assert int(matrix.images[0].get_array().sum()) == result.n_flipped
    assert "no label was changed" not in to_svg(figure)


def test_without_changes_the_plot_says_so():
    result = adacorr.correct([0, 1] * 10, np.tile([[0.9, 0.1], [0.1, 0.9]], (10, 1)), delta=0.5)
    assert "no label was changed" in to_svg(result.plot())


def test_repr_includes_the_note():
    result = adacorr.correct([0, 1] * 10, np.tile([[0.9, 0.1], [0.1, 0.9]], (10, 1)))
    assert result.note
    assert result.note in repr(result)
    assert result.note.replace("'", "&#x27;") in result._repr_html_()

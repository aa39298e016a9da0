import re

import numpy as np
import pytest

from adacorr.paper.theory import figures, synthetic
from adacorr.paper.theory.run_pair import compare, match_runs
from adacorr.plotting import to_svg
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData


def words(figure):
    return " ".join(re.findall(r">([^<>]+)</t", to_svg(figure)))


@pytest.fixture(scope="module")
def result():
    return synthetic.run_synthetic(seed=0, samples=2000, tsne=60)


def test_every_synthetic_figure_says_what_it_shows(result):
    shown = words(figures.draw_tsybakov(result.fit, "|η - 1/2|"))
    assert "share with margin" in shown
    assert "upper envelope" in shown
    assert "τ₁₀ = 0.2, τ₀₁ = 0" in words(figures.draw_bounds(result.bounds))
    shown = words(figures.draw_corrections(result.corrections))
    for tau10, tau01 in synthetic.PAIRS:
        assert f"τ₁₀ = {tau10:g}, τ₀₁ = {tau01:g}" in shown
    assert "printed in the paper" in shown
    assert "class 1" in words(figures.draw_embedding(result.embedding))


def test_curves_in_the_picture_are_the_numbers(result):
    axes = figures.draw_bounds(result.bounds).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    curve = result.bounds["symmetric"]
    assert np.array_equal(lines["observed, worst classifier within ε"], curve.worst)
    assert np.array_equal(lines["bound, constants of the upper envelope"], curve.envelope_bound)


def test_illustration_has_four_panels():
    figure = figures.draw_illustration(synthetic.run_illustration())
    titles = [axes.get_title(loc="left")[:3] for axes in figure.axes]
    assert titles == ["(a)", "(b)", "(c)", "(d)"]


def test_pair_figure_shows_both_observed_shares(pair):
    noisy, clean, _ = pair()
    joined = match_runs(*(RunData.open(Run.open(path)) for path in (noisy, clean)))
    result = compare(joined)
    shown = words(figures.draw_pair(result))
    assert f"low confidence, label right: {result.low:.3f}" in shown
    assert f"high confidence, label right: {result.high:.3f}" in shown

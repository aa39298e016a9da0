"""Draws what the modules ``synthetic`` and ``run_pair`` beside it compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adacorr.plotting import GREY, PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from adacorr.paper.theory.run_pair import PairResult
    from adacorr.paper.theory.synthetic import BoundCurve, CorrectionCurve, Embedding, Illustration
    from adacorr.paper.theory.tsybakov import TsybakovFit

CLASS_COLOURS = (PALETTE["blue"], PALETTE["orange"])
EPS_LABEL = "ε: largest error of the classifier's probabilities"


def draw_tsybakov(fit: TsybakovFit, margin: str) -> Figure:
    """Share of samples close to the decision boundary, with the fitted power law."""
    figure = new_figure(6.4, 4.4)
    axes = figure.subplots()
    _tsybakov(axes, fit, margin)
    _title(axes, "How many samples lie near the decision boundary?")
    return figure


def _tsybakov(axes: Axes, fit: TsybakovFit, margin: str) -> None:
    seen = fit.p > 0
    axes.loglog(
        fit.grid[seen],
        fit.p[seen],
        "o",
        color=PALETTE["blue"],
        markersize=4,
        label="observed share of samples",
    )
    line = f"least squares: {fit.C:.2f} · t^{fit.lam:.2f}  (R² = {fit.r2:.3f})"
    axes.loglog(fit.grid, fit.C * fit.grid**fit.lam, color=PALETTE["red"], label=line)
    axes.loglog(
        fit.grid,
        fit.envelope * fit.grid**fit.lam,
        "--",
        color=PALETTE["green"],
        label=f"upper envelope: {fit.envelope:.2f} · t^{fit.lam:.2f}",
    )
    axes.set(xlabel=f"t, compared with the margin {margin}", ylabel="share with margin ≤ t")
    axes.legend(loc="lower right", frameon=False)


def draw_bounds(curves: dict[str, BoundCurve]) -> Figure:
    """Theorem 1: the chance that a right label gets low confidence, below its bound."""
    figure = new_figure(11, 4.8)
    panels = figure.subplots(1, len(curves), sharey=True)
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        _lines(axes, curve, "constants of the least squares fit (as in the paper)")
        axes.axhline(curve.low, color=PALETTE["blue"], label="observed, exact classifier (ε = 0)")
        axes.axhline(
            curve.high,
            color=PALETTE["orange"],
            linestyle=":",
            label="observed with high confidence (≥ Δ), exact classifier",
        )
        axes.set(xlabel=EPS_LABEL, xlim=(0, curve.eps[-1]), ylim=(-0.02, 1.02))
        _title(
            axes,
            f"{name.capitalize()} noise: τ₁₀ = {curve.tau10:g}, τ₀₁ = {curve.tau01:g}, "
            f"Δ = {curve.threshold:g}",
        )
    panels[0].set_ylabel("P[label right, confidence < Δ]")
    _legend_below(figure, panels[0], columns=2)
    return figure


def _lines(axes: Axes, curve: BoundCurve | CorrectionCurve, fitted: str) -> None:
    """Both bounds, and what the worst classifier within each distance does."""
    upper, worst = "bound, constants of the upper envelope", "observed, worst classifier within ε"
    axes.plot(curve.eps, curve.envelope_bound, "--", color=PALETTE["green"], label=upper)
    axes.plot(curve.eps, curve.bound, color=PALETTE["red"], label=f"bound, {fitted}")
    axes.plot(curve.eps, curve.worst, color=PALETTE["purple"], label=worst)


def draw_corrections(curves: tuple[CorrectionCurve, ...]) -> Figure:
    """The binary corollary: share of wrong labels after correction, below its bound."""
    figure = new_figure(11, 8.4)
    grid = figure.subplots(2, 2, sharey=True)
    for axes, curve in zip(grid.flat, curves, strict=True):
        _lines(axes, curve, "constants of the least squares fit")
        label = "expression printed in the paper (proven for δ = 1 only)"
        axes.plot(curve.eps, curve.printed, ":", color=PALETTE["red"], label=label)
        axes.axhline(curve.after, color=PALETTE["blue"], label="observed, exact classifier (ε = 0)")
        axes.axhline(curve.before, color=GREY, linestyle="-.", label="before correction")
        axes.set(xlim=(0, curve.eps[-1]), ylim=(-0.02, 1.02))
        _title(axes, f"τ₁₀ = {curve.tau10:g}, τ₀₁ = {curve.tau01:g}, δ = {curve.delta:.2f}")
    for axes in grid[1]:
        axes.set_xlabel(EPS_LABEL)
    for axes in grid[:, 0]:
        axes.set_ylabel("share of wrong labels")
    figure.suptitle("Wrong labels after correction; a bound ends where its condition fails")
    _legend_below(figure, grid[0, 0], columns=2)
    return figure


def draw_embedding(embedding: Embedding) -> Figure:
    """t-SNE of the points: clean labels, noisy labels, corrected labels."""
    figure = new_figure(11, 7.6)
    titles = list(embedding.panels)
    clean, noisy, corrected = titles[0], titles[1::2], titles[2::2]
    grid = figure.subplots(2, 3)
    for row, names in zip(grid, ([clean, *noisy], [clean, *corrected]), strict=True):
        for axes, name in zip(row, names, strict=True):
            labels = embedding.panels[name]
            for c, colour in enumerate(CLASS_COLOURS):
                x, y = embedding.positions[labels == c].T
                axes.plot(x, y, "os"[c], color=colour, markersize=3, alpha=0.8, label=f"class {c}")
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            _title(axes, name)
    figure.suptitle(
        "t-SNE of the ten-dimensional mixture. Correction moves each label to its more probable "
        "class,\nso corrected panels are cleaner than a draw of true labels where classes overlap"
    )
    _legend_below(figure, grid[0, 0], columns=2)
    return figure


def draw_illustration(result: Illustration) -> Figure:
    """The four panels of the one-dimensional illustration."""
    figure = new_figure(10, 6.6)
    (noisy, fixed), (one, zero) = figure.subplots(2, 2, sharex=True)
    share = f"{100 * result.tau:.0f}%"
    _points(noisy, result.x, result.given)
    noisy.plot(result.line, result.f, color=PALETTE["black"], label="classifier f(x)")
    _title(noisy, f"(a) Labels with {share} flipped, and the classifier")
    _points(fixed, result.x, result.corrected)
    fixed.plot(result.line, result.eta, color=PALETTE["black"], label="true probability η(x)")
    _title(fixed, "(b) Corrected labels, and the truth")
    for axes, label, letter in ((one, 1, "c"), (zero, 0, "d")):
        axes.plot(result.line, result.ratio[label], color=CLASS_COLOURS[label], label="ratio")
        axes.axhline(result.delta, color=GREY, linestyle="--", label=f"δ = {result.delta:g}")
        low = result.ratio[label] < result.delta
        axes.fill_between(
            result.line,
            0,
            1.05,
            where=low.tolist(),
            color=CLASS_COLOURS[1 - label],
            alpha=0.15,
            linewidth=0,
            label=f"becomes {1 - label}",
        )
        axes.set(xlabel="x", ylim=(0, 1.09), ylabel="likelihood ratio")
        _title(axes, f"({letter}) A label {label} is changed where its ratio is below δ")
        axes.legend(loc="lower right" if label else "lower left", frameon=False)
    for axes in (noisy, fixed):
        axes.axhline(0.5, color=GREY, linewidth=0.8)
        axes.set(ylabel="probability of class 1", ylim=(-0.09, 1.09))
        axes.legend(loc="center left", frameon=False, bbox_to_anchor=(0, 0.66))
    return figure


def _points(axes: Axes, x: np.ndarray, labels: np.ndarray) -> None:
    for c, colour in enumerate(CLASS_COLOURS):
        axes.plot(
            x[labels == c],
            np.full((labels == c).sum(), float(c)),
            "os"[c],
            color=colour,
            markersize=4,
            alpha=0.8,
            label=f"label {c}",
        )


def draw_pair(result: PairResult) -> Figure:
    """The counterpart of the paper's CIFAR figure for a pair of runs."""
    figure = new_figure(11, 5.4)
    left, right = figure.subplots(1, 2)
    _tsybakov(left, result.fit, "(best minus second best η)")
    _title(left, "How many samples lie near the decision boundary?")
    right.plot(
        result.eps,
        result.envelope_bound,
        "--",
        color=PALETTE["green"],
        label="bound, constants of the upper envelope",
    )
    right.plot(
        result.eps, result.bound, color=PALETTE["red"], label="bound, least squares constants"
    )
    right.axhline(
        result.low, color=PALETTE["blue"], label=f"low confidence, label right: {result.low:.3f}"
    )
    right.axhline(
        result.high,
        color=PALETTE["orange"],
        linestyle=":",
        label=f"high confidence, label right: {result.high:.3f}",
    )
    at_least = ", at least" if result.eta_from is None else ""
    right.axvline(
        result.error["max"],
        color=GREY,
        linestyle="-.",
        label=f"largest error of f{at_least}: {result.error['max']:.2f}",
    )
    right.set(xlabel=EPS_LABEL, ylabel="share of all samples", ylim=(-0.02, 1.02))
    right.set_xlim(0, max(result.eps[-1], 1.03 * result.error["max"]))
    _title(right, "Right labels that the classifier trusts or doubts, and Theorem 2")
    _legend_below(figure, right, columns=3)
    return figure


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10.5)


def _legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)

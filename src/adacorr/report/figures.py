"""The report's pictures: data in, one titled SVG with a caption and a text alternative out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.plotting import GREY, PALETTE, new_figure, to_svg
from adacorr.report.summary import RATIO_BINS, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from adacorr.core.certificate import Reliability
    from adacorr.paper.theory.tsybakov import TsybakovFit

TABLE_CLASSES = 12
"""Up to this many classes a matrix is a table of numbers, above it is a picture."""
FEW = 10
"""A bin of the reliability diagram with fewer samples is chance alone."""
WIDE = 5.6
"""Inches of every picture: narrow enough to be read whole on a phone."""
_LOSSES = ("loss",)
_NOT_CURVES = ("epoch", "stage", "seconds", "lr")


@dataclass(frozen=True)
class Picture:
    """An inline SVG and the words around it."""

    title: str
    svg: str
    caption: str


def ratio_histogram(summary: Summary, delta: float | None) -> Picture | None:
    """How the likelihood ratios are spread, and where labels were changed; None: none in doubt."""
    if not summary.ratio_flipped.any() and not summary.ratio_kept.any():
        return None
    figure, axes = _axes(WIDE, 3.0)
    edges = np.linspace(0, 1, RATIO_BINS + 1)
    bars: Any = {"width": 1 / RATIO_BINS, "align": "edge"}
    axes.bar(edges[:-1], summary.ratio_flipped, color=PALETTE["red"], label="changed", **bars)
    axes.bar(
        edges[:-1],
        summary.ratio_kept,
        bottom=summary.ratio_flipped,
        color=PALETTE["sky"],
        label="kept",
        **bars,
    )
    if delta is not None:
        axes.axvline(delta, color=GREY, linestyle="--", label=f"threshold δ = {delta:g}")
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1.05 * int((summary.ratio_flipped + summary.ratio_kept).max())),
        xlabel="likelihood ratio: P(given class) / P(most probable class)",
        ylabel="labels",
    )
    _legend_above(axes)
    described = (
        f"Histogram of likelihood ratios between 0 and 1. {summary.n_flipped:,} labels were "
        f"changed and {int(summary.ratio_kept.sum()):,} were kept although the model prefers "
        f"another class; {summary.n_agreed:,} further labels agree with the model."
    )
    caption = (
        "A ratio near 0 means that the model finds the given class far less probable than its own "
        f"first choice. Only labels that are not its first choice are drawn; the "
        f"{summary.n_agreed:,} others have ratio 1 and are left out."
    )
    return Picture("Likelihood ratio of the labels in doubt", _svg(figure, described), caption)


def matrix_image(
    shares: NDArray[np.floating], names: Sequence[str], title: str, rows: str, columns: str
) -> Picture:
    """A (K, K) matrix of shares as a raster heat map, for more classes than a table can hold."""
    from matplotlib.colors import PowerNorm

    k = len(names)
    figure, axes = _axes(WIDE, 5.0)
    axes.grid(visible=False)
    # A root, as in the tables: rare confusions would vanish beside the diagonal.
    scale = PowerNorm(0.5, vmin=0, vmax=1)
    image = axes.imshow(shares, norm=scale, cmap="viridis", interpolation="nearest")
    step = max(1, -(-k // 40))
    ticks = np.arange(0, k, step)
    short = [name if len(name) <= 14 else name[:13] + "…" for name in names]
    size = 7 if k > 25 else 8
    for axis, rotation in ((axes.xaxis, 90), (axes.yaxis, 0)):
        axis.set_ticks(ticks, [short[i] for i in ticks], rotation=rotation, fontsize=size)
        for label in axis.get_ticklabels():
            label.set_parse_math(False)  # a class may be called "$x$"
    axes.set(xlabel=columns, ylabel=rows)
    bar = figure.colorbar(image, ax=axes, shrink=0.7)
    bar.set_label("share of the row")
    diagonal = float(np.diag(shares).mean())
    described = (
        f"Heat map of {k} by {k} classes, {rows} against {columns}. On average {diagonal:.1%} of a "
        "row lies on the diagonal. The largest entries off the diagonal are in the table."
    )
    every = "" if step == 1 else f" Every {step}th class is named on the axes."
    caption = f"Each row sums to 1; the brighter a cell, the more of its row it holds.{every}"
    return Picture(title, _svg(figure, described), caption)


def convergence(metrics: Sequence[dict[str, float]]) -> Picture | None:
    """Every per-epoch number of the run that is a share or a loss; None when there is nothing."""
    shares, losses = _curves(metrics)
    panels = [(name, group) for name, group in (("share", shares), ("loss", losses)) if group]
    if not panels:
        return None
    figure = new_figure(WIDE, 2.7 * len(panels))
    described = []
    for i, (kind, group) in enumerate(panels):
        axes = _bare(figure.add_subplot(len(panels), 1, i + 1))
        for colour, (name, (x, y)) in zip(_cycle(), group.items(), strict=False):
            marker = "o" if len(x) == 1 else None
            axes.plot(x, y, label=_words(name), color=colour, marker=marker)
            described.append(f"{_words(name)} from {y[0]:.3g} to {y[-1]:.3g}")
        axes.set(xlabel="epoch", ylabel=kind)
        if kind == "share":
            axes.set_ylim(-0.02, 1.02)
        _legend_above(axes)
    epochs = len(metrics)
    alt = f"Curves over {epochs} epochs: {'; '.join(described)}."
    caption = (
        "Shares lie between 0 and 1 (1 = all). Accuracy is agreement with the labels in use: the "
        "corrected ones for training, those that the validation rows came with for validation. "
        "Where the latter are wrong a good network disagrees with them, so its accuracy there ends "
        "near the share of right labels; a fall after the first epochs would mean that it learns "
        "wrong labels by heart."
    )
    if "label_accuracy" in shares:
        caption += " Label accuracy: the share of the labels in use that are right, in truth."
    return Picture("Convergence during training", _svg(figure, alt), caption)


def reliability_diagram(found: Reliability) -> Picture:
    """Stated probability against how often the given label agreed, for bins that hold samples."""
    figure, axes = _axes(WIDE, 4.0)
    shown = found.count >= min(FEW, int(found.count.max()))
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="perfectly calibrated")
    axes.plot(
        found.confidence[shown],
        found.frequency[shown],
        marker="o",
        color=PALETTE["blue"],
        label="this model",
    )
    axes.set(
        xlim=(0, 1.02),
        ylim=(0, 1.02),
        xlabel="probability of the model's first choice",
        ylabel="share that agrees with the given label",
    )
    _legend_above(axes)
    alt = (
        f"Reliability diagram over {int(shown.sum())} bins; the mean gap between stated "
        f"probability and observed agreement is {found.error:.3f}."
    )
    caption = (
        "The theory needs a model whose probabilities match the given labels, wrong ones included: "
        "on the dashed line, a stated 60% agrees with the given label 60% of the time. The mean "
        f"gap (expected calibration error) is {found.error:.3f}. Points far from the line speak "
        "against the estimates on this page; points on it do not prove them."
        + ("" if shown.all() else f" Points of fewer than {FEW} samples are left out.")
    )
    return Picture("Reliability of the probabilities", _svg(figure, alt), caption)


def radius_histogram(radius: NDArray[np.floating], symmetric: bool) -> Picture:
    """How wrong the probabilities may be, row by row, before the implied label changes."""
    figure, axes = _axes(WIDE, 4.0)
    values = np.asarray(radius, dtype=np.float64)
    top = max(float(np.quantile(values, 0.999)), 1e-6)
    axes.hist(np.minimum(values, top), bins=40, range=(0, top), color=PALETTE["green"])
    middle = float(np.median(values))
    axes.axvline(middle, color=GREY, linestyle="--", label=f"median {middle:.3g}")
    axes.set(xlim=(0, top), xlabel="certified radius ε", ylabel="labels")
    _legend_above(axes)
    low, high = np.quantile(values, (0.1, 0.9))
    alt = (
        f"Histogram of the certified radius: median {middle:.3g}, "
        f"a tenth of the labels below {low:.3g} and a tenth above {high:.3g}."
    )
    noise = "the noise is symmetric" if symmetric else "the estimated noise matrix is right"
    caption = (
        "How far each probability of a row may be from the truth about the given labels before "
        f"another class could be the most probable true one, if {noise}. Labels at the left edge "
        "hang on small errors of the model. This is an “if”, not an error rate: how far the "
        "probabilities really are off cannot be seen from noisy labels."
    )
    return Picture("Certified radius", _svg(figure, alt), caption)


def bound_curve(
    eps: NDArray[np.floating],
    fitted: NDArray[np.floating],
    envelope: NDArray[np.floating],
    fit: TsybakovFit,
) -> Picture:
    """Theorem 2 against the model's error; NaN where its condition fails."""
    figure, axes = _axes(WIDE, 3.2)
    axes.plot(eps, fitted, color=PALETTE["blue"], label="margins as fitted")
    axes.plot(
        eps, envelope, color=PALETTE["orange"], linestyle="--", label="margins never understated"
    )
    axes.set(
        xlim=(0, float(eps[-1])),
        ylim=(0, 1.02),
        xlabel="ε: largest error of any probability",
        ylabel="bound on right labels flagged",
    )
    _legend_above(axes)
    half = float(eps[np.searchsorted(np.nan_to_num(envelope, nan=np.inf), 0.5) - 1])
    alt = (
        f"The bound grows from 0 with the model's error ε; with the dashed line it stays below "
        f"one half up to about ε = {max(half, 0.0):.3g}."
    )
    caption = (
        "Theorem 2 of Zheng et al. (2020): the share of right labels that the test can flag at "
        "most, if no probability of the model is off by more than ε. Drawn with the estimated "
        f"noise matrix and the margins that it implies (C = {fit.C:.2g}, λ = {fit.lam:.2g}; "
        f"dashed with C = {fit.envelope:.2g}, which covers every point of that fit). These are "
        "estimates, and ε is not known, so read the shape, not a promise. A value of 1 says "
        "nothing; the curve ends where the theorem's condition fails."
    )
    return Picture("Bound against the model's error", _svg(figure, alt), caption)


def _curves(metrics: Sequence[dict[str, float]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(shares, losses): name -> (epochs, values), at most eight each."""
    names = list(dict.fromkeys(name for record in metrics for name in record))
    shares: dict[str, Any] = {}
    losses: dict[str, Any] = {}
    for name in names:
        if name in _NOT_CURVES:
            continue
        points = [
            (record.get("epoch", i + 1), record[name])
            for i, record in enumerate(metrics)
            if name in record
        ]
        x, y = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
        if any(word in name for word in _LOSSES):
            losses[name] = (x, y)
        elif y.min() >= 0 and y.max() <= 1:
            shares[name] = (x, y)
    return dict(list(shares.items())[:8]), dict(list(losses.items())[:8])


def _words(name: str) -> str:
    if name.startswith("val_"):
        name = f"validation_{name[4:]}"
    return name[:40].replace("_", " ").replace("$", "＄")  # "$" starts mathematics in matplotlib


def _cycle() -> list[str]:
    return [PALETTE[c] for c in ("blue", "red", "green", "orange", "purple", "sky")] + [GREY] * 2


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = new_figure(width, height)
    return figure, _bare(figure.add_subplot())


def _bare(axes: Axes) -> Axes:
    """No background: the page's own shows through, light or dark."""
    axes.figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    return axes


def _legend_above(axes: Axes) -> None:
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2, frameon=False
    )


def _svg(figure: Figure, described: str) -> str:
    """The figure as inline SVG that a screen reader announces as one described image."""
    with warnings.catch_warnings():
        # A class name in a script that the measuring font lacks is drawn by the browser's own.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        text = to_svg(figure)
    label = escape(described, quote=True)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)

"""A correction as a notebook shows it: a small table, and a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adacorr.plotting import GREY, PALETTE, new_figure
from adacorr.runs.shown import SHOWN, state, suspects_html
from adacorr.runs.words import chance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from adacorr.correction.arrays import Correction

MOST_CLASSES = 40
"""A larger matrix of changes cannot be read; the most changed classes are drawn."""


def correction_html(found: Correction) -> str:
    """The sentence of ``repr``, warnings in bold, and the most suspicious rows.

    >>> from adacorr import correct
    >>> "<table>" in correction_html(correct(["a", "b"], [[0.9, 0.1], [0.8, 0.2]], delta=0.9))
    True
    """
    return suspects_html(summary(found), found.warnings, suspect_rows(found))


def summary(found: Correction) -> str:
    """What ``repr`` says, without its brackets."""
    return repr(found)[len("Correction(") : -1]


def suspect_rows(found: Correction) -> list[tuple[object, ...]]:
    """Row, given label, suggestion, suspicion and what was done, of the most doubtful rows."""
    if found.suspicion is None or found.alternative is None:
        return []
    n = len(found.labels)
    return [
        (
            one.row,
            "" if found.given is None else found.given[one.row],
            one.suggestion,
            chance(one.suspicion, n) or "",
            state(one.changed),
        )
        for one in found.suspects(SHOWN)
    ]


def correction_figure(found: Correction) -> Figure:
    """Left: every label by suspicion, most doubtful first. Right: given against corrected class."""
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    doubt = 1 - found.ratio if found.suspicion is None else np.nan_to_num(found.suspicion)
    order = np.argsort(-doubt, kind="stable")
    places, changed = np.arange(1, len(order) + 1), found.flipped[order]
    left.plot(places, doubt[order], color=GREY, linewidth=1)
    left.scatter(places[changed], doubt[order][changed], s=8, color=PALETTE["red"], label="changed")
    left.set(xscale="log", ylim=(-0.02, 1.02), xlabel="rank of the label", ylabel="suspicion")
    if changed.any():
        left.legend()
    _draw_changes(right, found)
    return figure


def _draw_changes(axes: Any, found: Correction) -> None:
    """The changed labels as a (given, corrected) matrix of counts."""
    if found.given is None or not found.flipped.any():
        axes.axis("off")
        axes.text(0.5, 0.5, "no label was changed", ha="center", va="center", color=GREY)
        return
    before, after = found.given[found.flipped], found.labels[found.flipped]
    names, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
    matrix = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(matrix, (codes[: len(before)], codes[len(before) :]), 1)
    most = np.sort(np.argsort(-(matrix.sum(0) + matrix.sum(1)), kind="stable")[:MOST_CLASSES])
    shown = [str(name)[:14] for name in names[most]]
    axes.grid(visible=False)
    image = axes.imshow(matrix[np.ix_(most, most)], cmap="viridis", interpolation="nearest")
    axes.set_xticks(range(len(most)), shown, rotation=90, parse_math=False)
    axes.set_yticks(range(len(most)), shown, parse_math=False)
    axes.set(xlabel="corrected", ylabel="given")
    axes.figure.colorbar(image, ax=axes, label="changed labels")

"""One look for every figure, without pyplot's global state, and the same bytes for the same data.

Colours are the eight of Okabe and Ito (2008), which stay apart for colour-blind readers.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacorr.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#222222",
}
GREY = "#8A8A8A"

_STYLE: Any = {
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.family": "DejaVu Sans",  # ships with matplotlib: a missing family warns per text
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text: smaller, searchable, readable aloud
    "svg.hashsalt": "adacorr",  # the ids do not change from run to run
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
}


def new_figure(width: float = 6.0, height: float = 4.0) -> Figure:
    """An empty figure of `width` x `height` inches that belongs to nobody else.

    >>> figure = new_figure(4, 3)
    >>> axes = figure.subplots()
    >>> _ = axes.plot([0, 1], [0, 1], color=PALETTE["blue"])
    >>> to_svg(figure).startswith("<svg")
    True
    """
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: Any = {**_STYLE, "axes.prop_cycle": cycler(color=list(PALETTE.values()))}

    class StyledFigure(Figure):
        # Axes read the settings when they are made, which is after this function has returned.
        def add_subplot(self, *args: Any, **kwargs: Any) -> Any:
            with rc_context(style):
                return super().add_subplot(*args, **kwargs)

    with rc_context(style):
        figure = StyledFigure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
    return figure


def save(
    figure: Figure, path_without_suffix: str | Path, formats: tuple[str, ...] = ("png", "svg")
) -> list[Path]:
    """Write the figure once per format, atomically; the folder must exist. Returns the paths."""
    base = Path(path_without_suffix)
    paths = [base.with_name(f"{base.name}.{suffix}") for suffix in formats]
    for path, suffix in zip(paths, formats, strict=True):
        data = _render(figure, suffix)
        with atomic(path) as temporary:
            temporary.write_bytes(data)
    return paths


def to_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element to stand inside an HTML page.

    Every id is prefixed with a hash of the drawing, so that different figures share a page.
    """
    text = _render(figure, "svg").decode("utf-8")
    text = text[text.index("<svg") :].strip()
    prefix = "f" + hashlib.sha256(text.encode()).hexdigest()[:10] + "-"
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", text)


def _render(figure: Figure, suffix: str) -> bytes:
    from matplotlib import rc_context

    # No date and no version in the file: the same data give the same bytes.
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}.get(suffix, {})
    buffer = io.BytesIO()
    with rc_context(_STYLE):
        figure.savefig(buffer, format=suffix, metadata=metadata)
    return buffer.getvalue()

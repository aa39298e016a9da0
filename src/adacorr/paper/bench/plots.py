"""Records -> convergence curves and accuracy against noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from adacorr.core.validation import InputError
from adacorr.paper.bench.records import Record
from adacorr.paper.bench.tables import At, build_table
from adacorr.plotting import PALETTE, new_figure, save

COLOURS = tuple(PALETTE.values())
CURVE_NAMES = {
    "train_accuracy": "training accuracy (on current labels)",
    "test_accuracy": "test accuracy (true labels)",
    "label_accuracy": "share of right labels",
}


def plot_convergence(
    records: Sequence[Record], dataset: str, noise: str, methods: Sequence[str], output: Path
) -> list[Path]:
    """One panel per method, mean over seeds: the paper's convergence figure."""
    figure = new_figure(4.2 * len(methods), 3.4)
    axes = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for axis, method in zip(axes, methods, strict=True):
        chosen = [
            r
            for r in records
            if (r["dataset"], r["noise"], r["method"]) == (dataset, noise, method)
        ]
        if not chosen:
            raise InputError(f"records: expected runs of {method} on {dataset} {noise}, got none")
        for colour, (name, label) in zip(COLOURS, CURVE_NAMES.items(), strict=False):
            curves = [r["curves"][name] for r in chosen if name in r["curves"]]
            length = min(map(len, curves), default=0)
            if length:
                mean = 100 * np.mean([curve[:length] for curve in curves], axis=0)
                axis.plot(range(1, length + 1), mean, color=colour, label=label)
        axis.set(title=method, xlabel="epoch", ylim=(0, 101))
    axes[0].set_ylabel("per cent")
    axes[0].legend(fontsize="small", loc="lower right")
    figure.suptitle(f"{dataset}, {noise} noise")
    return save(figure, output)


def plot_accuracy(
    records: Sequence[Record], dataset: str, kind: str, output: Path, at: At = "last"
) -> list[Path]:
    """Test accuracy at the last or the selected epoch against the rate of one kind of noise."""
    table = build_table([r for r in records if r["dataset"] == dataset], at=at)
    columns = [noise for noise in table.noise if noise.startswith(f"{kind}:")]
    if not columns:
        raise InputError(f"records: expected {kind} noise on {dataset}, got none")
    figure = new_figure(5.5, 3.8)
    axis = figure.subplots()
    for i, method in enumerate(table.methods):
        points = [
            (float(noise.rpartition(":")[2]), entry)
            for noise in columns
            if (entry := table.entries.get((dataset, method, noise))) is not None
        ]
        if points:
            rate, entries = zip(*points, strict=True)
            axis.errorbar(
                rate,
                [e.mean for e in entries],
                [e.std for e in entries],
                color=COLOURS[i % len(COLOURS)],
                linestyle="-" if i < len(COLOURS) else "--",
                marker="o",
                markersize=3,
                label=method,
            )
    axis.set(xlabel=f"rate of {kind} noise", ylabel=f"test accuracy, {at} epoch (%)", title=dataset)
    axis.legend(fontsize="small")
    return save(figure, output)

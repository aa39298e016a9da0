"""Draws the pictures of the documentation: python docs/make_figures.py"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import adacorr
from adacorr.cli import main as adacorr_command
from adacorr.plotting import PALETTE, new_figure, save

IMAGES = Path(__file__).parent / "images"
DELTAS = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])


def illustration() -> None:
    """The one-dimensional picture of the likelihood ratio test."""
    with tempfile.TemporaryDirectory() as folder:
        with suppress(SystemExit):  # how every command ends
            adacorr_command(["theory", "illustrate", "--output", folder, "--quiet"])
        shutil.copy(Path(folder) / "illustration.svg", IMAGES / "illustration.svg")


def delta() -> None:
    """Right labels after correction against delta, on digits, for three noise rates."""
    X, truth = load_digits(return_X_y=True)
    figure = new_figure()
    axes = figure.subplots()
    for rate, colour in ((0.0, "blue"), (0.2, "orange"), (0.4, "green")):
        given = adacorr.noise.inject(truth, adacorr.noise.uniform(10, rate), rng=0)
        model = LogisticRegression(C=0.02, max_iter=500)
        f = cross_val_predict(model, X / 16, given, cv=5, method="predict_proba")
        right = [np.mean(adacorr.correct(given, f, delta=d).labels == truth) for d in DELTAS]
        auto = np.mean(adacorr.correct(given, f).labels == truth)
        axes.plot(
            DELTAS, right, marker="o", color=PALETTE[colour], label=f"{rate:.0%} wrong labels"
        )
        axes.axhline(auto, color=PALETTE[colour], linestyle="--", linewidth=1)
    axes.set(xscale="log", xlabel="delta", ylabel="share of right labels after correction")
    axes.set_title("Digits, logistic regression; dashed: delta = auto")
    axes.legend(loc=(0.04, 0.58))
    save(figure, IMAGES / "delta", formats=("svg",))


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    illustration()
    delta()

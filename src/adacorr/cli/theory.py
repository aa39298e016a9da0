"""``adacorr theory``: the paper's bounds, fits and figures."""

from __future__ import annotations

import json as json_lib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from adacorr.cli.options import TEXT, Printing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from adacorr.paper.theory.tsybakov import TsybakovFit, TsybakovInterval

app = App(name="theory", help="The paper's bounds, fits and figures.")


@app.command
def synthetic(
    *,
    output: Path = Path("theory"),
    seed: int = 0,
    printing: Printing = TEXT,
) -> None:
    """Reproduce the paper's synthetic experiment: the Tsybakov fit, the bounds, t-SNE.

    Example: adacorr theory synthetic --output theory

    Parameters
    ----------
    output
        The folder to write to: synthetic.json, and the figures synthetic-tsybakov, -bounds,
        -correction and -tsne as PNG and SVG.
    seed
        Of the samples and the noise.
    """
    from adacorr.paper.theory import figures
    from adacorr.paper.theory.synthetic import run_synthetic

    result = run_synthetic(seed)
    drawings = {
        "synthetic-tsybakov": figures.draw_tsybakov(result.fit, "|η - 1/2|"),
        "synthetic-bounds": figures.draw_bounds(result.bounds),
        "synthetic-correction": figures.draw_corrections(result.corrections),
        "synthetic-tsne": figures.draw_embedding(result.embedding),
    }
    lines = [f"mixture of two Gaussians, {result.samples} samples"]
    lines += _fit_lines(result.fit, result.interval)
    lines += [
        f"{name} noise: share of right labels below the threshold {curve.low:g} (Lemma 2: 0), "
        f"above it {curve.high:.3f}"
        for name, curve in result.bounds.items()
    ]
    lines += [
        f"tau10 {c.tau10:g}, tau01 {c.tau01:g}: wrong labels {c.before:.3f} before correction, "
        f"{c.after:.3f} after"
        for c in result.corrections
    ]
    _finish("synthetic", result.as_dict(), drawings, lines, output, printing)


@app.command
def illustrate(
    *,
    output: Path = Path("theory"),
    seed: int = 0,
    printing: Printing = TEXT,
) -> None:
    """Draw the one-dimensional illustration of LRT-Correction in four panels.

    Example: adacorr theory illustrate --output theory

    Parameters
    ----------
    output
        The folder to write to: illustration.json, .png and .svg.
    seed
        Of the points and the noise.
    """
    from adacorr.paper.theory import figures
    from adacorr.paper.theory.synthetic import run_illustration

    result = run_illustration(seed)
    changed = int((result.given != result.corrected).sum())
    lines = [f"{len(result.x)} points, {changed} labels changed"]
    drawings = {"illustration": figures.draw_illustration(result)}
    _finish("illustration", result.as_dict(), drawings, lines, output, printing)


@app.command
def tsybakov(
    run: Path,
    /,
    *,
    output: Path = Path("theory"),
    split: str | None = None,
    seed: int = 0,
    printing: Printing = TEXT,
) -> None:
    """Fit the Tsybakov condition to a run's probabilities (trained on clean labels, they are eta).

    Example: adacorr theory tsybakov runs/clean --output theory

    Parameters
    ----------
    run
        A run directory with pred_probs.npy.
    output
        The folder to write to: tsybakov.json, .png and .svg.
    split
        Use only this part of the run, say validation. A network is surer of what it was trained on.
    seed
        Of the bootstrap.
    """
    from adacorr.paper.theory import figures
    from adacorr.paper.theory.run_pair import fit_run
    from adacorr.runs.directory import Run
    from adacorr.runs.reader import RunData

    fit, interval = fit_run(RunData.open(Run.open(run)), split, seed)
    numbers = {**fit.as_dict(), "interval": interval.as_dict(), "run": str(run), "split": split}
    drawings = {"tsybakov": figures.draw_tsybakov(fit, "(best minus second best η)")}
    _finish("tsybakov", numbers, drawings, _fit_lines(fit, interval), output, printing)


@app.command
def bounds(
    run: Path,
    /,
    *,
    clean: Path | None = None,
    noise: str | None = None,
    split: str | None = None,
    output: Path = Path("theory"),
    printing: Printing = TEXT,
) -> None:
    """Compare Theorem 2 with a run on noisy labels, best beside one on clean labels.

    Example: adacorr theory bounds runs/noisy --clean runs/clean --output theory

    Parameters
    ----------
    run
        The run trained on noisy labels.
    clean
        The run trained on clean labels of the same samples; its probabilities stand for the truth.
        Default: the truth is estimated from RUN itself, which cannot show how far RUN is off.
    noise
        The noise that was injected, say uniform:0.2. Default: what the run recorded, else an
        estimate.
    split
        Use only this part of the noisy run, say validation.
    output
        The folder to write to: bounds.json, .png and .svg.
    """
    from adacorr.paper.theory import figures
    from adacorr.paper.theory.run_pair import compare, match_runs, single_run
    from adacorr.runs.directory import Run
    from adacorr.runs.reader import RunData

    noisy = RunData.open(Run.open(run))
    if clean is None:
        result = compare(single_run(noisy, noise, split))
        distance = "distance of f from the noisy posterior, at least: "
        remark = "eta is f T^-1 of this run: only --clean shows how far f is off"
    else:
        result = compare(match_runs(noisy, RunData.open(Run.open(clean)), noise, split))
        distance = "distance of f from the noisy posterior: "
        remark = "eta is the clean run's estimate"
    both = "" if clean is None else " of both runs"
    lines = [
        f"{result.samples} samples{both}, T from {result.T_from}",
        *_fit_lines(result.fit, None),
        f"right labels below the threshold {result.low:.4f}, above it {result.high:.4f}",
        f"the least squares bound reaches {result.low:.4f} at eps {result.implied_eps:.3f}",
        distance + ", ".join(f"{name} {value:.3f}" for name, value in result.error.items()),
        f"the theorem needs eps >= the largest distance; {remark}",
    ]
    numbers = {**result.as_dict(), "run": str(run), "clean": clean and str(clean), "split": split}
    _finish("bounds", numbers, {"bounds": figures.draw_pair(result)}, lines, output, printing)


def _fit_lines(fit: TsybakovFit, interval: TsybakovInterval | None) -> list[str]:
    def around(value: float, limits: tuple[float, float] | None) -> str:
        return f"{value:.3f}" + (f" [{limits[0]:.3f}, {limits[1]:.3f}]" if limits else "")

    return [
        f"C {around(fit.C, interval and interval.C)}, "
        f"lambda {around(fit.lam, interval and interval.lam)}, R^2 {fit.r2:.3f}, "
        f"p {fit.p_value:.0e} (least squares)",
        f"C {around(fit.envelope, interval and interval.envelope)} makes it an upper envelope",
    ]


def _finish(
    name: str,
    numbers: dict[str, Any],
    drawings: dict[str, Figure],
    lines: list[str],
    output: Path,
    printing: Printing,
) -> None:
    """Write the numbers and the figures, then say what came out."""
    from adacorr.files import atomic
    from adacorr.plotting import save

    text = json_lib.dumps(numbers, allow_nan=False)
    output.mkdir(parents=True, exist_ok=True)
    with atomic(output / f"{name}.json") as path:
        path.write_text(text + "\n", encoding="utf-8")
    written = [output / f"{name}.json"]
    for stem, figure in drawings.items():
        written += save(figure, output / stem)
    printing.result(numbers, [*lines, *(f"wrote {path}" for path in written)])

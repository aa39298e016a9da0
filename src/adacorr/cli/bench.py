"""``adacorr bench``: run a grid, print the paper's table, draw its figures, test differences."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from adacorr.cli.options import TEXT, Printing
from adacorr.core.validation import InputError

app = App(name="bench", help="Run a grid of methods and print the paper's table.")
Value = Literal["test_accuracy", "label_accuracy"]
At = Literal["last", "selected"]


@app.command
def run(
    grid: Path,
    *,
    output: Path | None = None,
    workers: int = 1,
    dry_run: bool = False,
    smoke: bool = False,
    printing: Printing = TEXT,
) -> None:
    """Run a grid; cells that have a record already are not run again.

    Example: adacorr bench run grids/small-images.toml --workers 2

    Parameters
    ----------
    grid
        A TOML file: datasets, noise, methods, seeds.
    output
        Where the records go (one JSON line per cell). Default: results/NAME.jsonl.
    workers
        Cells at a time; the cores are shared out among them.
    dry_run
        Check the grid and say what would run.
    smoke
        Try every dataset and method once, tiny (3 epochs, 64 samples), before the real run.
    """
    from adacorr.cli.progress import cell_bar
    from adacorr.paper.bench.grid import read_grid
    from adacorr.paper.bench.grid import smoke as shrink
    from adacorr.paper.bench.records import RecordFile
    from adacorr.paper.bench.run import check_cells, run_grid

    if workers < 1:
        raise InputError(f"workers: expected at least 1, got {workers}")
    plan = shrink(read_grid(grid)) if smoke else read_grid(grid)
    check_cells(plan)
    file = RecordFile(output or Path("results") / f"{plan.name}.jsonl")
    left = len(plan.cells) - len(file.finished() & {cell.key for cell in plan.cells})
    counts = {"name": plan.name, "cells": len(plan.cells), "left": left, "records": str(file.path)}
    if dry_run:
        text = f"{plan.name}: {len(plan.cells)} cells, {left} to run, records in {file.path}"
        printing.result(counts, text)
        return
    with cell_bar(left, printing.quiet) as advance:
        count, failures = run_grid(plan, file, workers, advance)
    printing.result(
        {**counts, "run": count, "left": left - count},
        f"{count} cells run, {len(plan.cells) - left} had a record; records in {file.path}",
    )
    if failures:
        first = failures[0]
        place = " ".join(map(str, (first.cell.dataset, first.cell.noise, first.cell.method)))
        raise InputError(
            f"{len(failures)} cells failed and will run again next time; {place}: {first.reason}"
        )


@app.command
def table(
    records: Path,
    *,
    value: Value = "test_accuracy",
    at: At = "last",
    format: Literal["text", "markdown", "latex", "csv"] = "text",
    printing: Printing = TEXT,
) -> None:
    """Print the paper's table: mean and standard deviation over seeds, best in bold.

    Example: adacorr bench table results/small-images.jsonl --format markdown

    Parameters
    ----------
    records
        A records file, or a folder of them.
    value
        What to average: accuracy on clean test labels, or the share of right training labels.
    at
        The last epoch, or the one that stopping early on the (noisy) validation split selects.
    format
        How to print it.
    """
    from adacorr.paper.bench.records import read_records
    from adacorr.paper.bench.tables import build_table, render

    built = build_table(read_records(records), value, at)
    places = ("dataset", "method", "noise")
    cells = [
        {**dict(zip(places, key, strict=True)), **asdict(entry)}
        for key, entry in built.entries.items()
    ]
    printing.result({"value": value, "at": at, "cells": cells}, render(built, format))


@app.command
def plot(
    records: Path,
    *,
    output: Path = Path("figures"),
    dataset: str | None = None,
    noise: str = "uniform:0.4",
    at: At = "last",
    methods: Annotated[tuple[str, ...], Parameter(negative="")] = ("adacorr", "standard"),
    printing: Printing = TEXT,
) -> None:
    """Draw convergence curves and accuracy against noise (PNG and SVG).

    Example: adacorr bench plot results/small-images.jsonl --output figures

    Parameters
    ----------
    records
        A records file, or a folder of them.
    output
        The folder to write to.
    dataset
        Only this one. Default: each dataset in the records.
    noise
        Of the convergence curves.
    at
        Accuracy against noise: of the last epoch, or of the selected one.
    methods
        Of the convergence curves, side by side: --methods adacorr --methods standard.
    """
    from adacorr.paper.bench.plots import plot_accuracy, plot_convergence
    from adacorr.paper.bench.records import read_records

    found = read_records(records)
    names = [dataset] if dataset else list(dict.fromkeys(r["dataset"] for r in found))
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names:
        here = [r for r in found if r["dataset"] == name]
        file = name.replace(":", "-")
        if {r["method"] for r in here if r["noise"] == noise} >= set(methods):
            written += plot_convergence(here, name, noise, methods, output / f"{file}-convergence")
        for kind in ("uniform", "pair"):
            if any(r["noise"].startswith(f"{kind}:") for r in here):
                written += plot_accuracy(here, name, kind, output / f"{file}-{kind}", at)
    if not written:
        raise InputError(f"{records}: expected runs of {methods} at {noise}, got none")
    names = [str(path) for path in written]
    printing.result({"figures": names}, names)


@app.command
def compare(
    records: Path,
    a: str,
    b: str | None = None,
    *,
    value: Value = "test_accuracy",
    at: At = "last",
    printing: Printing = TEXT,
) -> None:
    """Test whether method A beats method B (default: each other one), paired over seeds.

    Example: adacorr bench compare results/small-images.jsonl adacorr standard

    Parameters
    ----------
    records
        A records file, or a folder of them.
    a
        A method in the records.
    b
        Another one. Default: each of the others.
    value
        What to compare: accuracy on clean test labels, or the share of right training labels.
    at
        The last epoch, or the one that stopping early on the (noisy) validation split selects.
    """
    from adacorr.paper.bench.compare import compare as test
    from adacorr.paper.bench.records import read_records

    found = read_records(records)
    others = [b] if b else [m for m in dict.fromkeys(r["method"] for r in found) if m != a]
    results = [test(found, a, other, value, at) for other in others]
    lines = [
        f"{r.a} - {r.b}: {r.mean:+.2f} points over {r.columns} columns ({r.n} paired runs), "
        f"ahead in {r.wins}, p = {r.p_value:.4f}"
        for r in results
    ]
    printing.result([asdict(result) for result in results], lines)

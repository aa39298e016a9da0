"""``adacorr report``: write the HTML page of a run."""

from __future__ import annotations

from pathlib import Path


def report(run: Path, *, output: Path | None = None, quiet: bool = False) -> None:
    """Write the HTML report of a run: one page that needs no network.

    Parameters
    ----------
    run
        A run directory, from ``adacorr fit`` or ``adacorr correct --run-dir``.
    output
        Where to write the page; default: ``report.html`` in the run directory.
    quiet
        Print nothing.
    """
    from adacorr.report import write_report
    from adacorr.runs import Run

    path = write_report(Run.open(run), output)
    if not quiet:
        print(path)

"""``adacorr report``: write the HTML page of a run."""

from __future__ import annotations

from pathlib import Path

from adacorr.cli.options import NEW, TEXT, Outputs, Printing


def report(
    run: Path,
    *,
    output: Path | None = None,
    outputs: Outputs = NEW,
    printing: Printing = TEXT,
) -> None:
    """Write the HTML report of a run: one page that needs no network.

    Parameters
    ----------
    run
        A run directory, from `adacorr clean`, `fit` or `correct --run-dir`.
    output
        Where to write the page; default: `report.html` in the run directory, which
        is written anew each time.
    """
    from adacorr.cli.outputs import files_of
    from adacorr.report import write_report
    from adacorr.runs.directory import Run

    if output is not None:
        outputs.check(output, *files_of(run))
    path = write_report(Run.open(run), output)
    printing.result({"report": str(path)}, str(path))

"""``adacorr report``: write the HTML page of a run."""

from __future__ import annotations

import json as json_lib
from pathlib import Path


def report(
    run: Path, *, output: Path | None = None, json: bool = False, quiet: bool = False
) -> None:
    """Write the HTML report of a run: one page that needs no network.

    Parameters
    ----------
    run
        A run directory, from `adacorr fit` or `adacorr correct --run-dir`.
    output
        Where to write the page; default: `report.html` in the run directory.
    json
        Print JSON.
    quiet
        Print nothing but errors.
    """
    from adacorr.report import write_report
    from adacorr.runs import Run

    path = write_report(Run.open(run), output)
    if json:
        print(json_lib.dumps({"report": str(path)}))
    elif not quiet:
        print(path)

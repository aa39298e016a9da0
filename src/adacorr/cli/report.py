"""``adacorr report``: write the HTML page of a run."""

from __future__ import annotations

import json as json_lib
from pathlib import Path


def report(
    run: Path,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Write the HTML report of a run: one page that needs no network.

    Parameters
    ----------
    run
        A run directory, from `adacorr fit` or `adacorr correct --run-dir`.
    output
        Where to write the page; default: `report.html` in the run directory, which
        is written anew each time.
    overwrite
        Replace an output file that exists.
    json
        Print JSON.
    quiet
        Print nothing but errors.
    """
    from adacorr.cli.outputs import check_new, files_of
    from adacorr.report import write_report
    from adacorr.runs.directory import Run

    if output is not None:
        check_new(output, overwrite, *files_of(run))
    path = write_report(Run.open(run), output)
    if json:
        print(json_lib.dumps({"report": str(path)}))
    elif not quiet:
        print(path)

"""``adacorr export``: a run for other tools."""

from __future__ import annotations

import json as json_lib
from pathlib import Path
from typing import Literal


def export(
    run: Path,
    *,
    to: Literal["label-studio", "cleanlab", "tensorboard"],
    output: Path,
    changed_only: bool = False,
    overwrite: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Export a run for another tool.

    Parameters
    ----------
    run
        A run directory, from `adacorr fit` or `adacorr correct --run-dir`.
    to
        label-studio: the decisions as a CSV of tasks. cleanlab: the label issues as a CSV.
        tensorboard: the numbers of each epoch as an event file.
    output
        The CSV file, or for tensorboard the log folder.
    changed_only
        For label-studio: only the labels that were changed or withheld for review.
    overwrite
        Replace a CSV file that exists.
    json
        Print JSON.
    quiet
        Print nothing but errors.
    """
    from adacorr.cli.outputs import check_new, files_of
    from adacorr.core.validation import InputError
    from adacorr.runs.directory import Run
    from adacorr.runs.export import write_cleanlab, write_label_studio, write_tensorboard

    if changed_only and to != "label-studio":
        raise InputError(f"--changed-only: expected only with --to label-studio, got {to}")
    if to != "tensorboard":
        check_new(output, overwrite, *files_of(run))
    source = Run.open(run)
    if to == "tensorboard":
        count, what = write_tensorboard(source, output), "numbers"
    elif to == "cleanlab":
        count, what = write_cleanlab(source, output), "rows"
    else:
        count, what = write_label_studio(source, output, changed_only=changed_only), "rows"
    if json:
        print(json_lib.dumps({"to": to, "output": str(output), what: count}))
    elif not quiet:
        print(f"{count} {what} in {output}")

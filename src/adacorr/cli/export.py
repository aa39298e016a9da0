"""``adacorr export``: a run as a table for people, or for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from adacorr.cli.options import NEW, TEXT, Outputs, Printing

if TYPE_CHECKING:
    from adacorr.runs.outcome import Final
    from adacorr.runs.reader import RunData


def export(
    run: Path,
    *,
    to: Literal["table", "label-studio", "cleanlab", "tensorboard"] = "table",
    output: Path,
    changed_only: bool = False,
    most: int | None = None,
    prefix: str | None = None,
    outputs: Outputs = NEW,
    printing: Printing = TEXT,
) -> None:
    """Export a run as one table, or for another tool.

    Parameters
    ----------
    run
        A run directory, from `adacorr clean`, `fit` or `correct --run-dir`.
    to
        table: a CSV or parquet file with all columns of the source, the given and the final
        label, the suspicion and who decided (people's decisions and imported answers included).
        label-studio: tasks with predictions as .json, or a plain .csv. cleanlab: the label
        issues as a CSV. tensorboard: the numbers of each epoch as an event file.
    output
        The file, or for tensorboard the log folder.
    changed_only
        For label-studio as .csv: only the labels that were changed or withheld for review.
    most
        For label-studio as .json: only so many rows, the most suspicious ones.
    prefix
        For label-studio as .json: the address in front of the paths of images. Default:
        Label Studio's local files, with the folder of images below its document root.
    """
    from adacorr.cli.outputs import files_of
    from adacorr.core.validation import InputError
    from adacorr.runs.directory import Run
    from adacorr.runs.export import write_cleanlab, write_label_studio, write_tensorboard
    from adacorr.runs.labelstudio import write_tasks
    from adacorr.runs.outcome import write_outcome
    from adacorr.runs.reader import RunData

    tasks = to == "label-studio" and output.suffix.lower() == ".json"
    if changed_only and (to != "label-studio" or tasks):
        raise InputError(f"--changed-only: expected only with tasks as .csv, got {to} {output}")
    if (most is not None or prefix is not None) and not tasks:
        raise InputError("--most, --prefix: expected only with --to label-studio and a .json file")
    if to != "tensorboard":
        outputs.check(output, *files_of(run))
    source, more = Run.open(run), ""
    if to == "tensorboard":
        count, what = write_tensorboard(source, output), "numbers"
    elif to == "cleanlab":
        count, what = write_cleanlab(source, output), "rows"
    elif tasks:
        (count, more), what = (
            write_tasks(RunData.open(source), output, most=most, prefix=prefix),
            ("tasks"),
        )
        more = f"labelling interface:\n{more}"
    elif to == "label-studio":
        count, what = write_label_studio(source, output, changed_only=changed_only), "rows"
    else:
        data = RunData.open(source)
        more = write_outcome(data, output, _final(data)) or ""
        count, what = data.n, "rows"
    facts = {"to": to, "output": str(output), what: count}
    printing.result(facts, [f"{count} {what} in {output}", *([more] if more else [])])


def _final(data: RunData) -> Final | None:
    """The labels after what people said on the review page or in another tool; None: nobody did."""
    from adacorr.runs.imports import kept_answers
    from adacorr.runs.outcome import Final

    reviewed = _reviewed(data)
    if reviewed is None and (imported := kept_answers(data)):
        return Final.with_answers(data, imported)
    return reviewed


def _reviewed(data: RunData) -> Final | None:
    """The labels after people's decisions, where the run was reviewed; else None."""
    if not data.run.file("review.sqlite").is_file():
        return None
    from adacorr.review import open_review
    from adacorr.review.export import final_labels

    opened, store = open_review(data.run)
    try:
        return final_labels(opened, store, "accept")
    finally:
        store.close()

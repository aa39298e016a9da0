"""``adacorr import``: answers from another tool."""

from __future__ import annotations

from pathlib import Path

from adacorr.cli.options import TEXT, Printing


def import_(run: Path, answers: Path, *, printing: Printing = TEXT) -> None:
    """Take answers that people gave in another tool into a run.

    Read are finished tasks of Label Studio (JSON, JSON-MIN, CSV), records of Argilla (JSON, CSV),
    documents of doccano (JSON, JSONL, CSV) and tables with columns row and label. They are kept in
    answers.csv of the run; a later answer to a row replaces an earlier one.

    Parameters
    ----------
    run
        A run directory.
    answers
        The file with the answers, made from tasks of `adacorr export`.
    """
    from adacorr.runs.directory import Run
    from adacorr.runs.imports import keep_answers, read_answers
    from adacorr.runs.reader import RunData

    data = RunData.open(Run.open(run))
    found = read_answers(data, answers)
    path, total = keep_answers(data, found)
    counts = {
        "answers": len(found.labels),
        "cannot_tell": found.cannot_tell,
        "unanswered": found.unanswered,
        "total": total,
    }
    printing.result(
        {**counts, "file": str(path)},
        f"{counts['answers']:,} answers ({counts['cannot_tell']:,} cannot tell; "
        f"{counts['unanswered']:,} tasks have none); {total:,} in {path}\n"
        f"they are in the table of: adacorr export {run} --output FILE\n"
        f"what they prove: adacorr certify {run} --verified {path}",
    )

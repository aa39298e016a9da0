"""``adacorr ask``: the rows that a person should look at, as a file to answer in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from adacorr.cli.options import NEW, TEXT, Outputs, Printing
from adacorr.cli.table_options import FOUND, TableOptions, files


def ask(
    source: Annotated[str | None, Parameter(name="INPUT")] = None,
    /,
    *,
    output: Path,
    n: Annotated[int, Parameter(name=("--n", "-n"))] = 50,
    to: Literal["csv", "label-studio"] = "csv",
    verified: Path | None = None,
    seed: int = 0,
    table: TableOptions = FOUND,
    normalize: bool = False,
    outputs: Outputs = NEW,
    printing: Printing = TEXT,
) -> None:
    """Say which rows of a table a person should look at.

    The output has the row's number, its other columns, and an empty column label for the answer
    (or "cannot tell"); it shows neither the given label nor the prediction, so that it suggests
    nothing. Then: adacorr correct INPUT --verified ANSWERS.

    Parameters
    ----------
    source
        A table as for adacorr correct.
    output
        Where the questions go.
    n
        How many rows.
    to
        csv: a table to fill in. label-studio: a JSON file of tasks to import.
    verified
        The answers so far, to go on from there: a file, or a run whose review page was used.
    seed
        Of the random order; the same in every pass.
    normalize
        Accept rows that do not sum to 1.
    """
    from adacorr.cli.answers import verified_by
    from adacorr.correction.questions import ask_table, write_questions

    inputs = table.inputs(source)
    outputs.check(output, *files(inputs), *([] if verified is None else [verified]))
    questions = ask_table(
        inputs,
        n,
        columns=table.request(),
        verified=verified_by(verified),
        rng=seed,
        normalize=normalize,
    )
    write_questions(questions, output, to)
    names = "; ".join(questions.class_names[:8])
    more = "; ..." if len(questions.class_names) > 8 else ""
    printing.result(
        {
            "rows": questions.rows.tolist(),
            "classes": list(questions.class_names),
            "written": [str(output)],
        },
        f"{len(questions.rows):,} questions in {output}\n"
        f"answer with one of: {names}{more}; cannot tell",
    )

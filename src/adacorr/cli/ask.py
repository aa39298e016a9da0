"""``adacorr ask``: the rows that a person should look at, as a file to answer in."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def ask(
    source: Annotated[str | None, Parameter(name="INPUT")] = None,
    /,
    *,
    output: Path,
    n: Annotated[int, Parameter(name=("--n", "-n"))] = 50,
    to: Literal["csv", "label-studio"] = "csv",
    verified: Path | None = None,
    seed: int = 0,
    labels: Path | None = None,
    probs: Path | None = None,
    label_column: str | None = None,
    probs_column: str | None = None,
    class_columns: str | None = None,
    top_k_columns: str | None = None,
    classes: str | None = None,
    n_classes: int | None = None,
    normalize: bool = False,
    overwrite: bool = False,
    json: bool = False,
    quiet: bool = False,
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
        The answers so far, to go on from there.
    seed
        Of the random order; the same in every pass.
    labels
        A .npy file of labels, with --probs in place of INPUT.
    probs
        A .npy file of probabilities.
    label_column
        As for adacorr correct, like the options that follow.
    probs_column
        The list column of probabilities.
    class_columns
        One column per class: names with commas, or a prefix with a star.
    top_k_columns
        Two list columns with commas: class indices and their probabilities.
    classes
        Class names with commas, or a .txt file with one name per line.
    n_classes
        With top-k columns and integer labels: how many classes there are.
    normalize
        Accept rows that do not sum to 1.
    overwrite
        Replace an output that exists.
    json
        Print one JSON object instead of text.
    quiet
        Print nothing but errors.
    """
    from adacorr.cli.outputs import check_new
    from adacorr.cli.table_options import files, one_input, request
    from adacorr.correction.questions import ask_table, write_questions

    inputs = one_input(source, labels, probs)
    check_new(output, overwrite, *files(inputs), *([] if verified is None else [verified]))
    columns = request(label_column, probs_column, class_columns, classes, top_k_columns, n_classes)
    questions = ask_table(
        inputs, n, columns=columns, verified=verified, rng=seed, normalize=normalize
    )
    write_questions(questions, output, to)
    if json:
        found = {"rows": questions.rows.tolist(), "classes": list(questions.class_names)}
        print(json_format.dumps({**found, "written": [str(output)]}))
    elif not quiet:
        names = "; ".join(questions.class_names[:8])
        more = "; ..." if len(questions.class_names) > 8 else ""
        print(f"{len(questions.rows):,} questions in {output}")
        print(f"answer with one of: {names}{more}; cannot tell")

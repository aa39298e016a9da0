"""``adacorr ask``: the rows that a person should look at, as a file to answer in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from adacorr.cli.options import LOCAL, NEW, TEXT, EngineOptions, Outputs, Printing
from adacorr.cli.table_options import FOUND, TableOptions, files

if TYPE_CHECKING:
    from adacorr.correction.questions import TableQuestions


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
    where: EngineOptions = LOCAL,
    outputs: Outputs = NEW,
    printing: Printing = TEXT,
) -> None:
    """Say which rows of a table, or of a run, a person should look at.

    The output has the row's number, its other columns, and an empty column label for the answer
    (or "cannot tell"); it shows neither the given label nor the prediction, so that it suggests
    nothing. Then: adacorr correct INPUT --verified ANSWERS, or adacorr certify RUN --verified
    ANSWERS.

    Parameters
    ----------
    source
        A table as for adacorr correct, or a run directory: then the same rows as on its review
        page, without those that are answered there.
    output
        Where the questions go.
    n
        How many rows.
    to
        csv: a table to fill in. label-studio: a JSON file of tasks to import there; --verified
        takes the finished tasks as JSON.
    verified
        The answers so far, to go on from there: a file, or a run whose review page was used.
    seed
        Of the random order; the same in every pass.
    normalize
        Accept rows that do not sum to 1.
    """
    from adacorr.cli.answers import verified_by
    from adacorr.cli.outputs import files_of
    from adacorr.core.validation import InputError
    from adacorr.correction.questions import ask_table

    if source is not None and is_run(source):
        if table != FOUND or normalize or where != LOCAL:
            raise InputError("ask: expected no options of tables with a run, got some")
        outputs.check(output, *files_of(Path(source)), *([] if verified is None else [verified]))
        _finish(_of_run(Path(source), n, verified, seed), output, to, printing)
        return
    inputs = table.inputs(source)
    outputs.check(output, *files(inputs), *([] if verified is None else [verified]))
    with where.client() as client:
        questions = ask_table(
            inputs,
            n,
            columns=table.request(),
            verified=verified_by(verified),
            rng=seed,
            normalize=normalize,
            client=client,
        )
    _finish(questions, output, to, printing)


def is_run(source: str) -> bool:
    """A run directory, and not a folder of tables."""
    return all((Path(source) / name).is_file() for name in ("config.toml", "labels.parquet"))


def _of_run(path: Path, n: int, verified: Path | None, seed: int) -> TableQuestions:
    """Of a run; what was answered on its page, brought to it, or in a file is not asked again."""
    from adacorr.cli.certify import answers_from_file, answers_of_run
    from adacorr.correction.questions import ask_run
    from adacorr.runs.directory import Run
    from adacorr.runs.reader import RunData

    data = RunData.open(Run.open(path))
    answered = set(answers_of_run(data)[0].rows.tolist())
    if verified is not None:
        answered |= set(answers_from_file(data, verified)[0].rows.tolist())
    return ask_run(data, n, answered=answered, rng=seed)


def _finish(
    questions: TableQuestions, output: Path, to: Literal["csv", "label-studio"], printing: Printing
) -> None:
    from adacorr.correction.questions import write_questions
    from adacorr.runs.labelstudio import labelling_config

    write_questions(questions, output, to)
    interface = labelling_config(list(questions.class_names), image=False)
    names = "; ".join(questions.class_names[:8])
    more = "; ..." if len(questions.class_names) > 8 else ""
    printing.result(
        {
            "rows": questions.rows.tolist(),
            "classes": list(questions.class_names),
            "written": [str(output)],
        },
        [
            f"{len(questions.rows):,} questions in {output}",
            f"answer with one of: {names}{more}; cannot tell",
            *([] if to == "csv" else [f"labelling interface:\n{interface}"]),
        ],
    )

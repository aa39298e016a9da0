"""What the columns of ``labels.parquet`` are, and which decision they come from.

A row has one decision: `corrected`, `suggested`, `ratio`, `confidence`, `suspicion`, `flipped` and
`review` of a row always come from the same one. Which one that is, a run says in ``config.toml``:

    [run]
    format = 2
    kind = "correct"            or "fit", "clean": the command that wrote the run
    [rule]
    sentence = "A label was changed where ..."     true of this run's rule; pages print it
    decision = "the automatic rule on ..."         where the columns of the decision come from

Runs of format 1 (up to 0.1) have neither table. Their `index` counts within the run after
``--subset`` and ``--skip-unreadable``; readers take the row number from `id` where it is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adacorr.core.validation import InputError

FORMAT = 2
SAID = "said.npy"
"""(N, M) class indices that several annotators gave, -1 for a gap; `given` is their majority."""


@dataclass(frozen=True)
class Column:
    """A column of the label table: what it holds, and whether every run has it."""

    name: str
    kind: str
    meaning: str
    required: bool = False


COLUMNS = (
    Column("index", "integer", "row number in the source as it was first read, from 0", True),
    Column("id", "any", "the source's own name of the row: an id column, a path in a folder"),
    Column("content", "text", "fingerprint of the file behind the row, where it has one"),
    Column("given", "class", "the label as it came", True),
    Column("corrected", "class", "the label after the decision", True),
    Column("suggested", "class", "what the decision would say; `corrected` where flipped", True),
    Column("ratio", "number", "P(given) / P(suggested), in [0, 1]; small means doubtful", True),
    Column("flipped", "flag", "the label was changed", True),
    Column("review", "flag", "the change was withheld, for a person to look at"),
    Column("confidence", "number", "estimated P(`corrected` is right); NaN: not known"),
    Column("suspicion", "number", "estimated P(`given` is wrong); NaN: not known"),
    Column("alternative", "class", "the most probable class other than the given one"),
    Column("decided_by", "text", "given, rule, answers or person: whose word `corrected` is"),
    Column("unjudged", "flag", "nothing could be read of the sample, or its class is too small"),
    Column("unreadable", "flag", "nothing could be read of the sample"),
    Column(
        "outlier", "number", "how many times the usual spread it lies beyond the usual distance"
    ),
    Column("copy_of", "integer", "the first sample that this one is a near copy of; -1: of none"),
    Column("copy_distance", "number", "to the nearest other sample, as a share of the usual one"),
    Column("copies_across_classes", "flag", "of its near copies some have another label"),
    Column("copies_across_split", "flag", "its near copies lie on both sides of the split"),
    Column("split", "text", "train or validation: whether the model learnt from the row"),
    Column("truth", "class", "the true class where it is known, for scoring; -1: not known"),
)
REQUIRED_COLUMNS = tuple(column.name for column in COLUMNS if column.required)


def run_format(config: dict[str, Any], where: str) -> int:
    """The format of a run; one line for a run of a newer version.

    >>> run_format({}, "run"), run_format({"run": {"format": 2}}, "run")
    (1, 2)
    """
    run = config.get("run", {})
    found = run.get("format", 1) if isinstance(run, dict) else 1
    if type(found) is not int or not 1 <= found <= FORMAT:
        raise InputError(
            f"{where}: expected a run of format 1 to {FORMAT}, got {found!r}; "
            "update adacorr to read it"
        )
    return found

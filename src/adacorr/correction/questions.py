"""Which rows of a table to ask people about, and a file to put the answers into."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adacorr.core.asking import Queue, check_seed, is_disputed
from adacorr.core.sparse import complete
from adacorr.core.validation import check_count
from adacorr.correction.panel import majority_vote
from adacorr.correction.tables import (
    Progress,
    common_layout,
    open_inputs,
    rows_per_batch,
    survey_all,
)
from adacorr.correction.verified import Verified
from adacorr.files import atomic
from adacorr.labels import Codec
from adacorr.tables.decode import Place, decode_probs
from adacorr.tables.labels import encode_given, given_labels
from adacorr.tables.layout import Layout, Request
from adacorr.tables.sources import Source

ROW, LABEL = "row", "label"
"""Columns of a file of questions: the row's number in the table, and where the answer goes."""


@dataclass(frozen=True)
class TableQuestions:
    """Rows to ask about, in order.

    Attributes
    ----------
    rows : their numbers in the table, from 0.
    fields : what the table holds of each, without its label and its probabilities.
    class_names : what may be answered, besides "cannot tell".
    """

    rows: NDArray[np.int64]
    fields: list[dict[str, Any]]
    class_names: tuple[str, ...]


def ask_table(
    source: str | Path | tuple[str | Path, ...],
    n: int = 50,
    *,
    columns: Request | None = None,
    verified: Any = None,
    rng: int = 0,
    normalize: bool = False,
    batch_rows: int | None = None,
    progress: Progress = lambda stage, rows, total: None,
) -> TableQuestions:
    """The rows of a table to look at next; the same as :func:`adacorr.ask` says of arrays.

    Parameters
    ----------
    source, columns, normalize, batch_rows, progress : as in :func:`adacorr.correct_table`.
    n : how many rows.
    verified : the answers so far, ``{row: label}`` or a file.
    rng : the seed of the order, the same in every pass.
    """
    sources = open_inputs(source)
    layout = common_layout(sources, columns or Request())
    said = Verified.of(verified)
    answered = np.empty(0, dtype=np.int64) if said is None else np.unique(said.rows(sources))
    rows = batch_rows or rows_per_batch(sources, layout)
    survey, starts = survey_all(sources, layout, rows, progress, None, normalize=normalize)
    codec = survey.codec(layout)
    queue = Queue.of(
        np.empty(0, dtype=bool), check_count(n, "n") + len(answered), seed=check_seed(rng)
    )
    for one, start in zip(sources, starts, strict=True):
        for part in _queues(one, layout, codec, start, rows, queue, normalize):
            queue = queue.merge(part)
            progress("asking", sum(part.sizes), survey.rows)
    wanted = queue.next(n, answered)
    return TableQuestions(wanted, _fields(sources, starts, layout, wanted, rows), codec.names)


def write_questions(
    questions: TableQuestions, path: Path, to: Literal["csv", "label-studio"] = "csv"
) -> None:
    """A CSV with an empty column for the answers, or tasks that Label Studio imports."""
    with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        pairs = zip(questions.rows.tolist(), questions.fields, strict=True)
        if to == "label-studio":
            tasks = [{"data": {**_plain(fields), ROW: row}} for row, fields in pairs]
            json.dump(tasks, file, ensure_ascii=False, indent=1, default=str)
            return
        names = [name for name in (questions.fields or [{}])[0] if name not in (ROW, LABEL)]
        writer = csv.writer(file)
        writer.writerow([ROW, *names, LABEL])
        writer.writerows([row, *(fields[name] for name in names), ""] for row, fields in pairs)


def _queues(
    source: Source,
    layout: Layout,
    codec: Codec,
    start: int,
    rows: int,
    like: Queue,
    normalize: bool,
):
    """What each batch of a file adds to the queue."""
    row = 0
    for batch in source.batches(layout.needed, rows):
        if not batch.num_rows:
            continue
        place = Place(source, layout, row)
        codes = encode_given(codec, given_labels(batch, place), place)
        f: Any = complete(
            decode_probs(batch, place, check=False, normalize=normalize), len(codec.names)
        )
        disputed = is_disputed(majority_vote(codes, f) if layout.annotators else codes, f)
        yield Queue.of(disputed, like.limit, seed=like.seed, first_row=start + row)
        row += batch.num_rows


def _fields(
    sources: Sequence[Source],
    starts: Sequence[int],
    layout: Layout,
    wanted: NDArray[np.int64],
    rows: int,
) -> list[dict[str, Any]]:
    """The other columns of some rows, in their order."""
    found: dict[int, dict[str, Any]] = {}
    ordered = np.sort(wanted)
    for source, start in zip(sources, starts, strict=True):
        names = [name for name in source.kept if name not in layout.needed]
        first = start
        for batch in source.batches(names, rows) if names else ():
            a, b = np.searchsorted(ordered, [first, first + batch.num_rows])
            for row in ordered[a:b].tolist():
                found[row] = batch.slice(row - first, 1).to_pylist()[0]
            first += batch.num_rows
    return [found.get(row, {}) for row in wanted.tolist()]


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Values that JSON holds; bytes such as images are left out."""
    return {name: value for name, value in fields.items() if not isinstance(value, bytes)}

"""Which rows of a table to ask people about, and a file to put the answers into."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from adacorr.core.asking import Queue, check_seed, is_disputed
from adacorr.core.sparse import complete
from adacorr.core.validation import InputError, check_count
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
from adacorr.runs.labelstudio import text_of
from adacorr.runs.reader import RunData
from adacorr.runs.samples import Items
from adacorr.tables.decode import Place, decode_probs
from adacorr.tables.labels import encode_given, given_labels
from adacorr.tables.layout import Layout, Request
from adacorr.tables.sources import Source

if TYPE_CHECKING:
    from distributed import Client

_ROWS = 1 << 16
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
    client: Client | None = None,
    progress: Progress = lambda stage, rows, total: None,
) -> TableQuestions:
    """The rows of a table to look at next; the same as :func:`adacorr.ask` says of arrays.

    Parameters
    ----------
    source, columns, normalize, batch_rows, progress : as in :func:`adacorr.correct_table`.
    n : how many rows.
    verified : the answers so far, ``{row: label}`` or a file.
    rng : the seed of the order, the same in every pass.
    client : of a Dask cluster, which then reads the files; all workers must see them.
    """
    sources = open_inputs(source)
    layout = common_layout(sources, columns or Request())
    said = Verified.of(verified)
    answered = np.empty(0, dtype=np.int64) if said is None else np.unique(said.rows(sources))
    rows = batch_rows or rows_per_batch(sources, layout)
    survey, starts = survey_all(sources, layout, rows, progress, client, normalize=normalize)
    codec = survey.codec(layout)
    queue = Queue.of(
        np.empty(0, dtype=bool), check_count(n, "n") + len(answered), seed=check_seed(rng)
    )
    reading = _Reading(layout, codec, rows, queue, normalize)
    items = zip(sources, starts, strict=True)
    if client is None:
        parts = (part for item in items for part in _queues(reading, item))
    else:
        from adacorr.correction.cluster import stream

        parts = stream(client, _queue, reading, items)
    for part in parts:
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
            tasks = [{"data": {**as_text(_plain(fields)), ROW: row}} for row, fields in pairs]
            json.dump(tasks, file, ensure_ascii=False, indent=1, default=str)
            return
        every = dict.fromkeys(name for fields in questions.fields for name in fields)
        names = [name for name in every if name not in (ROW, LABEL)]
        writer = csv.writer(file)
        writer.writerow([ROW, *names, LABEL])
        writer.writerows(
            [row, *(fields.get(name, "") for name in names), ""] for row, fields in pairs
        )


def ask_run(
    data: RunData, n: int = 50, *, answered: Collection[int] = (), rng: int = 0
) -> TableQuestions:
    """The rows of a run to look at next: those that its review page asks about.

    Parameters
    ----------
    n : how many rows.
    answered : rows of the run that have an answer.
    rng : the seed of the order, the same in every pass; the page's is 0.

    The `rows` are row numbers in the source, by which ``adacorr certify`` finds them.
    """
    if data.pred_probs is None:
        raise InputError(
            f"{data.run.path}: expected a run with probabilities (pred_probs.npy), got none; ask "
            "about its table instead"
        )
    pairs = [(batch.given, batch.index) for batch in data.batches()]
    given, index = (np.concatenate(column) for column in zip(*pairs, strict=True))
    done, count = np.array(sorted(answered), dtype=np.int64), check_count(n, "n")
    queue = queue_of_run(given, data.pred_probs, count + len(done), check_seed(rng))
    rows = index[queue.next(count, done)]
    items = Items(data, rows, side=1)
    fields: list[dict[str, Any]] = [dict(items.get(row).fields) for row in rows.tolist()]
    return TableQuestions(rows, fields, data.class_names)


def queue_of_run(given: NDArray[np.int64], pred_probs: Any, limit: int, seed: int = 0) -> Queue:
    """The first rows to ask about; reads a piece at a time."""
    queue = Queue.of(np.empty(0, dtype=bool), limit, seed=seed)
    for start in range(0, len(given), _ROWS):
        rows = slice(start, start + _ROWS)
        disputed = is_disputed(given[rows], pred_probs[rows])
        queue = queue.merge(Queue.of(disputed, limit, seed=seed, first_row=start))
    return queue


@dataclass(frozen=True)
class _Reading:
    """How the files of a table are read."""

    layout: Layout
    codec: Codec
    rows: int
    like: Queue
    normalize: bool


def _queues(reading: _Reading, item: tuple[Source, int]) -> Iterator[Queue]:
    """What each batch of a file, whose first row has this number, adds to the queue."""
    (source, start), layout, codec, row = item, reading.layout, reading.codec, 0
    for batch in source.batches(layout.needed, reading.rows):
        if not batch.num_rows:
            continue
        place = Place(source, layout, row)
        codes = encode_given(codec, given_labels(batch, place), place)
        read = decode_probs(batch, place, check=False, normalize=reading.normalize)
        f: Any = complete(read, len(codec.names))
        disputed = is_disputed(majority_vote(codes, f) if layout.annotators else codes, f)
        like = reading.like
        yield Queue.of(disputed, like.limit, seed=like.seed, first_row=start + row)
        row += batch.num_rows


def _queue(reading: _Reading, item: tuple[Source, int]) -> Queue:
    return reduce(Queue.merge, _queues(reading, item), reading.like)


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


def as_text(fields: dict[str, Any]) -> dict[str, Any]:
    """With what a labelling interface shows under ``text``, if there is no such column."""
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return {"text": text_of(texts), **fields}


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Values that JSON holds; bytes such as images are left out."""
    return {name: value for name, value in fields.items() if not isinstance(value, bytes)}

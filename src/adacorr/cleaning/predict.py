"""The models of a finished clean on new data.

A run keeps no fitted models, since those would have to be pickles: they are fitted again, to the
corrected labels, which takes seconds. Encoders that learn from the samples (words, columns) need
the data of the run for that; pretrained ones only the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.clean import encoder_for
from adacorr.cleaning.columns import joined_text
from adacorr.cleaning.encoders.encoded import Encoder, Vectors
from adacorr.cleaning.features import (
    BLOCK,
    FIT_ROWS,
    Features,
    Reduction,
    Views,
    array_there,
    picked,
)
from adacorr.cleaning.folds import bounded, fit_all, tuned
from adacorr.cleaning.models import models_for
from adacorr.cleaning.rundir import read_settings, trusted
from adacorr.cleaning.samples import Kind, digests, open_samples, values_table
from adacorr.cleaning.workers import HERE
from adacorr.core.models import mean_of
from adacorr.core.sampling import sample_rows
from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.data import table as tables
from adacorr.data.folder import image_files
from adacorr.data.images import SUFFIXES
from adacorr.data.named.catalog import CATALOG
from adacorr.runs import Run
from adacorr.runs.reader import RunData


@dataclass(frozen=True)
class New:
    """Samples to predict: contents, and what the user calls each."""

    content: Any
    ids: NDArray[Any]

    def __len__(self) -> int:
        return len(self.ids)


def predictions(run: Run, new: New, encoder: str | None = None) -> Iterator[NDArray[np.float32]]:
    """(B, K) probabilities, a block of samples at a time; an unreadable one gets class shares.

    `encoder` names the run's once more where it is not adacorr's own.
    """
    judge = judge_of(run, encoder)
    for start in range(0, len(new), BLOCK):
        yield judge(picked(new.content, np.arange(start, min(start + BLOCK, len(new)))))


def judge_of(run: Run, named: str | None = None) -> Callable[[Any], NDArray[np.float32]]:
    """``contents -> (B, K)``: encoder and models of the run, fitted to its corrected labels."""
    kind, k = _kind(run), len(run.class_names())
    labels, readable = _labels(run)
    rows = bounded(np.flatnonzero(readable), labels, np.random.default_rng(0))
    encoder, known = _encoded(run, kind, rows, named)
    reduce = Reduction(known.dense, known.readable)
    features = _features(known, reduce(known.dense), getattr(encoder, "n_words", 0))
    y, every = labels[rows], np.arange(len(rows))
    models = [
        tuned(model, features, y, every, every, 0)
        for model in models_for(kind, known.sparse is not None, k)
    ]
    fitted = fit_all(models, features.views(every), y, k, HERE)
    shares = np.bincount(y, minlength=k) / len(y)

    def judge(content: Any) -> NDArray[np.float32]:
        found = encoder.encode(content)
        new = Views(reduce(found.dense), found.sparse, features.n_words)
        p = mean_of(fitted(new))
        p[~found.readable] = shares
        return p

    return judge


def _features(found: Vectors, reduced: NDArray[np.float32], n_words: int) -> Features:
    none = np.zeros((0, 2), np.uint64)
    rows = None
    if found.sparse is not None:
        rows = _Whole(found.sparse)
    return Features(found.dense, reduced, rows, n_words, found.readable, none, "")


@dataclass(frozen=True)
class _Whole:
    """Sparse rows that are all in memory."""

    matrix: Any

    def take(self, rows: NDArray[np.int64]) -> Any:
        return self.matrix[rows]


def _kind(run: Run) -> str:
    found = run.table("clean").get("kind")
    if found not in get_args(Kind):
        where = f"{run.file('config.toml')}: clean"
        raise InputError(f"{where}: expected kind, one of {', '.join(get_args(Kind))}, got {found}")
    return str(found)


def _labels(run: Run) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Corrected labels, and which rows could be read."""
    labels = np.concatenate([batch.corrected for batch in RunData.open(run).batches()])
    table, name = run.labels(), "unreadable"
    if name not in table.column_names or str(table[name].type) != "bool":
        raise InputError(f"{run.file('labels.parquet')}: expected a column {name} of true or false")
    return labels, ~np.asarray(table[name], bool)


def _encoded(
    run: Run, kind: str, rows: NDArray[np.int64], named: str | None
) -> tuple[Encoder, Vectors]:
    """The encoder, and the rows of the run that models are fitted to."""
    source, choice, name, _ = read_settings(run.path)
    encoder = encoder_for(kind, trusted(name, named, run.path))
    if not encoder.fitted:
        features = run.features()
        if features is None or not len(rows) or features.shape[0] <= rows.max():
            raise InputError(f"{run.file('features.npy')}: expected features of all rows, got none")
        found = features[rows].astype(np.float32)
        return encoder, Vectors(found, np.ones(len(rows), bool))
    if source.partition(":")[0] not in CATALOG and not Path(source).exists():
        raise InputError(f"{run.path}: expected its data in {source}, got no such file")
    samples = open_samples(source, choice)
    content = samples.content
    seen = array_there(run.path, "cache/digests.npy", (len(samples), 2), np.uint64, "r")
    if seen is None or not np.array_equal(seen, digests(samples)):
        raise InputError(
            f"{source}: expected the samples of {run.path}, got others: it has changed since; "
            f"adacorr clean --resume {run.path} takes it as it is now"
        )
    encoder.fit(picked(content, sample_rows(len(content), FIT_ROWS)))
    return encoder, encoder.encode(picked(content, rows))


# -- new data --------------------------------------------------------------------------------------


def open_new(run: Run, data: str) -> New:
    """Samples of the kind that the run judged; labels are not needed."""
    about, kind = run.table("data"), str(run.table("clean")["kind"])
    path = Path(data).expanduser()
    if data.partition(":")[0] in CATALOG or path.suffix == ".npz":
        parts = load(data)
        content = (parts.test or parts.train).features
        if kind == "values":
            content = values_table(np.asarray(content))
        return New(content, np.arange(len(content)))
    if not path.exists():
        raise InputError(f"{data}: expected a file, a folder or a named dataset, got none")
    if path.is_dir() or path.suffix.lower() in SUFFIXES:
        return _pictures(path, kind)
    table = tables.read(path)
    one = [str(about.get("image_column"))]
    columns: list[str] = about.get("text_columns") or about.get("value_columns") or one
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        got = tables.some(table.column_names)
        raise InputError(f"{data}: expected a column {missing[0]!r}, got {got}")
    if kind == "images":
        content = tables.image_sources(table, columns[0], path)[0]
    else:
        content = joined_text(table, columns) if kind == "text" else table.select(columns)
    return New(content, np.arange(table.num_rows))


def _pictures(path: Path, kind: str) -> New:
    if kind != "images":
        raise InputError(f"{path}: expected {kind} as in the run, got images")
    root = path if path.is_dir() else path.parent
    files = image_files(path) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: expected images, got none")
    return New(files, np.array([file.relative_to(root).as_posix() for file in files]))

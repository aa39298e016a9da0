"""``adacorr predict``: apply a trained model to new data, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.cli.options import NEW, TEXT, Outputs, Printing
from adacorr.core.validation import InputError
from adacorr.correction.sinks import open_npy
from adacorr.files import atomic
from adacorr.runs.directory import Run
from adacorr.tables import parquet

if TYPE_CHECKING:
    from adacorr.cleaning.predict import New
    from adacorr.data import Dataset

SUFFIXES = (".parquet", ".csv", ".npy")


def predict(
    run: Path,
    data: str,
    *,
    output: Path,
    net: str | None = None,
    encoder: str | None = None,
    outputs: Outputs = NEW,
    skip_unreadable: bool = False,
    workers: int = 0,
    printing: Printing = TEXT,
) -> None:
    """Apply a trained model to new data.

    Parameters
    ----------
    run
        A run directory of `adacorr clean` or `adacorr fit`.
    data
        What to predict, of the kind that the run was trained on; it needs no labels. A named
        dataset stands for its test part.
    output
        A .parquet or .csv with the predicted class and the probability of each class per sample,
        or an .npy with the probabilities alone.
    net
        The run's net once more where it is your own code, package.module:factory: a run does not
        choose which code runs.
    encoder
        The encoder of a run of `adacorr clean` once more where it is not adacorr's own.
    skip_unreadable
        Leave out images that cannot be read.
    workers
        Processes that load samples which are not in memory.
    """
    if output.suffix not in SUFFIXES:
        raise InputError(f"output: expected a name in {', '.join(SUFFIXES)}, got {output.name}")
    from adacorr.cli.outputs import files_of

    outputs.check(output, data, *files_of(run))
    trained = Run.open(run)
    names = trained.class_names()
    samples, batches = predicted(trained, data, net, encoder, skip_unreadable, workers)
    with atomic(output) as temporary:
        write(temporary, output.suffix, batches, names, samples)
    facts = {"predictions": len(samples), "output": str(output)}
    printing.result(facts, f"{len(samples):,} predictions in {output}")


def predicted(
    run: Run, data: str, net: str | None, encoder: str | None, skip_unreadable: bool, workers: int
) -> tuple[Dataset | New, Iterator[NDArray[Any]]]:
    """The samples and their probabilities, by the models of `clean` or the net of `fit`."""
    if run.table("clean"):
        from adacorr.cleaning.predict import open_new, predictions

        new = open_new(run, data)
        return new, predictions(run, new, encoder)
    from adacorr.data import load_new
    from adacorr.train.saved import load_model

    samples = load_new(data, run.table("data"), skip_unreadable=skip_unreadable)
    return samples, load_model(run, net).stream(samples.features, workers)


def write(
    path: Path,
    suffix: str,
    batches: Iterator[NDArray[Any]],
    names: list[str],
    samples: Dataset | New,
) -> None:
    """Stream the batches into a file of the kind that `suffix` says."""
    if suffix == ".npy":
        shape = (len(samples), len(names))
        with open_npy(path, shape, np.dtype(np.float32)) as out:
            for f in batches:
                out.write(np.ascontiguousarray(f, np.float32).tobytes())
        return
    import pyarrow as pa
    import pyarrow.csv

    ids = np.arange(len(samples)) if samples.ids is None else samples.ids
    writer: Any = None
    try:
        for start, f in numbered(batches):
            columns: dict[str, Any] = {
                "index": pa.array(ids[start : start + len(f)]),
                "predicted": pa.array([names[c] for c in f.argmax(axis=1)]),
            }
            if suffix == ".csv":
                columns |= {f"p_{name}": f[:, c] for c, name in enumerate(names)}
            else:
                flat = pa.array(np.ascontiguousarray(f).ravel())
                columns["pred_probs"] = pa.FixedSizeListArray.from_arrays(flat, len(names))
            table = pa.table(columns)
            if writer is None:
                make = pyarrow.csv.CSVWriter if suffix == ".csv" else parquet.writer
                writer = make(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def numbered(batches: Iterator[NDArray[Any]]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Each batch with the row that it starts at."""
    start = 0
    for batch in batches:
        yield start, batch
        start += len(batch)

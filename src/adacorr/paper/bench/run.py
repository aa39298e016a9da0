"""Run the cells of a grid and score them; the only place where training meets the truth."""

from __future__ import annotations

import dataclasses
import os
import platform
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.kernel import threads as cores
from adacorr.core.validation import InputError, check_fields
from adacorr.paper.bench.grid import Cell, Grid
from adacorr.paper.bench.records import Record, RecordFile
from adacorr.train.settings import Settings

SETTINGS = {field.name for field in dataclasses.fields(Settings)}
CURVES = ("loss", "train_accuracy", "val_accuracy", "test_accuracy", "label_accuracy")


def check_cells(grid: Grid) -> None:
    """Every method, field and noise of the grid exists, before hours of work start."""
    from adacorr.core import noise
    from adacorr.train import METHODS

    for cell in grid.cells:
        method = METHODS.get(str(cell.fields["method"]))
        if method is None:
            raise InputError(
                f"grid {grid.name}: expected a method of {', '.join(METHODS)}, "
                f"got {cell.fields['method']!r}"
            )
        place = f"grid {grid.name}: {cell.method}"
        check_fields(method, {k: v for k, v in cell.fields.items() if k != "method"}, place)
        train = {k: v for k, v in cell.train.items() if k in SETTINGS}
        check_fields(Settings, train, f"grid {grid.name}: train")
        if cell.noise != "none":
            noise.parse(cell.noise, 100)  # the form; classes are checked against the data later


@dataclass(frozen=True)
class Failure:
    """A cell that gave no record, and why."""

    cell: Cell
    reason: str


def run_grid(
    grid: Grid,
    records: RecordFile,
    workers: int = 1,
    on_record: Callable[[Record], None] = lambda record: None,
) -> tuple[int, list[Failure]]:
    """Run every cell that has no record yet; return how many were run, and which failed.

    Each cell runs in a process of its own, so its peak memory is its own and the crash of one cell
    stops no other. A kill loses the cells under way, never a finished one.
    """
    failures = []
    with records.open():
        finished = records.finished()
        todo = [cell for cell in grid.cells if cell.key not in finished]
        for outcome in _run_all(todo, workers):
            if isinstance(outcome, Failure):
                failures.append(outcome)
            else:
                records.append(outcome)
                on_record(outcome)
    return len(todo) - len(failures), failures


def _run_all(cells: Sequence[Cell], workers: int) -> Iterator[Record | Failure]:
    """Outcomes as they come, `workers` processes at a time."""
    spawn = get_context("spawn")
    threads = max(1, cores() // workers)
    queue = iter(cells)
    running: dict[Connection, tuple[BaseProcess, Cell]] = {}

    def start_next() -> None:
        if (cell := next(queue, None)) is not None:
            receiver, sender = spawn.Pipe(duplex=False)
            process = spawn.Process(target=_work, args=(cell, threads, sender), daemon=True)
            process.start()
            sender.close()
            running[receiver] = (process, cell)

    for _ in range(workers):
        start_next()
    while running:
        ready = wait(list(running))
        for receiver in [one for one in running if one in ready]:
            process, cell = running.pop(receiver)
            try:
                outcome = receiver.recv()
            except EOFError:
                process.join()
                outcome = Failure(cell, f"its process ended with code {process.exitcode}")
            process.join()
            start_next()
            yield outcome


def _work(cell: Cell, threads: int, sender: Connection) -> None:
    """In the child: run the cell and send what came of it."""
    Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    try:
        sender.send(run_cell(cell))
    except (ValueError, OSError) as error:
        sender.send(Failure(cell, str(error)))


def _end_with_parent() -> None:
    """A killed parent cannot stop its children: they would train on for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_cell(cell: Cell) -> Record:
    """Load, corrupt, train, score."""
    from adacorr.core import noise
    from adacorr.data import load
    from adacorr.train import METHODS, fit

    started = time.perf_counter()
    splits = load(cell.dataset, seed=cell.seed, **cell.data)
    train, test = splits.train, splits.test
    truth = train.truth if train.truth is not None else train.labels
    given = train.labels
    if cell.noise != "none":
        T = noise.parse(cell.noise, train.n_classes)
        given = noise.inject(truth, T, np.random.default_rng([cell.seed, 1]))
    fields = {key: value for key, value in cell.fields.items() if key != "method"}

    def score(end: Any) -> dict[str, float]:
        """What the curves show beyond training's own metrics."""
        rows = end.train_index
        scores = {"label_accuracy": float((end.labels[rows] == truth[rows]).mean())}
        if test is not None:
            scores["test_accuracy"] = accuracy(end.predict(test.features), test.labels)
        return scores

    result = fit(
        cell.train.get("net"),
        train.features,
        given,
        method=METHODS[cell.fields["method"]](**fields),
        seed=cell.seed,
        class_names=train.class_names,
        on_epoch=score,
        **{key: value for key, value in cell.train.items() if key != "net"},
    )
    return _record(cell, result, given, truth, time.perf_counter() - started)


def accuracy(pred_probs: NDArray[np.floating], labels: NDArray[np.int64]) -> float:
    return float((pred_probs.argmax(axis=1) == labels).mean())


def _record(
    cell: Cell, result: Any, given: NDArray[np.int64], truth: NDArray[np.int64], seconds: float
) -> Record:
    history = result.history
    curves = {
        name: [round(float(line[name]), 5) for line in history]
        for name in CURVES
        if all(line.get(name) is not None for line in history)
    }
    test = curves.get("test_accuracy")
    return {
        "key": cell.key,
        **{name: getattr(cell, name) for name in ("dataset", "noise", "method", "seed")},
        "config": dataclasses.asdict(cell),
        "versions": {name: version(name) for name in ("adacorr", "torch", "numpy")}
        | {"python": platform.python_version()},
        "test_accuracy_last": test[-1] if test else None,
        "test_accuracy_selected": test[result.selected_epoch - 1] if test else None,
        "selected_epoch": result.selected_epoch,
        **score_labels(given, result.labels, truth),
        "curves": curves,
        "seconds": round(seconds, 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def score_labels(
    given: NDArray[np.int64], corrected: NDArray[np.int64], truth: NDArray[np.int64]
) -> dict[str, float | None]:
    """Share of right labels before and after, and how good the flips are.

    >>> score_labels(np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]))
    {'label_accuracy_before': 0.75, 'label_accuracy_after': 0.75, 'flip_precision': 0.5,
     'flip_recall': 1.0}
    """
    flipped = given != corrected
    wrong = given != truth
    fixed = int((flipped & (corrected == truth)).sum())
    return {
        "label_accuracy_before": round(float((~wrong).mean()), 5),
        "label_accuracy_after": round(float((corrected == truth).mean()), 5),
        "flip_precision": round(fixed / int(flipped.sum()), 5) if flipped.any() else None,
        "flip_recall": round(fixed / int(wrong.sum()), 5) if wrong.any() else None,
    }

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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.kernel import threads as cores
from adacorr.core.validation import InputError, check_fields
from adacorr.paper.bench.grid import Cell, Grid
from adacorr.paper.bench.records import Record, RecordFile
from adacorr.train.settings import Settings

if TYPE_CHECKING:
    from adacorr.data import Dataset

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
    running: dict[Connection, tuple[BaseProcess, Cell, int]] = {}

    def start_next(slot: int) -> None:
        if (cell := next(queue, None)) is not None:
            receiver, sender = spawn.Pipe(duplex=False)
            process = spawn.Process(target=_work, args=(cell, threads, slot, sender), daemon=True)
            process.start()
            sender.close()
            running[receiver] = (process, cell, slot)

    for slot in range(workers):
        start_next(slot)
    while running:
        ready = wait(list(running))
        for receiver in [one for one in running if one in ready]:
            process, cell, slot = running.pop(receiver)
            try:
                outcome = receiver.recv()
            except EOFError:
                process.join()
                outcome = Failure(cell, f"its process ended with code {process.exitcode}")
            process.join()
            start_next(slot)
            yield outcome


def _work(cell: Cell, threads: int, slot: int, sender: Connection) -> None:
    """In the child: run the cell on this slot's GPU, if any, and send what came of it."""
    Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(min(threads, torch.get_num_threads()))  # heeds OMP_NUM_THREADS
    if count := torch.cuda.device_count():  # asks the driver, starts nothing on a GPU yet
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = device_of(slot, count, visible)
    try:
        sender.send(run_cell(cell))
    except (ValueError, OSError) as error:
        sender.send(Failure(cell, str(error)))


def device_of(slot: int, count: int, visible: str | None) -> str:
    """The one GPU that a worker may see, of `count` that the whole run may; in turn.

    >>> [device_of(slot, 2, None) for slot in range(3)], device_of(1, 2, "4,6")
    (['0', '1', '0'], '6')
    """
    names = visible.split(",") if visible else [str(i) for i in range(count)]
    return names[slot % count]


def _end_with_parent() -> None:
    """A killed parent cannot stop its children: they would train on for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_cell(cell: Cell) -> Record:
    """Load, corrupt, train, score."""
    from adacorr.train import METHODS, fit

    started = time.perf_counter()
    data = load_cell(cell)
    train, test, truth = data.train, data.test, data.truth
    fields = {key: value for key, value in cell.fields.items() if key != "method"}

    def score(end: Any) -> dict[str, float]:
        """What the curves show beyond training's own metrics."""
        scores = {}
        if truth is not None:
            rows = end.train_index
            scores["label_accuracy"] = float((end.labels[rows] == truth[rows]).mean())
        if test is not None:
            scores["test_accuracy"] = accuracy(end.predict(test.features), test.labels)
        return scores

    result = fit(
        cell.train.get("net"),
        train.features,
        train.labels,
        method=METHODS[cell.fields["method"]](**fields),
        seed=cell.seed,
        class_names=train.codec,
        validation=data.validation or 0.1,
        correct=False,  # a table of methods; the labels handed out are the same for all of them
        on_epoch=score,
        **{key: value for key, value in cell.train.items() if key != "net"},
    )
    return _record(cell, result, train.labels, truth, time.perf_counter() - started)


@dataclass(frozen=True)
class CellData:
    """What a cell trains on; the truth is for scores only."""

    train: Dataset  # with the labels that training gets
    truth: NDArray[np.int64] | None  # None: nobody knows it (real noise)
    validation: tuple[Any, NDArray[np.int64]] | None  # a part of its own, else None
    test: Dataset | None


def load_cell(cell: Cell) -> CellData:
    """Labels are made wrong where the grid says so; the paper's validation part as well.

    A validation part that the source itself brings (Clothing1M) is taken as it is.
    """
    from adacorr.data import load
    from adacorr.data.noisy import with_noise
    from adacorr.data.splits import subset

    data = dict(cell.data)
    small = data.pop("test_subset", None)
    splits = load(cell.dataset, seed=cell.seed, **data)
    validation, test = (
        part if part is None or small is None else subset(part, min(small, len(part)), cell.seed)
        for part in (splits.validation, splits.test)
    )
    noise = None if cell.noise == "none" else cell.noise
    train, truth = with_noise(splits.train, noise, cell.seed)
    held_out = None
    if validation is not None:
        if data.get("paper_split"):
            validation, _ = with_noise(validation, noise, cell.seed + 1)
        held_out = validation.features, validation.labels
    return CellData(train, truth, held_out, test)


def accuracy(pred_probs: NDArray[np.floating], labels: NDArray[np.int64]) -> float:
    return float((pred_probs.argmax(axis=1) == labels).mean())


def _record(
    cell: Cell,
    result: Any,
    given: NDArray[np.int64],
    truth: NDArray[np.int64] | None,
    seconds: float,
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
        **score_labels(given, result.trained_labels, truth),
        "curves": curves,
        "seconds": round(seconds, 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def score_labels(
    given: NDArray[np.int64], corrected: NDArray[np.int64], truth: NDArray[np.int64] | None
) -> dict[str, float | None]:
    """Share of right labels before and after, and how good the flips are; None without the truth.

    >>> score_labels(np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]))
    {'label_accuracy_before': 0.75, 'label_accuracy_after': 0.75, 'flip_precision': 0.5,
     'flip_recall': 1.0}
    """
    if truth is None:
        names = ("label_accuracy_before", "label_accuracy_after", "flip_precision", "flip_recall")
        return dict.fromkeys(names)
    flipped = given != corrected
    wrong = given != truth
    fixed = int((flipped & (corrected == truth)).sum())
    return {
        "label_accuracy_before": round(float((~wrong).mean()), 5),
        "label_accuracy_after": round(float((corrected == truth).mean()), 5),
        "flip_precision": round(fixed / int(flipped.sum()), 5) if flipped.any() else None,
        "flip_recall": round(fixed / int(wrong.sum()), 5) if wrong.any() else None,
    }

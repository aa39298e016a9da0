"""What a run shows while it trains: a live bar on a terminal, sober lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

SECONDS_BETWEEN_LINES = 5.0
LINES = 20  # at most about so many, however long the run


def describe(record: dict[str, Any]) -> str:
    """One epoch in words."""
    return (
        f"loss {record['loss']:.4f}  train {record['train_accuracy']:.1%}  "
        f"validation {record['val_accuracy']:.1%}  changed {record['changed']:,}"
    )


class Lines:
    """A line for every twentieth of the run, on stderr."""

    def __init__(self) -> None:
        self._began = 0.0
        self._first = 0

    def batch(self, epoch: int, done: int, total: int) -> None:
        if not self._first:
            self._began, self._first = time.monotonic(), epoch

    def epoch(self, record: dict[str, Any], epochs: int) -> None:
        epoch = record["epoch"]
        if epoch % max(1, epochs // LINES) and epoch != epochs:
            return
        spent = time.monotonic() - self._began
        left = spent / (epoch - self._first + 1) * (epochs - epoch)
        self.log(f"epoch {epoch}/{epochs}  {describe(record)}  left {duration(left)}")

    def log(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None: ...


class Bar:
    """A live bar: epoch, loss, accuracies, labels changed so far, time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("epoch {task.fields[at]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("starting", at="1", total=None)
        self._first = 0
        self._bar.start()

    def batch(self, epoch: int, done: int, total: int) -> None:
        if not self._bar.tasks[0].total:  # the first epoch: nothing to tell but that it moves
            self._bar.update(self._task, description=f"batch {done}/{total}", at=str(epoch))
        self._first = self._first or epoch
        self._bar.update(self._task, completed=epoch - self._first + done / total)

    def epoch(self, record: dict[str, Any], epochs: int) -> None:
        self._bar.update(
            self._task,
            description=describe(record),
            at=f"{record['epoch']}/{epochs}",
            total=epochs - (self._first or 1) + 1,
        )

    def log(self, line: str) -> None:
        self._bar.console.print(line, highlight=False, markup=False)

    def close(self) -> None:
        self._bar.stop()


class Nothing:
    """For --quiet, and for all ranks but the first."""

    def batch(self, epoch: int, done: int, total: int) -> None: ...
    def epoch(self, record: dict[str, Any], epochs: int) -> None: ...
    def log(self, line: str) -> None: ...
    def close(self) -> None: ...


def choose(quiet: bool) -> Lines | Bar | Nothing:
    if quiet:
        return Nothing()
    return Bar() if sys.stderr.isatty() else Lines()


def duration(seconds: float) -> str:
    """Short and readable.

    >>> duration(5), duration(75), duration(7300)
    ('5s', '1m15s', '2h01m')
    """
    s = round(seconds)
    if s < 60:
        return f"{s}s"
    return f"{s // 60}m{s % 60:02d}s" if s < 3600 else f"{s // 3600}h{s % 3600 // 60:02d}m"


class Steps:
    """Named steps, each done so many times out of so many: a bar on a terminal, else lines."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._step = quiet, ""
        self._began = self._said = time.monotonic()
        self._first = 0

    def __call__(self, step: str, done: int, total: int) -> None:
        if self._quiet:
            return
        now = time.monotonic()
        if step != self._step:
            self._step, self._began, self._said, self._first = step, now, now, done
        spent, moved = now - self._began, done - self._first
        left = (
            f"  left {duration(spent / moved * (total - done))}" if moved and done < total else ""
        )
        if sys.stderr.isatty():
            end = "\n" if done >= total and spent > 1 else ""
            print(f"\r\x1b[2K{step} {done:,}/{total:,}{left}", end=end, file=sys.stderr, flush=True)
        elif now - self._said > SECONDS_BETWEEN_LINES or (done >= total and spent > 1):
            self._said = now
            print(f"{step} {done:,}/{total:,}{left}", file=sys.stderr, flush=True)

    def close(self) -> None:
        if not self._quiet and sys.stderr.isatty():
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

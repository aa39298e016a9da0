"""What a command shows while it works: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from adacorr.train.engine import Silent

SECONDS_BETWEEN_LINES = 5.0  # a log that a person follows needs no more
LINES = 20  # at most about so many, however long the run
BAR_AFTER = 0.5  # seconds of work before a bar is worth showing


def _bar(*columns: Any, transient: bool = False, quiet: bool = False) -> Progress:
    """A live bar on stderr, so that results on stdout stay apart."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True, quiet=quiet), transient=transient)


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
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

        self._bar = _bar(
            TextColumn("epoch {task.fields[at]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
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


def choose(quiet: bool) -> Lines | Bar | Silent:
    """What follows a training run."""
    if quiet:
        from adacorr.train.engine import Silent

        return Silent()
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


@contextmanager
def row_bar(silent: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """Called with (stage, further rows, rows in all): a bar, once the work proves to be long."""
    if silent or not sys.stderr.isatty():
        yield lambda stage, rows, total: None
        return
    bar = _Rows()
    try:
        yield bar
    finally:
        bar.close()


class _Rows:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._waiting: dict[str, int] = {}

    def __call__(self, stage: str, rows: int, total: int | None) -> None:
        self._waiting[stage] = self._waiting.get(stage, 0) + rows
        if time.monotonic() - self._began < BAR_AFTER:
            return
        if self._bar is None:
            self._bar = self._begin()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        self._bar.advance(self._tasks[stage], self._waiting.pop(stage))

    def _begin(self) -> Progress:
        from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
        from rich.text import Text

        class Speed(ProgressColumn):
            def render(self, task: Task) -> Text:
                return Text(f"{task.speed:,.0f} rows/s" if task.speed else "")

        name, done = TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} rows")
        bar = _bar(name, BarColumn(), done, Speed(), TimeRemainingColumn(), transient=True)
        bar.start()
        return bar

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def cell_bar(total: int, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Called with the record of each cell of a grid: a line for it, and a bar for all."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with _bar(*columns, TimeRemainingColumn(), quiet=quiet) as bar:
        task = bar.add_task("cells", total=total)

        def advance(record: dict[str, Any]) -> None:
            place = " ".join(str(record[k]) for k in ("dataset", "noise", "method", "seed"))
            score = record["test_accuracy_last"]
            shown = "no test set" if score is None else f"test {100 * score:.1f}%"
            bar.console.print(f"{place}: {shown}, {record['seconds']:.0f} s", highlight=False)
            bar.advance(task)

        yield advance


@contextmanager
def download_bars(silent: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Called with (file, bytes so far, bytes in all): a bar a file, from the first byte on."""
    if silent:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bars, tasks = _bar(*columns, TransferSpeedColumn()), dict[str, "TaskID"]()

    def tell(file: str, done: int, total: int) -> None:
        if not tasks:
            bars.start()
        if file not in tasks:
            tasks[file] = bars.add_task(file, total=None)
        bars.update(tasks[file], completed=done, total=total or None)

    try:
        yield tell
    finally:
        if tasks:
            bars.stop()

"""``adacorr data list`` and ``adacorr data get``."""

from __future__ import annotations

import json as json_lib
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

if TYPE_CHECKING:
    from rich.progress import TaskID

    from adacorr.data.named.fetch import Status

app = App(name="data", help="List and fetch the named datasets.")


@app.command(name="list")
def list_(*, json: bool = False, quiet: bool = False) -> None:
    """Show every named dataset: where it was found, or which official files are missing.

    Example: adacorr data list

    Parameters
    ----------
    json
        Print one JSON object instead of text.
    quiet
        Print nothing but errors.
    """
    from adacorr.data.named.catalog import CATALOG, roots
    from adacorr.data.named.fetch import status

    found = [status(name) for name in CATALOG]
    places = [str(root) for root in roots()]
    if json:
        print(json_lib.dumps({"folders": places, "datasets": [_as_dict(s) for s in found]}))
    elif not quiet:
        _show(found, places)


def _show(found: list[Status], places: list[str]) -> None:
    print(f"looked in {' and '.join(places)} (ADACORR_DATA sets the first)")
    for entry in found:
        print(f"{entry.name:14} {'ready  ' if entry.ready else 'missing'}  {entry.title}")
        for line in _details(entry):
            print(f"{'':24}{line}")


def _as_dict(entry: Status) -> dict[str, object]:
    return {
        "name": entry.name,
        "title": entry.title,
        "ready": entry.ready,
        "found": list(entry.found),
        "missing": [{"file": f.file, "url": f.url, "checksum": f.checksum} for f in entry.missing],
        "note": entry.note,
    }


def _details(entry: Status) -> list[str]:
    if entry.ready:
        return [entry.found[0] + (f" (+{len(entry.found) - 1})" if len(entry.found) > 1 else "")]
    lines = [
        f"{f.file}  {f.checksum or ('no published checksum' if f.url else 'on request')}"
        for f in entry.missing
    ]
    if entry.missing[0].url:
        lines.append(f"adacorr data get {entry.name}")
    return lines + ([entry.note] if entry.note else [])


@app.command
def get(
    name: str, /, *, mirror: str | None = None, json: bool = False, quiet: bool = False
) -> None:
    """Fetch the official files of a named dataset and check them.

    Example: adacorr data get mnist

    Parameters
    ----------
    name
        digits, mnist, fashion_mnist, cifar10, cifar10n, cifar100 or modelnet40.
    mirror
        A web folder with the files of the official names, in place of the official source.
    json
        Print one JSON object instead of text.
    quiet
        Print nothing but errors.
    """
    from adacorr.data.named.fetch import fetch, status

    bars = None if quiet or json else _Bars()
    try:
        got = fetch(name, mirror=mirror, progress=bars and bars.tell)
    finally:
        if bars:
            bars.close()
    now = status(name)
    if json:
        print(json_lib.dumps({"fetched": [str(path) for path in got], **_as_dict(now)}))
    elif not quiet:
        print("\n".join(_told(now, got)))


def _told(now: Status, got: list[Path]) -> list[str]:
    lines = [f"fetched {path}" for path in got]
    if now.ready and not got:
        lines.append(f"{now.name} is already there: {now.found[0]}")
    if not now.ready:
        lines.append(f"{now.name} still needs {', '.join(f.file for f in now.missing)}; {now.note}")
    return lines


class _Bars:
    """One progress bar a file, on stderr; nothing is drawn before the first byte."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TransferSpeedColumn,
        )

        name = TextColumn("{task.description}")
        self._bars = Progress(
            name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)
        )
        self._tasks: dict[str, TaskID] = {}

    def tell(self, file: str, done: int, total: int) -> None:
        if not self._tasks:
            self._bars.start()
        if file not in self._tasks:
            self._tasks[file] = self._bars.add_task(file, total=None)
        self._bars.update(self._tasks[file], completed=done, total=total or None)

    def close(self) -> None:
        if self._tasks:
            self._bars.stop()

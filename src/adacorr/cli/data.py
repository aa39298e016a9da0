"""``adacorr data list`` and ``adacorr data get``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from adacorr.cli.options import TEXT, Printing

if TYPE_CHECKING:
    from adacorr.data.named.fetch import Status

app = App(name="data", help="List and fetch the named datasets.")


@app.command(name="list")
def list_(*, printing: Printing = TEXT) -> None:
    """Show every named dataset: where it was found, or which official files are missing.

    Example: adacorr data list
    """
    from adacorr.data.named.catalog import CATALOG, roots
    from adacorr.data.named.fetch import status

    found = [status(name) for name in CATALOG]
    places = [str(root) for root in roots()]
    lines = [f"looked in {' and '.join(places)} (ADACORR_DATA sets the first)"]
    for entry in found:
        lines.append(f"{entry.name:14} {'ready  ' if entry.ready else 'missing'}  {entry.title}")
        lines += [f"{'':24}{line}" for line in _details(entry)]
    printing.result({"folders": places, "datasets": [_as_dict(s) for s in found]}, lines)


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
def get(name: str, /, *, mirror: str | None = None, printing: Printing = TEXT) -> None:
    """Fetch the official files of a named dataset and check them.

    Example: adacorr data get mnist

    Parameters
    ----------
    name
        digits, mnist, fashion_mnist, cifar10, cifar10n, cifar100 or modelnet40.
    mirror
        A web folder with the files of the official names, in place of the official source.
    """
    from adacorr.cli.progress import download_bars
    from adacorr.data.named.fetch import fetch, status

    with download_bars(printing.silent) as progress:
        got = fetch(name, mirror=mirror, progress=progress)
    now = status(name)
    printing.result({"fetched": [str(path) for path in got], **_as_dict(now)}, _told(now, got))


def _told(now: Status, got: list[Path]) -> list[str]:
    lines = [f"fetched {path}" for path in got]
    if now.ready and not got:
        lines.append(f"{now.name} is already there: {now.found[0]}")
    if not now.ready:
        lines.append(f"{now.name} still needs {', '.join(f.file for f in now.missing)}; {now.note}")
    return lines

"""Where a command may write: nothing of the user's is overwritten, unless a flag says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from adacorr.core.validation import InputError
from adacorr.files import drop_unfinished
from adacorr.tables.remote import Remote, is_url, without_file_scheme


def check_new(output: str | Path, overwrite: bool, *inputs: str | Path) -> None:
    """Refuse, before any work, a file that exists; an input even with ``--overwrite``."""
    output = without_file_scheme(output)
    path = Remote(str(output)) if is_url(output) else Path(output)
    if isinstance(path, Path) and any(_same(path, Path(name)) for name in inputs):
        raise InputError(f"{path}: expected an output other than the input, got an input itself")
    if isinstance(path, Path):
        drop_unfinished(path)
    if not overwrite and path.is_file():
        raise InputError(
            f"{path}: expected a new file, got an existing one; --overwrite replaces it"
        )


def check_apart(places: Mapping[str, str | Path | None]) -> None:
    """Outputs of several options need places of their own."""
    seen: dict[Path, str] = {}
    for option, place in places.items():
        place = None if place is None else without_file_scheme(place)
        if place is None or is_url(place):
            continue
        path = Path(place).resolve()
        if path in seen:
            raise InputError(f"{option}: expected another place than {seen[path]}, got {place}")
        seen[path] = option


def free_run_dir(data: str, kind: str) -> Path:
    """The first of runs/DATA-KIND-1, -2, ... that does not exist."""
    stem = data.partition(":")[0] if ":" in data and not Path(data).exists() else data
    name = Path(stem).name.partition(".")[0] or "data"
    number = 1
    while (path := Path("runs") / f"{name}-{kind}-{number}").exists():
        number += 1
    return path


def files_of(run: Path) -> list[Path]:
    """What a run consists of; its report is made from these."""
    return [path for path in run.rglob("*") if path.is_file() and path.suffix != ".html"]


def _same(a: Path, b: Path) -> bool:
    return a.exists() and b.exists() and a.samefile(b)

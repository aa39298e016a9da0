"""Nothing of the user's is overwritten, unless a flag says so."""

from __future__ import annotations

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


def files_of(run: Path) -> list[Path]:
    """What a run consists of; its report is made from these."""
    return [path for path in run.rglob("*") if path.is_file() and path.suffix != ".html"]


def _same(a: Path, b: Path) -> bool:
    return a.exists() and b.exists() and a.samefile(b)

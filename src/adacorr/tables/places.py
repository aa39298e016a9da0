"""Where finished files wait until all are finished: nobody ever sees half a result.

On a disk a hidden sibling folder takes the output's name in one step. A store behind a URL has no
such step: there the files are moved one by one at the end, each of them whole.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from adacorr.core.validation import InputError
from adacorr.files import settle, temporary_sibling
from adacorr.tables.remote import Remote, remote_errors


@dataclass(frozen=True)
class Target:
    """Where one file is written: `name` in the `waiting` folder, later called `output`."""

    waiting: Path | Remote
    name: str
    output: Path | Remote


@contextmanager
def targets(output: Path | Remote, names: Sequence[str], *, folder: bool) -> Iterator[list[Target]]:
    """Yield a target per name; if the block succeeds, all files take their place in `output`."""
    if isinstance(output, Remote):
        with _remote_targets(output, names, folder=folder) as found:
            yield found
        return
    hidden = temporary_sibling(output)
    waiting = hidden / "done"
    for name in names:  # here, so that a late worker cannot bring back what has been removed
        (waiting / name).parent.mkdir(parents=True, exist_ok=True)
    try:
        yield [Target(waiting, name, output / name if folder else output) for name in names]
        _check_arrived(waiting, names, output)
        if folder:
            settle(waiting, output)
        else:
            settle(waiting / names[0], output)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _check_arrived(waiting: Path, names: Sequence[str], output: Path) -> None:
    for name in names:
        if not (waiting / name).is_file():
            raise InputError(
                f"{output}: expected a folder that all workers share, got none of their files here"
            )


@contextmanager
def _remote_targets(
    output: Remote, names: Sequence[str], *, folder: bool
) -> Iterator[list[Target]]:
    waiting = output.parent / f".{output.name}.{uuid.uuid4().hex[:8]}.tmp"
    ends = [output / name if folder else output for name in names]
    system, place = waiting.system()
    try:
        yield [Target(waiting, name, end) for name, end in zip(names, ends, strict=True)]
        with remote_errors(output):
            for name, end in zip(names, ends, strict=True):
                path = end.system()[1]
                system.makedirs(path.rpartition("/")[0], exist_ok=True)
                system.mv((waiting / name).system()[1], path)
    finally:
        with suppress(Exception):
            system.rm(place, recursive=True)


@contextmanager
def arriving(target: Target) -> Iterator[Path]:
    """Yield a local path to write to; the finished file goes to where it waits.

    Two workers may write the same file, when one was believed dead: each has its own path, and the
    last one to finish replaces the other's equal file.
    """
    if isinstance(target.waiting, Remote):
        with tempfile.TemporaryDirectory(prefix="adacorr-") as folder:
            temporary = Path(folder) / "part"
            yield temporary
            end = target.waiting / target.name
            system, path = end.system()
            with remote_errors(target.output if isinstance(target.output, Remote) else end):
                system.makedirs(path.rpartition("/")[0], exist_ok=True)
                system.put_file(str(temporary), path)
        return
    # Not beside the finished files: what a killed worker leaves must not get among them.
    parts = target.waiting.with_name("parts")
    parts.mkdir(exist_ok=True)
    temporary = parts / uuid.uuid4().hex
    try:
        yield temporary
        # Here too: another machine's fsync does not reach this one's memory.
        settle(temporary, target.waiting / target.name)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()

"""Atomic writes: a file or folder takes its name only when it is whole and on the disk."""

from __future__ import annotations

import glob
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adacorr.core.validation import InputError


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path`; it takes the name only if the block succeeds."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: expected an existing output folder, got no {path.parent}")
    temporary = temporary_sibling(path)
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def temporary_sibling(path: Path) -> Path:
    """A hidden name beside `path` for this process; what killed processes left there goes.

    The name holds host and process, so that only leftovers of this machine's dead are removed.
    """
    host = socket.gethostname().replace("/", "-")
    start, end = f".{path.name}.{host}-", ".tmp"
    for other in path.parent.glob(f"{glob.escape(start)}*{end}"):
        process = other.name[len(start) : -len(end)]
        if process.isdecimal() and (int(process) == os.getpid() or not _alive(int(process))):
            _remove(other)
    return path.with_name(f"{start}{os.getpid()}{end}")


def _alive(process: int) -> bool:
    if os.name != "posix":  # there signal 0 would be sent in earnest
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # someone else's process
        return True
    return True


def _remove(path: Path) -> None:
    with suppress(OSError):  # a leftover that cannot be removed is no reason to stop
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

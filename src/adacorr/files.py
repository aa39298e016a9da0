"""Atomic writes: a file or folder takes its name only when it is whole and on the disk."""

from __future__ import annotations

import errno
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
        settle(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling folder; it takes the name `path` only if the block succeeds."""
    temporary = temporary_sibling(path)
    temporary.mkdir()
    try:
        yield temporary
        settle(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def settle(temporary: Path, path: Path) -> None:
    """Give a finished file or folder its name so that a power loss cannot take it back.

    The order matters: contents to the disk, then the name, then the folder that holds the name.
    A file replaces a file; a folder replaces an empty folder and refuses another.
    """
    sync(temporary)
    os.replace(temporary, path)
    sync_entries(path.parent)


def sync(path: Path) -> None:
    """Bring a file, or a folder with all that is in it, to the disk."""
    if path.is_symlink():
        return
    if path.is_dir():
        for inner in path.iterdir():
            sync(inner)
        sync_entries(path)
        return
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())


def sync_entries(folder: Path) -> None:
    """Bring a folder's list of names to the disk, where the system has a way to do that."""
    try:
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except PermissionError:  # a folder that may be written but not listed; any folder on Windows
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """``mkdir -p`` that survives a power loss: what is put into the folder would go with it."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_entries(path.parent)


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

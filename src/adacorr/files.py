"""Atomic writes, bounded reads.

A file or folder takes its name only when it is whole and on the disk; a settings file is looked at
before it is parsed.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
import socket
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

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
    marks = _together.get()
    if marks is not None and not any(map(_is_temporary, path.parents)):  # the folder is the output
        marks.append(_mark(path, temporary))
    os.replace(temporary, path)
    sync_entries(path.parent)


_together: ContextVar[list[Path] | None] = ContextVar("together", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Several outputs of one command: after a kill between them the same command starts afresh.

    No system gives two names in one step. So each output is marked before it takes its name, and
    the marks go when all have theirs; :func:`drop_unfinished` removes what a dead command left.
    """
    if _together.get() is not None:  # part of a larger command
        yield
        return
    marks: list[Path] = []
    token = _together.set(marks)
    try:
        yield
    finally:
        _together.reset(token)
    for mark in marks:
        mark.unlink(missing_ok=True)


def drop_unfinished(path: Path) -> None:
    """Remove an output whose command was killed before its other outputs were there."""
    mark = _mark_of(path)
    try:
        if mark.is_symlink() or mark.stat().st_uid != os.geteuid():
            return
        host, process, *stamp = json.loads(mark.read_text())
        if host != socket.gethostname() or (process != os.getpid() and _alive(int(process))):
            return
        if path.exists() and _stamp(path) == stamp:  # untouched since
            _remove(path)
    except (OSError, ValueError, TypeError):
        return
    mark.unlink(missing_ok=True)


def _mark(path: Path, temporary: Path) -> Path:
    mark = _mark_of(path)
    with open(mark, "w", encoding="utf-8") as file:
        json.dump([socket.gethostname(), os.getpid(), *_stamp(temporary)], file)
        file.flush()
        os.fsync(file.fileno())
    sync_entries(mark.parent)
    return mark


def _is_temporary(folder: Path) -> bool:
    return folder.name.startswith(".") and folder.name.endswith(".tmp")


def _mark_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


def _stamp(path: Path) -> list[int]:
    """What a file or folder keeps when it is renamed and loses when it is changed."""
    found = path.stat()
    return [found.st_dev, found.st_ino, found.st_mtime_ns]


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


MAX_TOML = 4 << 20  # bytes: the names of 100,000 classes
MAX_KEYS = 10_000
MAX_DEPTH = 8
_TOML_TEXT = re.compile(  # strings of four kinds and comments; what is left is keys and numbers
    r'\"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}+|'
    r"'{3}(?:[^']|'{1,2}(?!'))*+'{3,5}+|"
    r'(?P<open>"{3}|\'{3})|'
    r'"(?:[^"\\\n]|\\.)*+"|'
    r"'[^'\n]*+'|"
    r"#[^\n]*+",
    re.DOTALL,
)
_TOML_DOTS = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MAX_DEPTH}}}")


def read_toml(path: Path) -> dict[str, Any]:
    """A settings file from anywhere: small, flat and well formed, or one line says what is not.

    A parser takes memory for every part of every key: 100 kB of dots are 9 GB.
    """
    wanted = f"{path}: expected readable TOML"
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_TOML + 1)
        if len(raw) > MAX_TOML:
            raise InputError(f"{wanted} of at most {MAX_TOML >> 20} MB, got more")
        text = raw.decode()
        bare = _TOML_TEXT.sub(_without_text, text)
        keys = bare.count("=") + bare.count("\n[")
        if keys > MAX_KEYS:
            raise InputError(f"{wanted} with at most {MAX_KEYS:,} keys, got {keys:,}")
        if _TOML_DOTS.search(bare):
            raise InputError(f"{wanted} with keys of at most {MAX_DEPTH} parts, got more")
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{wanted}, got lists or tables too deep") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{wanted}, got {error}") from None


def _without_text(found: re.Match[str]) -> str:
    if found["open"]:
        raise tomllib.TOMLDecodeError("a string without an end")
    return "t"


def temporary_sibling(path: Path) -> Path:
    """A hidden name beside `path` for this process; removes those that killed processes left.

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
    if os.name != "posix":  # elsewhere signal 0 may end the process
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

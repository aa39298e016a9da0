"""Records on disk: one JSON line per finished cell, appended whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adacorr.core.validation import InputError
from adacorr.files import make_folder, sync_entries

Record = dict[str, Any]


def read_records(path: str | Path) -> list[Record]:
    """All records of a file, or of every .jsonl file in a folder.

    A last line without its newline (a kill in the middle of a write) is not a record.
    """
    path = Path(path)
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise InputError(f"{path}: expected a records file (.jsonl) or a folder of them, got none")
    return [record for file in files for record in _read_file(file)]


def _read_file(file: Path) -> Iterator[Record]:
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            return
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or "key" not in record:
            raise InputError(f"{file}, line {number}: expected a JSON record, got something else")
        yield record


class RecordFile:
    """Append-only writer; cuts off a half-written last line of a killed run before it goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def finished(self) -> set[str]:
        return {record["key"] for record in _read_file(self.path)} if self.path.exists() else set()

    @contextmanager
    def open(self) -> Iterator[RecordFile]:
        """Hold the file for this process alone."""
        make_folder(self.path.parent)
        with open(self.path, "a+b") as self._handle:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: expected no other writer, got another bench run at work on it"
                ) from None
            self._cut_partial_line()
            sync_entries(self.path.parent)
            yield self

    def _cut_partial_line(self) -> None:
        self._handle.seek(0)
        content = self._handle.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._handle.truncate(whole)

    def append(self, record: Record) -> None:
        """On disk when this returns."""
        self._handle.write(json.dumps(record, sort_keys=True).encode() + b"\n")
        self._handle.flush()
        os.fsync(self._handle.fileno())

"""Digests of a run's files, so that a damaged one is named instead of believed.

``manifest.json`` holds the SHA-256 of every mebibyte of each file. Blocks, because a reader checks
what it reads: whoever looks at ten rows of a table of 40 GB must not wait for the other 40 GB. A
file of at most a mebibyte has one block, and then the digest is that of ``sha256sum``.

It tells damage, not malice: who can write the file can write the manifest. Files that change after
the run (decisions, the report) are not in it, and a file without an entry is not checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError, one_line
from adacorr.files import atomic

NAME = "manifest.json"
FILES = ("config.toml", "metrics.jsonl", "labels.parquet", "pred_probs.npy", "model.safetensors")
"""What is complete when a run is, and does not change any more."""
BLOCK = 1 << 20
_MAX_BYTES = 64 << 20  # of the manifest: a digest for each of 900,000 blocks


@dataclass(frozen=True)
class Digest:
    """What a file was when the run was finished."""

    size: int
    blocks: tuple[str, ...]  # SHA-256 of each block

    @classmethod
    def of(cls, path: Path) -> Digest:
        size = path.stat().st_size
        with open(path, "rb") as file, ThreadPoolExecutor(2) as pool:
            starts = range(0, size, BLOCK)
            found = pool.map(lambda start: _block_digest(file.fileno(), start), starts)
            return cls(size, tuple(found))


def _block_digest(file: int, start: int) -> str:
    return hashlib.sha256(os.pread(file, BLOCK, start)).hexdigest()


@contextmanager
def sealed(folder: Path) -> Iterator[None]:
    """Around writing the files of a run: their digests are valid after it, or there are none."""
    unseal(folder, FILES)
    yield
    seal(folder, FILES)


def seal(folder: Path, names: Iterable[str]) -> None:
    """Note the digests of these files, of those that are there; other entries stay."""
    there = [name for name in names if (folder / name).is_file()]
    _write(folder, _entries(folder) | {name: Digest.of(folder / name) for name in there})


def unseal(folder: Path, names: Iterable[str]) -> None:
    """Forget the digests of these files before they change."""
    entries = _entries(folder)
    left = {name: digest for name, digest in entries.items() if name not in names}
    if len(left) < len(entries):
        _write(folder, left)


def fingerprint(folder: Path) -> str:
    """Names a run by its settings and labels: no two runs share it, and it does not change.

    A digest in the manifest stands for its file, which readers compare with it anyway.
    """
    found, entries = hashlib.sha256(), _entries(folder)
    for name in ("config.toml", "labels.parquet"):
        digest = entries.get(name) or Digest.of(folder / name)
        found.update(f"{name} {digest.size} {' '.join(digest.blocks)}\n".encode())
    return found.hexdigest()


def _write(folder: Path, entries: dict[str, Digest]) -> None:
    files = {name: {"bytes": d.size, "sha256": d.blocks} for name, d in sorted(entries.items())}
    with atomic(folder / NAME) as temporary:
        temporary.write_text(json.dumps({"block": BLOCK, "files": files}, indent=1) + "\n")


def _entries(folder: Path) -> dict[str, Digest]:
    path = folder / NAME
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_BYTES:
            raise ValueError("a link, a pipe, or too large a file")
        found = json.loads(path.read_bytes())
        if found["block"] != BLOCK:
            raise ValueError(f"blocks of {found['block']} bytes")
        return {name: _entry(entry) for name, entry in found["files"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = one_line(error)
        raise InputError(
            f"{path}: expected the digests of a run's files, got {reason}; "
            "without this file nothing is checked"
        ) from error


def _entry(entry: dict[str, Any]) -> Digest:
    size, blocks = entry["bytes"], entry["sha256"]
    if type(size) is not int or len(blocks) != -(-size // BLOCK):
        raise ValueError(f"{len(blocks)} digests for {size} bytes")
    return Digest(size, tuple(str(block) for block in blocks))


class Checker:
    """Compares one file with its entry in the manifest, block by block, each block once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digest = _entries(path.parent).get(path.name)
        self._left = np.ones(0 if self._digest is None else len(self._digest.blocks), dtype=bool)
        if self._digest is not None and path.is_file() and path.stat().st_size != self._digest.size:
            raise self._error(f"{path.stat().st_size:,} bytes in place of {self._digest.size:,}")

    def check(self, spans: NDArray[np.int64] | None = None) -> None:
        """Raise unless these bytes, (M, 2) of first and last + 1, are as written; None: all."""
        if not self._left.any():
            return
        wanted = self._left if spans is None else self._left & _covered(spans, len(self._left))
        assert self._digest is not None
        with open(self.path, "rb") as file:
            for block in np.flatnonzero(wanted).tolist():
                if _block_digest(file.fileno(), block * BLOCK) != self._digest.blocks[block]:
                    raise self._error(f"another content from byte {block * BLOCK:,} on")
                self._left[block] = False

    def _error(self, got: str) -> InputError:
        return InputError(
            f"{self.path}: expected the file as the run wrote it, got {got}; it is damaged, or "
            f"was changed: then take it out of {NAME}"
        )


def _covered(spans: NDArray[np.int64], blocks: int) -> NDArray[np.bool_]:
    """Which blocks hold any of these bytes."""
    depth = np.zeros(blocks + 1, dtype=np.int64)
    np.add.at(depth, spans[:, 0] // BLOCK, 1)
    np.add.at(depth, (spans[:, 1] - 1) // BLOCK + 1, -1)
    return depth.cumsum()[:-1] > 0


def check(path: Path) -> None:
    """Raise one line if a run's file is not as it was written; all of it is read."""
    Checker(path).check()


class CheckedRows:
    """The rows of a ``.npy`` file as a memory map; those that are read are checked first."""

    def __init__(self, path: Path, array: np.memmap[Any, np.dtype[Any]]) -> None:
        self._array, self._checker = array, Checker(path)
        self.shape, self.dtype = array.shape, array.dtype
        self._checker.check(np.array([[0, max(array.offset, 1)]]))  # what the header says

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        if not self._array.flags.c_contiguous:
            self._checker.check()
        elif self._array.size:
            numbers = np.atleast_1d(np.arange(len(self))[rows])
            start = self._array.offset + numbers * self._array.strides[0]
            self._checker.check(np.stack([start, start + self._array.strides[0]], axis=1))
        return self._array[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

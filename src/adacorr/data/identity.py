"""Which row is which: fingerprints that tell whether a source is still what it was."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ID_NAMES = ("id", "uuid", "guid", "sample_id")
"""A column of one of these names is what the user calls a row, where no two rows share it."""
_HEAD = 1 << 16


def id_column(names: Sequence[str]) -> str | None:
    """The column that names the rows; None without one.

    >>> id_column(["label", "ID", "x"]), id_column(["label"])
    ('ID', None)
    """
    return next((name for name in names if name.lower() in ID_NAMES), None)


def source_digest(paths: Sequence[Path]) -> str:
    """SHA-256 of a file, as ``sha256sum`` prints it; of several files, of their digests in order.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     source_digest([Path(file.name)])[:8]
    'e3b0c442'
    """
    digests = []
    for path in paths:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def file_content(path: Path) -> str:
    """A short fingerprint of one file among very many: its size and how it begins."""
    with open(path, "rb") as file:
        size = path.stat().st_size.to_bytes(8, "little")
        return hashlib.blake2b(size + file.read(_HEAD), digest_size=8).hexdigest()


def contents(folder: Path, ids: NDArray[Any]) -> NDArray[np.str_]:
    """Fingerprints of the files of a folder, by their names in it."""
    return np.array([file_content(folder / str(name)) for name in ids])

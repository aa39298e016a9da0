"""MNIST's idx files, gzipped or not (LeCun, Cortes and Burges, the MNIST database)."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError

MAX_BYTES = 1 << 31
"""Never unpack more than this; the largest official file has 47 million bytes."""


def read_idx(path: Path, ndim: int) -> NDArray[Any]:
    """The uint8 array of an idx file: two zero bytes, type 8, the number of dimensions, sizes."""
    raw = _read(path)
    if len(raw) < 4 + 4 * ndim or raw[:4] != bytes((0, 0, 8, ndim)):
        raise InputError(
            f"{path}: expected an idx file with magic number 0000080{ndim}, got {raw[:4].hex()!r}"
        )
    shape = struct.unpack(f">{ndim}I", raw[4 : 4 + 4 * ndim])
    data = np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim)
    if len(data) != int(np.prod(shape, dtype=np.float64)):
        raise InputError(
            f"{path}: expected {' x '.join(map(str, shape))} bytes of data, got {len(data)}"
        )
    return data.reshape(shape)


def _read(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path, "rb") as handle:
            raw = handle.read(MAX_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: expected a complete gzip file, got {error}") from error
    return raw


def read_pair(images: Path, labels: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (N, H, W, 1) and their labels (N,) in 0 .. 9."""
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if len(x) != len(y):
        raise InputError(f"{labels}: expected {len(x)} labels, one per image, got {len(y)}")
    if len(y) and y.max() > 9:
        row = int(y.argmax())
        raise InputError(f"{labels}: expected labels in [0, 10), got {y[row]} in row {row}")
    return x[:, :, :, None], y.astype(np.int64)

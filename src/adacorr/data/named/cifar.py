"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): binary or Python archives, or Hugging Face parquet.

Every form is looked for under each data root, in the folder of the dataset's name and in the root
itself, packed or unpacked.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset, Splits
from adacorr.data.images import LazyImages
from adacorr.data.named.catalog import missing, roots
from adacorr.data.named.unpickle import read_pickle

CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


@dataclass(frozen=True)
class Release:
    """Where a release keeps its parts."""

    name: str
    binary: str  # folder inside the binary archive
    python: str
    train_bin: tuple[str, ...]
    test_bin: str
    train_py: tuple[str, ...]
    test_py: str
    label_bytes: int  # bytes before the pixels of a binary record; the last one is the class
    key: str  # of the labels in the Python archive
    names_bin: str
    names_py: tuple[str, str]  # file and key of the class names
    archives: tuple[str, str]


RELEASES = {
    "cifar10": Release(
        "cifar10",
        "cifar-10-batches-bin",
        "cifar-10-batches-py",
        tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        "test_batch.bin",
        tuple(f"data_batch_{i}" for i in range(1, 6)),
        "test_batch",
        1,
        "labels",
        "batches.meta.txt",
        ("batches.meta", "label_names"),
        ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
    ),
    "cifar100": Release(
        "cifar100",
        "cifar-100-binary",
        "cifar-100-python",
        ("train.bin",),
        "test.bin",
        ("train",),
        "test",
        2,
        "fine_labels",
        "fine_label_names.txt",
        ("meta", "fine_label_names"),
        ("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"),
    ),
}

Read = Callable[[str], bytes]  # a file of the release by name
Part = tuple[NDArray[np.uint8] | LazyImages, NDArray[np.int64]]


def find(name: str) -> Path | None:
    """The first release found: an unpacked folder, an archive, or a folder of parquet files."""
    layout = RELEASES[name]
    for root in roots():
        for folder in (root / name, root):
            for inner in (layout.binary, layout.python):
                if (folder / inner).is_dir():
                    return folder / inner
            for archive in layout.archives:
                if (folder / archive).is_file():
                    return folder / archive
        if _shards(root / name, "train"):
            return root / name
    return None


def load_cifar(name: str) -> Splits:
    """The official 50,000 and 10,000 images in their official order."""
    path = find(name)
    if path is None:
        raise missing(name)
    layout = RELEASES[name]
    if path.is_file():
        return _from_archive(path, layout)
    if path.name in (layout.binary, layout.python):
        return _from_release(lambda file: _bytes(path / file), path, path.name, layout)
    return _from_parquet(path, layout)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: expected a file of the release, got none") from None


def _from_archive(path: Path, layout: Release) -> Splits:
    inner = layout.binary if path.name == layout.archives[0] else layout.python
    try:
        with tarfile.open(path, "r:gz") as archive:

            def read(file: str) -> bytes:
                try:
                    handle = archive.extractfile(f"{inner}/{file}")
                except KeyError:
                    handle = None
                if handle is None:
                    raise InputError(f"{path}: expected {inner}/{file} inside, got none")
                return handle.read()

            return _from_release(read, path, inner, layout)
    except InputError:
        raise
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise InputError(f"{path}: expected a complete tar.gz archive, got {error}") from error


def _from_release(read: Read, path: Path, inner: str, layout: Release) -> Splits:
    if inner == layout.binary:
        names = _text_names(read(layout.names_bin))
        files = [layout.train_bin, (layout.test_bin,)]
        decode = partial(_binary, layout=layout)
    else:
        file, key = layout.names_py
        meta = read_pickle(read(file), f"{path}: {file}")
        names = tuple(_name(n) for n in meta.get(key, ()))
        files = [layout.train_py, (layout.test_py,)]
        decode = partial(_pickled, layout=layout)
    parts = []
    for group in files:
        pieces = [decode(read(file), f"{path}: {file}") for file in group]
        x = np.concatenate([np.asarray(p[0]) for p in pieces])
        y = np.concatenate([p[1] for p in pieces])
        parts.append(_dataset(layout.name, x, y, names, str(path)))
    return Splits(parts[0], test=parts[1])


def _name(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _text_names(raw: bytes) -> tuple[str, ...]:
    return tuple(line.strip() for line in raw.decode("latin1").splitlines() if line.strip())


def _binary(raw: bytes, where: str, layout: Release) -> Part:
    size = layout.label_bytes + 3072
    if len(raw) == 0 or len(raw) % size:
        raise InputError(f"{where}: expected records of {size} bytes, got {len(raw)} bytes")
    rows = np.frombuffer(raw, np.uint8).reshape(-1, size)
    return _planes(rows[:, layout.label_bytes :]), rows[:, layout.label_bytes - 1].astype(np.int64)


def _planes(flat: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Red, green and blue planes -> (N, 32, 32, 3)."""
    return np.ascontiguousarray(flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _pickled(raw: bytes, where: str, layout: Release) -> Part:
    batch = read_pickle(raw, where)
    x, y = batch.get("data"), batch.get(layout.key)
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.shape[1:] != (3072,):
        raise InputError(f"{where}: expected data of shape (N, 3072), got something else")
    if not isinstance(y, list) or len(y) != len(x) or not all(isinstance(v, int) for v in y):
        raise InputError(f"{where}: expected {len(x)} integers in {layout.key}, got something else")
    return _planes(x), np.asarray(y, dtype=np.int64)


def _dataset(
    name: str,
    x: NDArray[np.uint8] | LazyImages,
    y: NDArray[np.int64],
    names: tuple[str, ...],
    where: str,
) -> Dataset:
    if len(names) < 2:
        raise InputError(f"{where}: expected the names of the classes, got {len(names)}")
    bad = (y < 0) | (y >= len(names))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{where}: expected labels in [0, {len(names)}), got {y[row]} in row {row}"
        )
    return Dataset(name, x, y, names, truth=y)


def _shards(folder: Path, part: str) -> list[Path]:
    return sorted([*folder.glob(f"{part}-*.parquet"), *folder.glob(f"*/{part}-*.parquet")])


def _from_parquet(folder: Path, layout: Release) -> Splits:
    from adacorr.data.parquet import read_image_shards

    parts = []
    for part in ("train", "test"):
        shards = _shards(folder, part)
        if not shards:
            raise InputError(f"{folder}: expected {part}-*.parquet, got none")
        images, labels, names = read_image_shards(shards, ("fine_label", "label"))
        if names is None:
            names = CIFAR10_CLASSES if layout.name == "cifar10" else tuple(map(str, range(100)))
        lazy = LazyImages(
            images, [f"{folder}: {part} row {i}" for i in range(len(labels))], (32, 32)
        )
        parts.append(_dataset(layout.name, lazy, labels, names, str(folder)))
    return Splits(parts[0], test=parts[1])

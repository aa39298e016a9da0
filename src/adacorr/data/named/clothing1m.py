"""Clothing1M (Xiao et al. 2015): key lists, label files and a million photographs.

Labels from shops train; the clean parts validate and test. Where a training image also has a
clean label, it is the truth; where not, the truth is unknown, so it is left out altogether unless
every training image has one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset, Splits
from adacorr.data.images import LazyImages
from adacorr.data.named.catalog import CATALOG, missing, roots

CLASSES = (
    "T-Shirt",
    "Shirt",
    "Knitwear",
    "Chiffon",
    "Sweater",
    "Hoodie",
    "Windbreaker",
    "Jacket",
    "Downcoat",
    "Suit",
    "Shawl",
    "Dress",
    "Vest",
    "Underwear",
)
IMAGE_SIZE = 224
"""What ImageNet's ResNet-50 was trained on."""


def find() -> dict[str, Path | None]:
    """Each official list (in the folder or its ``annotations``) and the image folder."""
    out: dict[str, Path | None] = {}
    folders = [
        root / name / inner
        for root in roots()
        for name in ("clothing1m", "Clothing1M", "clothing1M")
        for inner in ("", "annotations")
    ]
    for remote in CATALOG["clothing1m"].files:
        candidates = (folder / remote.file for folder in folders)
        out[remote.file] = next((path for path in candidates if path.exists()), None)
    return out


def load_clothing1m(image_size: int | None) -> Splits:
    """About 1,000,000 noisy, 14,313 clean validation and 10,526 clean test images, read lazily."""
    found = find()
    absent = tuple(f for f in CATALOG["clothing1m"].files if found[f.file] is None)
    if absent:
        raise missing("clothing1m", absent)
    paths = {name: path for name, path in found.items() if path is not None}
    root = paths["images/"].parent
    noisy = _read_labels(paths["noisy_label_kv.txt"])
    clean = _read_labels(paths["clean_label_kv.txt"])
    side = image_size or IMAGE_SIZE
    parts = []
    for list_name, labels in (
        ("noisy_train_key_list.txt", noisy),
        ("clean_val_key_list.txt", clean),
        ("clean_test_key_list.txt", clean),
    ):
        keys = _read_keys(paths[list_name])
        parts.append(_dataset(keys, labels, clean, root, side, paths[list_name]))
    return Splits(*parts)


def _dataset(
    keys: list[str],
    labels: dict[str, int],
    clean: dict[str, int],
    root: Path,
    side: int,
    path: Path,
) -> Dataset:
    for row, key in enumerate(keys):
        if key not in labels:
            raise InputError(f"{path}: expected a label for {key} in row {row}, got none")
    given = np.array([labels[key] for key in keys], np.int64)
    truth: NDArray[np.int64] | None = None
    if all(key in clean for key in keys):
        truth = np.array([clean[key] for key in keys], np.int64)
    files = [root / key for key in keys]
    images = LazyImages(files, [str(file) for file in files], (side, side))
    return Dataset("clothing1m", images, given, CLASSES, truth, ids=np.array(keys))


def _read_keys(path: Path) -> list[str]:
    keys = [line.strip() for line in _lines(path)]
    keys = [key for key in keys if key]
    if not keys:
        raise InputError(f"{path}: expected image keys, one a line, got none")
    for row, key in enumerate(keys):
        _check_key(key, path, row)
    return keys


def _check_key(key: str, path: Path, row: int) -> None:
    """A list is data: it may not lead out of the dataset's folder."""
    if key.startswith("/") or "\\" in key or ".." in key.split("/"):
        raise InputError(f"{path}: expected a path inside images/, got {key!r} in row {row}")


def _read_labels(path: Path) -> dict[str, int]:
    out: dict[str, int] = {}
    for row, line in enumerate(_lines(path)):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2 or not parts[1].isdecimal() or int(parts[1]) >= len(CLASSES):
            raise InputError(
                f"{path}: expected a key and a class in [0, {len(CLASSES)}), "
                f"got {line.strip()!r} in row {row}"
            )
        out[parts[0]] = int(parts[1])
    return out


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected a text file, got {error}") from error

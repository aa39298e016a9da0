"""MNIST and Fashion-MNIST from their idx files."""

from __future__ import annotations

from pathlib import Path

from adacorr.data.dataset import Dataset, Splits
from adacorr.data.named.catalog import CATALOG, missing, roots
from adacorr.data.named.idx import read_pair

CLASSES = {
    "mnist": tuple(str(digit) for digit in range(10)),
    "fashion_mnist": (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
}


def find(name: str) -> dict[str, Path | None]:
    """Official file name -> where it is, gzipped or not, or None."""
    entry = CATALOG[name]
    folders = [root / part for root in roots() for part in (entry.folder, name)]
    return {f.file: _locate(folders, f.file) for f in entry.files}


def _locate(folders: list[Path], file: str) -> Path | None:
    for folder in folders:
        for candidate in (folder / file, folder / file.removesuffix(".gz")):
            if candidate.is_file():
                return candidate
    return None


def load_mnist(name: str) -> Splits:
    """The official 60,000 and 10,000 images."""
    found = find(name)
    absent = tuple(f for f in CATALOG[name].files if found[f.file] is None)
    if absent:
        raise missing(name, absent)
    train_x, train_y, test_x, test_y = (path for path in found.values() if path is not None)
    parts = []
    for images, labels in ((train_x, train_y), (test_x, test_y)):
        x, y = read_pair(images, labels)
        parts.append(Dataset(name, x, y, CLASSES[name], truth=y))
    return Splits(parts[0], test=parts[1])

"""A folder of images: one subfolder per class, or any folder when only predictions are wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset
from adacorr.data.images import SUFFIXES, LazyImages, common_form

TRAINING = {"train", "training"}
PARTS = TRAINING | {"val", "valid", "validation", "dev", "test", "testing", "eval"}


def image_files(folder: Path) -> list[Path]:
    """All image files below `folder`, sorted; hidden files and other suffixes are passed over."""
    found = (p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    return sorted(p for p in found if not any(part.startswith(".") for part in _inside(p, folder)))


def _inside(path: Path, folder: Path) -> tuple[str, ...]:
    return path.relative_to(folder).parts


def class_files(folder: Path) -> dict[str, list[Path]]:
    """The images of each class, that is of each subfolder that has any, in sorted order."""
    classes = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    found = {name: files for name in classes if (files := image_files(folder / name))}
    if len(found) < 2:
        got = f"images only in {next(iter(found))}" if found else "no image in any"
        if not found and any(path.parent == folder for path in image_files(folder)):
            got = "images without a class folder"
        raise InputError(
            f"{folder}: expected at least 2 subfolders with images, one per class, got {got}"
        )
    return found


def check_no_parts(folder: Path) -> None:
    """Refuse ``train/cat/...`` beside ``test/cat/...``: parts of a split, taken for classes."""
    inside = {
        p.name: {q.name for q in p.iterdir() if q.is_dir()}
        for p in sorted(folder.iterdir())
        if p.is_dir() and not p.name.startswith(".")
    }
    if len(inside) < 2 or not {name.lower() for name in inside} <= PARTS:
        return
    shared = set.intersection(*inside.values())
    if shared:
        first = next((name for name in inside if name.lower() in TRAINING), next(iter(inside)))
        raise InputError(
            f"{folder}: expected one subfolder per class, got parts of a split "
            f"({', '.join(inside)}) that each hold the classes; pass {folder / first}"
        )


def load_folder(folder: Path, image_size: int | None, skip_unreadable: bool) -> Dataset:
    """The classes are the subfolders in sorted order; a class's images may lie deeper inside it.

    Folders ``train`` and ``test`` that each hold the classes are refused: point at the one to
    train on.
    """
    check_no_parts(folder)
    by_class = class_files(folder)
    names = tuple(by_class)
    paths = [path for name in names for path in by_class[name]]
    labels = np.repeat(np.arange(len(names)), [len(by_class[name]) for name in names])
    ids = np.array([path.relative_to(folder).as_posix() for path in paths])
    shown = [str(path) for path in paths]
    size, gray = common_form(paths, shown, image_size, skip_unreadable)
    images = LazyImages(paths, shown, size, gray)
    return Dataset(folder.name, images, labels.astype(np.int64), names, ids=ids)

"""An .npz with features and labels. Pickled objects are refused, never loaded."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.data.arrays import from_arrays
from adacorr.data.dataset import Dataset, Splits
from adacorr.tables.unpacked import check_unpacked

FEATURES = ("features", "x_train", "X_train", "X", "x", "images", "points", "data")
LABELS = ("labels", "y_train", "Y_train", "y", "label", "targets")


_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz, or one line that says what is wrong with it."""
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.lib.npyio.NpzFile):
            with archive:
                entries = archive.zip.infolist() if archive.zip else []
                check_unpacked(path, sum(entry.file_size for entry in entries))
                return {key: archive[key] for key in archive.files}
    except InputError:
        raise
    except (ValueError, OSError, EOFError, KeyError, MemoryError, *_DAMAGED) as error:
        raise InputError(f"{path}: expected an .npz of plain arrays, got {error}") from error
    raise InputError(f"{path}: expected an .npz archive, got a single array")


def load_npz(path: Path) -> Splits:
    """Train (and test, where ``x_test``/``y_test`` are there) from an .npz.

    The features are the first of `FEATURES` that is there, the labels the first of `LABELS`;
    ``truth`` and ``class_names`` are used when present.
    """
    arrays = read_arrays(path)
    x_key = first_key(arrays, FEATURES, path, "features")
    y_key = first_key(arrays, LABELS, path, "labels")
    names = arrays.get("class_names")
    train = from_arrays(
        arrays[x_key],
        arrays[y_key],
        truth=arrays.get("truth"),
        class_names=None if names is None else [str(n) for n in names],
        name=path.stem,
        where=str(path),
    )
    return Splits(train, test=_test_part(arrays, train, path))


def _test_part(arrays: dict[str, NDArray[Any]], train: Dataset, path: Path) -> Dataset | None:
    for x, y in (("x_test", "y_test"), ("X_test", "y_test"), ("X_test", "Y_test")):
        if x in arrays and y in arrays:
            return from_arrays(
                arrays[x],
                arrays[y],
                class_names=train.class_names,
                name=train.name,
                where=f"{path} (test part)",
            )
    return None


def first_key(arrays: dict[str, Any], keys: tuple[str, ...], path: Path, what: str) -> str:
    """The first of `keys` that is there."""
    for key in keys:
        if key in arrays:
            return key
    got = ", ".join(sorted(arrays)) or "nothing"
    raise InputError(f"{path}: expected an array called {what} (or {keys[3]}), got {got}")

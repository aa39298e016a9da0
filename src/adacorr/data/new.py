"""New samples for a trained model: the same form as the training data, labels not needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.data.arrays import check_features, match
from adacorr.data.dataset import Dataset
from adacorr.data.folder import image_files
from adacorr.data.images import SUFFIXES, LazyImages, common_form
from adacorr.data.load import decoded, kind, load
from adacorr.data.named.catalog import CATALOG

UNKNOWN = -1
"""The label of a sample that has none."""


def load_new(
    source: str | Path, config_data: Mapping[str, Any], *, skip_unreadable: bool = False
) -> Dataset:
    """Samples to predict, in the form that a run's ``[data]`` table describes.

    Parameters
    ----------
    source : a named dataset (its test part where it has one), a folder of images however deep, one
        image, a table with the training table's feature columns, or an .npz with features.
    config_data : the keys ``class_names``, and where they apply ``input_shape`` (H, W, C),
        ``feature_names``, ``label_column`` and ``image_column``.

    Returns
    -------
    Dataset : labels are -1 where the source has none that the run's classes know.
    """
    names = tuple(str(name) for name in config_data.get("class_names", ()))
    if len(names) < 2:
        raise InputError("data.class_names: expected at least 2 names in the run, got fewer")
    path = Path(source).expanduser()
    if str(source).partition(":")[0] in CATALOG:
        data = _named(str(source), names)
    elif path.is_dir() or path.suffix.lower() in SUFFIXES:
        data = _images(path, names, config_data, skip_unreadable)
    elif not path.exists():
        raise InputError(
            f"{source}: expected a file, a folder or a named dataset, got no such thing"
        )
    elif kind(path) == "npz":
        data = _npz(path, names)
    else:
        data = _table(path, names, config_data, skip_unreadable)
    data = decoded(data, skip_unreadable)
    return _check_shape(data, config_data.get("input_shape"), source)


def _check_shape(data: Dataset, shape: Any, source: str | Path) -> Dataset:
    if shape is not None and tuple(shape) != data.input_shape:
        raise InputError(
            f"{source}: expected samples of shape {tuple(shape)} as in training, "
            f"got {data.input_shape}"
        )
    return data


def _named(source: str, names: tuple[str, ...]) -> Dataset:
    parts = load(source)
    data = parts.test if parts.test is not None else parts.train
    if data.class_names == names:
        return data
    return Dataset(data.name, data.features, _unknown(len(data)), names, ids=data.ids)


def _unknown(n: int) -> NDArray[np.int64]:
    return np.full(n, UNKNOWN, np.int64)


def _form(
    sources: list[Any], labels: list[str], config_data: Mapping[str, Any], skip_unreadable: bool
) -> tuple[tuple[int, int], bool]:
    shape = config_data.get("input_shape")
    if shape is not None and len(shape) == 3:
        return (int(shape[0]), int(shape[1])), int(shape[2]) == 1
    return common_form(sources, labels, config_data.get("image_size"), skip_unreadable)


def _images(
    path: Path, names: tuple[str, ...], config_data: Mapping[str, Any], skip_unreadable: bool
) -> Dataset:
    """The label of an image is the top folder it lies in, where that is a class."""
    root = path if path.is_dir() else path.parent
    files = image_files(path) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: expected images, got none")
    place = {name: i for i, name in enumerate(names)}
    inside = [file.relative_to(root) for file in files]
    labels = np.array([place.get(p.parts[0], UNKNOWN) for p in inside], np.int64)
    shown = [str(file) for file in files]
    size, gray = _form(files, shown, config_data, skip_unreadable)
    ids = np.array([p.as_posix() for p in inside])
    return Dataset(path.name, LazyImages(files, shown, size, gray), labels, names, ids=ids)


def _npz(path: Path, names: tuple[str, ...]) -> Dataset:
    from adacorr.data.npz import FEATURES, LABELS, first_key, read_arrays

    arrays = read_arrays(path)
    x = check_features(arrays[first_key(arrays, FEATURES, path, "features")], f"{path}: ")
    key = next((k for k in LABELS if k in arrays), None)
    labels = _unknown(len(x)) if key is None else match(arrays[key], names, f"{path}: {key}")
    if len(labels) != len(x):
        raise InputError(f"{path}: expected {len(x)} labels, got {len(labels)}")
    return Dataset(path.stem, x, labels, names)


def _label_column(table: Any, config_data: Mapping[str, Any], path: Path) -> str | None:
    """The training table's label column, where the new table has it too."""
    from adacorr.data.table import find_label

    try:
        found = find_label(table, config_data.get("label_column"), path)
    except InputError:
        return None
    # A position such as -1 means a feature where the new table has no labels at its end.
    return None if found in config_data.get("feature_names", ()) else found


def _table(
    path: Path, names: tuple[str, ...], config_data: Mapping[str, Any], skip_unreadable: bool
) -> Dataset:
    from adacorr.data import table as tables

    table = tables.read(path)
    known = _label_column(table, config_data, path)
    labels = _unknown(table.num_rows)
    if known is not None:
        labels = match(tables.values(table, known, path), names, f"{path}: column {known}")
    rest = [c for c in table.column_names if c not in (known, tables.TRUTH)]
    image = tables.find_image(table, rest, config_data.get("image_column"), path)
    if image is not None:
        sources, shown = tables.image_sources(table, image, path)
        size, gray = _form(sources, shown, config_data, skip_unreadable)
        return Dataset(path.stem, LazyImages(sources, shown, size, gray), labels, names)
    columns = config_data.get("feature_names") or tables.feature_columns(table, rest, path)
    features = tables.encode_features(table, columns, path)
    return Dataset(path.stem, features, labels, names, feature_names=tuple(columns))

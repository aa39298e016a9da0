"""Arrays in memory -> Dataset, with every check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset
from adacorr.labels import Codec, in_order, make_codec, plain_labels, shorten


def from_arrays(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    truth: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "arrays",
    where: str = "",
) -> Dataset:
    """A Dataset from arrays.

    Parameters
    ----------
    features : (N, D) numbers: a table; (N, H, W) or (N, H, W, C) or (N, C, H, W) with C 1 or 3:
        images, uint8 or floats in [0, 1] (stored as uint8); (N, P, 3) floats: point clouds.
    labels, truth : (N,) integers >= 0 or strings.
    class_names : the classes; integer labels then index them. Without it, the classes are the
        distinct labels in sorted order, or 0 .. K-1 for integers that run without a gap.
    where : put before each message, such as a file's name.

    >>> from_arrays([[0.5, 1], [2, 3]], ["cat", "dog"]).class_names
    ('cat', 'dog')
    """
    prefix = f"{where}: " if where else ""
    x = check_features(np.asarray(features), prefix)
    codes, names = encode(np.asarray(labels), class_names, prefix)
    if len(codes) != len(x):
        raise InputError(
            f"{prefix}features and labels: expected the same length, got {len(x)} and {len(codes)}"
        )
    true = None
    if truth is not None:
        true = match(np.asarray(truth), names, f"{prefix}truth")
        if len(true) != len(codes):
            raise InputError(f"{prefix}truth: expected length {len(codes)}, got {len(true)}")
    return Dataset(name, x, codes, names, true)


def in_unit_range(x: NDArray[Any]) -> bool:
    """Whether pixels are floats in [0, 1] rather than numbers up to 255."""
    return x.dtype.kind == "f" and bool(x.size) and x.max() <= 1


def check_features(x: NDArray[Any], prefix: str = "", *, unit: bool | None = None) -> NDArray[Any]:
    """Bring an array of samples to one of the three forms, or say what is wrong with it.

    `unit` says that pixels are in [0, 1], as samples seen before may have shown; by default `x`
    itself tells.
    """
    if x.dtype.kind not in "fiub" or x.dtype == object:
        raise InputError(f"{prefix}features: expected numbers, got dtype {x.dtype}")
    if x.ndim < 2 or 0 in x.shape:
        raise InputError(
            f"{prefix}features: expected shape (N, D), (N, H, W, C) or (N, P, 3), got {x.shape}"
        )
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        place = ", ".join(str(int(i)) for i in np.argwhere(~np.isfinite(x))[0])
        raise InputError(f"{prefix}features: expected finite numbers, got NaN or inf at [{place}]")
    if x.ndim == 2 or (x.ndim == 3 and x.shape[2] == 3 and x.dtype.kind == "f"):
        return x.astype(np.float32)
    if x.ndim == 3:
        x = x[:, :, :, None]
    if x.ndim == 4 and x.shape[3] not in (1, 3) and x.shape[1] in (1, 3):
        x = x.transpose(0, 2, 3, 1)
    if x.ndim != 4 or x.shape[3] not in (1, 3):
        raise InputError(
            f"{prefix}features: expected images (N, H, W, C) with 1 or 3 channels, got {x.shape}"
        )
    return np.ascontiguousarray(_to_uint8(x, prefix, unit))


def _to_uint8(x: NDArray[Any], prefix: str, unit: bool | None) -> NDArray[np.uint8]:
    if x.dtype == np.uint8:
        return x
    low, high = x.min(), x.max()
    if low < 0 or high > (1 if unit else 255):
        expected = "[0, 1]" if unit else "[0, 255] or [0, 1]"
        raise InputError(
            f"{prefix}features: expected pixels in {expected}, got {low:g} to {high:g}"
        )
    scale = 255.0 if (in_unit_range(x) if unit is None else unit) else 1.0
    return np.rint(x.astype(np.float64) * scale).astype(np.uint8)


def encode(
    labels: NDArray[Any], class_names: Sequence[str] | None, prefix: str = ""
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels -> class indices and the names of the classes."""
    y = _plain(labels, f"{prefix}labels")
    if class_names is not None:
        names = tuple(str(n) for n in class_names)
        if len(names) < 2 or len(set(names)) != len(names):
            raise InputError(
                f"{prefix}class_names: expected at least 2 distinct names, got {shorten(names)}"
            )
        return match(y, names, f"{prefix}labels"), names
    found = np.unique(y)
    if len(found) < 2:
        raise InputError(f"{prefix}labels: expected at least 2 classes, got only {found[0]!s}")
    names = tuple(in_order([str(value) for value in found]))
    return Codec(names, np.array(names).astype(found.dtype)).encode(y), names


def match(labels: NDArray[Any], names: tuple[str, ...], what: str) -> NDArray[np.int64]:
    """Class indices of labels that must be among `names`: as names, or integers as indices."""
    y = _plain(labels, what)
    seen = None if y.dtype.kind in "iu" else set(np.unique(y).tolist())
    return make_codec(len(names), seen, classes=names).encode(y, what)


def _plain(labels: NDArray[Any], what: str) -> NDArray[Any]:
    """(N,) integers >= 0 or strings."""
    if labels.ndim != 1 or len(labels) == 0:
        raise InputError(f"{what}: expected shape (N,) with N >= 1, got {labels.shape}")
    if labels.dtype.kind == "f" and (labels == np.rint(labels)).all():
        labels = labels.astype(np.int64)
    y = plain_labels(labels, what)
    if y.dtype.kind == "i" and (y < 0).any():
        row = int((y < 0).argmax())
        raise InputError(f"{what}: expected classes >= 0, got {y[row]} in row {row}")
    return y

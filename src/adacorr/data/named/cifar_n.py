"""CIFAR-10N: CIFAR-10's training images with labels by people (Wei et al., ICLR 2022)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adacorr.core.validation import InputError
from adacorr.data.dataset import Splits
from adacorr.data.named.catalog import missing, roots
from adacorr.data.named.cifar import load_cifar
from adacorr.data.named.unpickle import read_torch
from adacorr.data.npz import read_arrays

LABEL_SETS = {
    "aggre": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worse": "worse_label",
}
_FILES = ("CIFAR-10_human.pt", "cifar10n_train.npz", "CIFAR-10_human.npz")


def find() -> Path | None:
    """The official .pt, or an .npz with the same arrays."""
    folders = [root / part for root in roots() for part in ("cifar10n", "cifar10", "")]
    candidates = (folder / file for file in _FILES for folder in folders)
    return next((path for path in candidates if path.is_file()), None)


def load_cifar10n(label_set: str) -> Splits:
    """CIFAR-10 with the human labels `label_set`; the truth is CIFAR-10's own label."""
    key = LABEL_SETS.get(label_set)
    if key is None:
        raise InputError(
            f"cifar10n: expected a label set ({', '.join(f'cifar10n:{s}' for s in LABEL_SETS)}), "
            f"got {label_set!r}"
        )
    path = find()
    if path is None:
        raise missing("cifar10n")
    arrays = read_torch(path) if path.suffix == ".pt" else read_arrays(path)
    clean = load_cifar("cifar10")
    labels = _labels(arrays, key, clean.train.labels, path)
    train = replace(clean.train, name=f"cifar10n:{label_set}", labels=labels)
    return Splits(train, test=clean.test)


def _labels(arrays: dict[str, Any], key: str, truth: Any, path: Path) -> Any:
    if key not in arrays:
        have = ", ".join(sorted(arrays))
        raise InputError(f"{path}: expected the array {key}, got {have}")
    labels = np.asarray(arrays[key])
    if labels.shape != truth.shape or labels.dtype.kind not in "iu":
        raise InputError(
            f"{path}: expected {len(truth)} integers in {key}, "
            f"got shape {labels.shape} of {labels.dtype}"
        )
    if labels.min() < 0 or labels.max() > 9:
        raise InputError(f"{path}: expected labels in [0, 10) in {key}, got others")
    clean = arrays.get("clean_label")
    if clean is not None and not np.array_equal(clean, truth):
        raise InputError(f"{path}: expected rows in CIFAR-10's order, got other clean labels")
    return labels.astype(np.int64)

"""The one Dataset type that every source becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dataset:
    """Samples and their labels.

    Attributes
    ----------
    name : what the user called it.
    features : an array (N, ...) in memory, or anything with ``len()`` and ``[i] -> array`` that
        loads lazily. Images are (H, W, C) uint8, tables (D,) float32, point clouds (P, 3) float32.
    labels : (N,) class indices as given, possibly wrong.
    class_names : K names.
    truth : (N,) true classes where they are known (bench and reports score with them; training
        never sees them).
    """

    name: str
    features: NDArray[Any] | Sequence[NDArray[Any]]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    truth: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        return len(self.class_names)


@dataclass(frozen=True)
class Splits:
    """What a source offers; only the training part is always there."""

    train: Dataset
    validation: Dataset | None = None
    test: Dataset | None = None

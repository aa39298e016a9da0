"""The one Dataset type that every source becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adacorr.labels import Codec


@dataclass(frozen=True)
class Dataset:
    """Samples and their labels.

    Attributes
    ----------
    name : what the user called it.
    features : an array (N, ...) in memory, or anything with ``len()`` and ``[i] -> array`` that
        loads lazily. Images are (H, W, C) uint8, tables (D,) float32, point clouds (P, 3) float32.
    labels : (N,) class indices as given, possibly wrong; -1 where a sample to predict has none.
    class_names : K names.
    truth : (N,) true classes where they are known (bench and reports score with them; training
        never sees them).
    ids : (N,) what the user calls each sample: an id column, a file's name inside the folder, or
        a row number of the source. None means 0 .. N-1.
    rows : (N,) row numbers in the source as it was first read, which stay with the samples
        whatever is left out. None means 0 .. N-1.
    feature_names : D names of a table's columns (``colour=red`` for a level of a text column).
    skipped : files that could not be read and were left out at the user's wish.
    """

    name: str
    features: NDArray[Any] | Sequence[NDArray[Any]]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    truth: NDArray[np.int64] | None = None
    ids: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    skipped: tuple[str, ...] = ()
    rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def codec(self) -> Codec:
        """What `labels` mean: they are class indices."""
        return Codec.of_indices(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample: (H, W, C), (D,) or (P, 3)."""
        if isinstance(self.features, np.ndarray):
            return tuple(self.features.shape[1:])
        return tuple(self.features[0].shape)

    def take(self, index: NDArray[np.integer]) -> Dataset:
        """The samples at `index`, in that order.

        >>> import numpy as np
        >>> data = Dataset("toy", np.eye(3, dtype=np.float32), np.array([0, 1, 1]), ("a", "b"))
        >>> part = data.take(np.array([2, 0]))
        >>> part.labels.tolist(), part.ids.tolist()
        ([1, 0], [2, 0])
        """
        rows = np.arange(len(self)) if self.rows is None else self.rows
        ids = rows if self.ids is None else self.ids
        return replace(
            self,
            features=take_features(self.features, index),
            labels=self.labels[index],
            truth=None if self.truth is None else self.truth[index],
            ids=ids[index],
            rows=rows[index],
        )


def take_features(
    features: NDArray[Any] | Sequence[NDArray[Any]], index: NDArray[np.integer]
) -> NDArray[Any] | Sequence[NDArray[Any]]:
    """Rows of an array, or a lazy view of a sequence; our own sequences have a ``take``."""
    if isinstance(features, np.ndarray):
        return features[index]
    if hasattr(features, "take"):
        return cast(Any, features).take(index)
    return Picked(features, np.asarray(index))


class Picked(Sequence[NDArray[Any]]):
    """Some items of another sequence, looked up when asked for."""

    def __init__(self, items: Sequence[NDArray[Any]], index: NDArray[np.integer]) -> None:
        self._items, self._index = items, index

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, i: Any) -> Any:
        return self._items[int(self._index[i])]


@dataclass(frozen=True)
class Splits:
    """What a source offers; only the training part is always there."""

    train: Dataset
    validation: Dataset | None = None
    test: Dataset | None = None

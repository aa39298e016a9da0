"""What is shown beside a sample: its nearest neighbours, and examples of both classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.review.queue import Rows
from adacorr.runs.manifest import CheckedRows
from adacorr.runs.reader import RunData

NEAREST = 6
EXAMPLES = 3
ELEMENTS = 200_000_000
"""A search reads all features: larger ones would make the page wait."""
_ROWS = 8192


@dataclass
class Beside:
    """Rows to look at beside a row of the run.

    Attributes
    ----------
    features : (N, D) or None: then there are no neighbours.
    """

    data: RunData
    rows: Rows
    features: Any = None
    _examples: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def open(cls, data: RunData, rows: Rows) -> Beside:
        return cls(data, rows, _features(data))

    def nearest(self, row: int, count: int = NEAREST) -> NDArray[np.int64]:
        """The rows with the largest cosine to this one, the nearest first."""
        if self.features is None:
            return np.empty(0, dtype=np.int64)
        own = np.asarray(self.features[row], dtype=np.float32)
        near = np.concatenate([np.asarray(self.features[s]) @ own for s in self._pieces])
        near = np.divide(near, self._norms, out=np.full(len(near), -np.inf), where=self._norms > 0)
        near[row] = -np.inf
        few = min(count, self.data.n - 1)
        best = np.argpartition(-near, few - 1)[:few] if few else np.empty(0, dtype=np.int64)
        best = best[np.isfinite(near[best])]
        return best[np.argsort(-near[best], kind="stable")]

    def examples(self, label: int, apart_from: int, count: int = EXAMPLES) -> NDArray[np.int64]:
        """Rows given as this class that the model is surest of."""
        if label not in self._examples:
            rows = np.flatnonzero(self.rows.given == label)
            f = self.data.pred_probs
            assert f is not None
            sure = np.concatenate(
                [np.asarray(f[rows[s : s + _ROWS]])[:, label] for s in range(0, len(rows), _ROWS)]
                or [np.empty(0)]
            )
            self._examples[label] = rows[np.argsort(-sure, kind="stable")][: count + 1]
        found = self._examples[label]
        return found[found != apart_from][:count]

    def of(self, row: int, labels: list[int]) -> dict[str, Any]:
        """The answer to the page: samples by number, with their given labels."""

        def told(rows: NDArray[np.int64]) -> list[dict[str, int]]:
            index, given = self.rows.index, self.rows.given
            return [{"sample": int(index[r]), "given": int(given[r])} for r in rows]

        examples = [{"label": c, "rows": told(self.examples(c, row))} for c in labels]
        return {"nearest": told(self.nearest(row)), "examples": examples}

    @property
    def _pieces(self) -> list[slice]:
        return [slice(s, s + _ROWS) for s in range(0, self.data.n, _ROWS)]

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        lengths = [np.linalg.norm(np.asarray(self.features[s]), axis=1) for s in self._pieces]
        return np.concatenate(lengths).astype(np.float64)


def _features(data: RunData) -> CheckedRows | None:
    """Features of all rows; None where the run has none that the page can use."""
    found, n = data.run.features(), data.n
    if found is None:
        return None
    if len(found.shape) != 2 or len(found) != n or found.dtype.kind != "f":
        raise InputError(
            f"{data.run.file('features.npy')}: expected floats of shape ({n}, D), "
            f"got {found.dtype} of shape {found.shape}"
        )
    return None if n * found.shape[1] > ELEMENTS else found

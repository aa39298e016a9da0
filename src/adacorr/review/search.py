"""Finding a sample: by its number, by what the source calls it, or by a text in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adacorr.runs.reader import RunData
from adacorr.runs.samples import Items


@dataclass(frozen=True)
class Search:
    """Over the samples that the page can show: `samples` are their numbers, ascending."""

    data: RunData
    items: Items
    samples: NDArray[np.int64]

    def find(self, text: str) -> NDArray[np.int64]:
        """Numbers of samples, ascending: that number, that name, else names and texts with it."""
        wanted = text.strip().casefold()
        if not wanted:
            return np.empty(0, dtype=np.int64)
        if wanted.isdecimal() and len(wanted) < 19 and int(wanted) in self.samples:
            return np.array([int(wanted)])
        whole, part = [], []
        for batch in self.data.batches(texts=True) if "id" in self.data.columns else ():
            for number, name in zip(batch.index.tolist(), batch.id or (), strict=False):
                if wanted in (folded := name.casefold()):
                    part.append(number)
                    if wanted == folded:
                        whole.append(number)
        found = np.array(whole or [*part, *self.items.search(wanted)], dtype=np.int64)
        return np.intersect1d(found, self.samples)

"""How many labels changed from which class to which, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

MAX_PAIRS = 1 << 18  # beyond, the rarest are forgotten; up to 512 classes none ever is
_COMPACT = 1 << 15


def _none() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of keys ``given * K + corrected``; those of two parts merge.

    >>> a = PairCounts.of(np.array([3, 5, 3]))
    >>> a.merge(PairCounts.of(np.array([5, 5, 1]))).top(2)
    [(5, 3), (3, 2)]
    """

    keys: NDArray[np.int64] = field(default_factory=_none)
    counts: NDArray[np.int64] = field(default_factory=_none)
    waiting: tuple[PairCounts, ...] = ()  # merged once they are as many as the rest: less sorting

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> PairCounts:
        return cls(*np.unique(keys, return_counts=True))

    def merge(self, other: PairCounts) -> PairCounts:
        waiting = (*self.waiting, PairCounts(other.keys, other.counts), *other.waiting)
        merged = PairCounts(self.keys, self.counts, waiting)
        enough = max(len(self.keys), _COMPACT)
        return merged.whole() if sum(len(part.keys) for part in waiting) >= enough else merged

    def whole(self) -> PairCounts:
        """Each key once and in order, nothing waiting."""
        if not self.waiting:
            return self
        keys = np.concatenate([self.keys, *(part.keys for part in self.waiting)])
        counts = np.concatenate([self.counts, *(part.counts for part in self.waiting)])
        found, place = np.unique(keys, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, place, counts)
        if len(found) > MAX_PAIRS:
            keep = np.sort(np.argsort(-sums, kind="stable")[:MAX_PAIRS])
            found, sums = found[keep], sums[keep]
        return PairCounts(found, sums)

    def top(self, count: int) -> list[tuple[int, int]]:
        """The most frequent keys with their counts, ties in order of the key."""
        whole = self.whole()
        best = np.argsort(-whole.counts, kind="stable")[:count]
        return list(zip(whole.keys[best].tolist(), whole.counts[best].tolist(), strict=True))

    @property
    def total(self) -> int:
        return int(self.counts.sum()) + sum(part.total for part in self.waiting)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairCounts):
            return NotImplemented
        a, b = self.whole(), other.whole()
        return np.array_equal(a.keys, b.keys) and np.array_equal(a.counts, b.counts)

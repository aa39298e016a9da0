"""What a correction of a table came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adacorr.correction.process import Stats
from adacorr.tables.layout import Layout


@dataclass(frozen=True)
class TableResult:
    """What happened to a table.

    Attributes
    ----------
    stats : rows, flips, pairs of class indices, the rule's expected errors.
    class_names : the K names.
    noise_rate : estimated share of wrong labels among the given ones; None when not estimated.
    noise_rate_from : how, in words.
    summary : what the rule says of itself, in plain values.
    layout : which columns were used.
    seconds : wall time.
    """

    stats: Stats
    class_names: tuple[str, ...]
    noise_rate: float | None
    noise_rate_from: str
    summary: dict[str, Any]
    layout: Layout
    seconds: float

    @property
    def classes_from_data(self) -> bool:
        """Names were read off the labels, so their order is a convention: sorted."""
        indices = tuple(str(i) for i in range(len(self.class_names)))
        return self.layout.class_names is None and self.class_names != indices

    def top_pairs(self, count: int = 5) -> list[tuple[str, str, int]]:
        """The most frequent changes by name, ties in class order."""
        ranked = [(divmod(key, len(self.class_names)), n) for key, n in self.stats.pairs.top(count)]
        return [(self.class_names[a], self.class_names[b], n) for (a, b), n in ranked]

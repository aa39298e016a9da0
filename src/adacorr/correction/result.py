"""What a correction of a table came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adacorr.core.certify import Certificate
from adacorr.correction.panel import Annotator
from adacorr.correction.process import Stats
from adacorr.labels import Codec
from adacorr.tables.layout import Layout


@dataclass(frozen=True)
class TableResult:
    """What happened to a table.

    Attributes
    ----------
    stats : rows, flips, pairs of class indices, the rule's expected errors.
    codec : what the labels mean; `class_names` are its names.
    noise_rate : estimated share of wrong labels among the given ones; None when not estimated.
    noise_rate_from : how, in words.
    summary : what the rule says of itself, in plain values.
    layout : which columns were used.
    seconds : wall time.
    certificate : what answers prove of the result; None where nobody was asked.
    annotators : where several people labelled: who is how good; empty otherwise.
    """

    stats: Stats
    codec: Codec
    noise_rate: float | None
    noise_rate_from: str
    summary: dict[str, Any]
    layout: Layout
    seconds: float
    certificate: Certificate | None = None
    annotators: tuple[Annotator, ...] = ()

    @property
    def class_names(self) -> tuple[str, ...]:
        """The K names, in the order of the probabilities."""
        return self.codec.names

    @property
    def classes_from_data(self) -> bool:
        """The order of the classes was guessed from the labels; `codec.guess` says how."""
        return bool(self.codec.guess)

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high) of the share of wrong labels; None where the rule states none."""
        if self.certificate is not None:
            return self.certificate.wrong_before
        found = self.summary.get("interval")
        return None if found is None else (found[0], found[1])

    @property
    def wrong_changes(self) -> tuple[float, float] | None:
        """(low, high) of how many changes are wrong; None where the rule states none."""
        if self.certificate is not None:
            return self.certificate.wrong_changes_between
        return self.stats.expected_wrong_flips_interval

    def suspects(self) -> list[tuple[int, str, str, float]]:
        """The most doubtful rows: number, given class, other class, P(given label is wrong)."""
        names = self.class_names
        return [(s.row, names[s.given], names[s.other], s.suspicion) for s in self.stats.suspects]

    def top_pairs(self, count: int = 5) -> list[tuple[str, str, int]]:
        """The most frequent changes by name, ties in class order."""
        ranked = [(divmod(key, len(self.class_names)), n) for key, n in self.stats.pairs.top(count)]
        return [(self.class_names[a], self.class_names[b], n) for (a, b), n in ranked]

"""Which proposed change comes next: order, filter, and who is looking at what."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from adacorr.runs.reader import Batch, RunData

Order = Literal["doubtful", "certain", "audit", "suspicious", "rest"]
LEASE_SECONDS = 90.0


@dataclass(frozen=True)
class Flips:
    """What there is to decide in a run, in the order of its rows; about 60 bytes each.

    These are the changes that the run made, those that it withheld, and suspects: rows that it left
    alone although the rule or the model names another class.

    Attributes
    ----------
    row : row in the run's label table, increasing.
    index : the sample's number in its source.
    given, proposed : class indices.
    ratio : likelihood ratio of the given class.
    confidence : estimated P(proposed is right); NaN where unknown.
    certainty : what "doubtful" and "certain" sort by.
    withheld : not applied by the run, which leaves these to a person (``max_flip_error``).
    suspect : kept as given by the run; the decision is a person's alone.
    suspicion : what suspects are sorted by: P(given is wrong) where the run states it, else 1 less
        the ratio of the given class to the other.
    """

    row: NDArray[np.int64]
    index: NDArray[np.int64]
    given: NDArray[np.int64]
    proposed: NDArray[np.int64]
    ratio: NDArray[np.float64]
    confidence: NDArray[np.float64]
    certainty: NDArray[np.float64]
    withheld: NDArray[np.bool_]
    suspect: NDArray[np.bool_]
    suspicion: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row)

    def find(self, row: int) -> int | None:
        """The flip at a row of the run; None when nothing is proposed for that row."""
        place = int(np.searchsorted(self.row, row))
        return place if place < len(self.row) and self.row[place] == row else None

    def pairs(self, n_classes: int) -> list[tuple[int, int, int]]:
        """(given, proposed, count) of the changes, most frequent first."""
        pairs = (self.given * n_classes + self.proposed)[~self.suspect]
        codes, counts = np.unique(pairs, return_counts=True)
        ranked = np.argsort(-counts, kind="stable")
        return [(*divmod(int(codes[i]), n_classes), int(counts[i])) for i in ranked]


@dataclass(frozen=True)
class Rows:
    """All rows of a run, 16 bytes each: the given label, and the sample's number in its source."""

    given: NDArray[np.int64]
    index: NDArray[np.int64]


def load_rows(data: RunData) -> Rows:
    """Stream the label table and keep what questions need."""
    parts = [(batch.given, batch.index) for batch in data.batches()]
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def load_flips(data: RunData) -> Flips:
    """Stream the label table and keep the rows that there is something to decide about."""
    parts: dict[str, list[NDArray]] = {name: [] for name in Flips.__dataclass_fields__}
    for batch in data.batches():
        asked = batch.flipped | batch.withheld
        other, ratio = _other_class(data, batch)
        suspect = ~asked & (other != batch.given)
        at = np.flatnonzero(asked | suspect)
        suspicion = 1 - ratio if batch.suspicion is None else batch.suspicion
        columns = {
            "row": at + batch.start,
            "index": batch.index[at],
            "given": batch.given[at],
            "proposed": np.where(suspect, other, batch.proposed)[at],
            "ratio": np.where(suspect, ratio, batch.ratio)[at],
            "confidence": np.where(suspect, np.nan, batch.chance)[at],
            "certainty": batch.certainty[at],
            "withheld": batch.withheld[at],
            "suspect": suspect[at],
            "suspicion": np.nan_to_num(suspicion[at], nan=0.0),
        }
        for name, values in columns.items():
            parts[name].append(values)
    return Flips(**{name: np.concatenate(values) for name, values in parts.items()})


def _other_class(data: RunData, batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The class that speaks against the given one: the rule's, else the model's; and the ratio."""
    if data.pred_probs is None:
        return batch.suggested, batch.ratio
    rows = np.arange(len(batch.given))
    f = np.nan_to_num(np.asarray(data.pred_probs[batch.start : batch.start + len(rows)]))
    top = f.argmax(axis=1)
    most = f[rows, top].astype(np.float64)
    own = f[rows, batch.given].astype(np.float64)
    by_model = np.divide(own, most, out=np.ones(len(rows)), where=most > 0)
    by_rule = batch.suggested != batch.given
    return np.where(by_rule, batch.suggested, top), np.where(by_rule, batch.ratio, by_model)


@dataclass
class ChangeQueue:
    """Hands out open flips so that people who work at once see different ones."""

    flips: Flips
    orders: dict[str, NDArray[np.int64]]
    _holder: dict[int, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def create(cls, flips: Flips, audit: NDArray[np.int64]) -> ChangeQueue:
        doubtful = np.argsort(flips.certainty, kind="stable")
        certain = np.argsort(-flips.certainty, kind="stable")
        suspicious = np.argsort(-flips.suspicion, kind="stable")
        orders = {
            "doubtful": doubtful[~flips.suspect[doubtful]],
            "certain": certain[~flips.suspect[certain]],
            # The audit is about the changes that the run made; a withheld one is none yet.
            "audit": audit[~flips.withheld[audit]],
            "suspicious": suspicious[flips.suspect[suspicious]],
            "rest": doubtful,  # until answers have chosen a rule
        }
        return cls(flips, orders)

    def next(
        self,
        state: NDArray[np.int8],
        order: Order,
        client: str,
        limit: int,
        pair: tuple[int, int] | None = None,
    ) -> list[int]:
        """Up to `limit` open flips for `client`, skipped ones last; they are held for it a while.

        `state` is 0 for open and 4 for skipped flips (see :mod:`adacorr.review.store`).
        """
        sequence = self.orders[order]
        todo = state[sequence]
        wanted = np.ones(len(sequence), dtype=bool)
        if pair is not None:
            given, proposed = self.flips.given[sequence], self.flips.proposed[sequence]
            wanted = (given == pair[0]) & (proposed == pair[1])
        with self._lock:
            taken = self._taken_by_others(client)
            picked: list[int] = []
            for status in (0, 4):
                for flip in sequence[wanted & (todo == status)]:
                    if len(picked) == limit:
                        break
                    if int(flip) not in taken:
                        picked.append(int(flip))
            self._hold(client, picked)
        return picked

    def keep(self, client: str) -> None:
        """Its page is still open: what `client` holds stays its own for a while longer."""
        until = time.monotonic() + LEASE_SECONDS
        with self._lock:
            mine = [flip for flip, (holder, _) in self._holder.items() if holder == client]
            self._holder.update(dict.fromkeys(mine, (client, until)))

    def _taken_by_others(self, client: str) -> set[int]:
        now = time.monotonic()
        self._holder = {f: held for f, held in self._holder.items() if held[1] > now}
        return {flip for flip, (holder, _) in self._holder.items() if holder != client}

    def _hold(self, client: str, flips: list[int]) -> None:
        self._holder = {f: held for f, held in self._holder.items() if held[0] != client}
        until = time.monotonic() + LEASE_SECONDS
        self._holder.update(dict.fromkeys(flips, (client, until)))


def audited(order: NDArray[np.int64], state: NDArray[np.int8]) -> tuple[int, int]:
    """(reviewed, wrong) of the audit sample: the decided flips before the first undecided one.

    Only the unbroken beginning of the random order is a random sample: were the ones that a
    reviewer passes over left out, hard cases would be missing.

    >>> audited(np.array([2, 0, 1]), np.array([1, 0, 2]))
    (2, 1)
    """
    status = state[order]
    undecided = (status == 0) | (status == 4)
    n = int(undecided.argmax()) if undecided.any() else len(status)
    return n, int((status[:n] != 1).sum())

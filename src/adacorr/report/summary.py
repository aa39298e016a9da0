"""One pass over a run -> everything the report shows, small whatever the number of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from adacorr.runs.reader import Batch, RunData

RATIO_BINS = 50
GALLERY = 12
"""How many of the most doubtful changes are shown."""
SUSPECTS = 24
"""How many of the most suspicious labels are shown, changed or not."""
SAMPLE_ELEMENTS = 10_000_000
"""Probabilities that the estimates read: the rows beyond are represented by a random sample."""


@dataclass(frozen=True)
class Flip:
    """One label that is or may be wrong; `row` counts in the run, `index` in the source.

    Attributes
    ----------
    other : the class that may be right instead; -1 where the run names none.
    state : "changed", "withheld" (for a person to look at) or "kept".
    suspicion : P(the given label is wrong); None where not known.
    confidence : P(the label after the decision is right); None where not known.
    """

    row: int
    index: int
    given: int
    other: int
    state: str
    ratio: float
    suspicion: float | None
    confidence: float | None


@dataclass(frozen=True)
class Scores:
    """What the known true labels say; rows without a known truth are left out."""

    n: int
    right_before: int
    right_after: int
    flips_right: int
    flips_wrong: int


@dataclass(frozen=True)
class Summary:
    """Counts, histograms and examples of a run.

    Attributes
    ----------
    n, n_flipped : rows, and rows whose label was changed.
    n_withheld : rows whose change was left to a person (``max_flip_error``).
    given, corrected : (K,) how many labels each class had before and has after.
    flow : {(given, corrected): count} of the changed labels.
    ratio_kept, ratio_flipped : histograms of the likelihood ratio over equal bins of [0, 1]; rows
        whose label already is the model's first choice (ratio 1) are in `n_agreed` instead.
    highest_flipped : largest ratio that was changed; None without a change.
    suspects : the labels most likely to be wrong, changed or not, worst first.
    doubtful : the changes least likely to be right.
    scores : where the run knows true labels.
    """

    n: int
    n_flipped: int
    n_withheld: int
    given: NDArray[np.int64]
    corrected: NDArray[np.int64]
    flow: dict[tuple[int, int], int]
    ratio_kept: NDArray[np.int64]
    ratio_flipped: NDArray[np.int64]
    n_agreed: int
    highest_flipped: float | None
    suspects: tuple[Flip, ...]
    doubtful: tuple[Flip, ...]
    scores: Scores | None

    @property
    def changed_share(self) -> float:
        return self.n_flipped / self.n

    def top_pairs(self, limit: int) -> list[tuple[int, int, int]]:
        """The most frequent changes as (given, corrected, count)."""
        ranked = sorted(self.flow.items(), key=lambda item: (-item[1], item[0]))
        return [(a, b, count) for (a, b), count in ranked[:limit]]

    def matrix(self) -> NDArray[np.int64]:
        """The (K, K) counts given -> corrected, with the unchanged labels on the diagonal."""
        kept = self.given.copy()
        for (a, _), count in self.flow.items():
            kept[a] -= count
        full = np.diag(kept)
        for (a, b), count in self.flow.items():
            full[a, b] = count
        return full


@dataclass(frozen=True)
class RunSample:
    """Rows on which the estimates that need probabilities are computed."""

    labels: NDArray[np.int64]
    pred_probs: NDArray[np.floating]
    complete: bool  # every row of the run is in it


def summarise(data: RunData) -> Summary:
    """Stream the label table once; memory is that of one batch and a few small arrays."""
    tally = _Tally(data.n_classes)
    for batch in data.batches():
        tally.add(batch)
    return tally.finish()


def sample_rows(data: RunData, seed: int = 0) -> RunSample | None:
    """A uniform random sample of rows whose probabilities fit in memory; None without them."""
    if data.pred_probs is None:
        return None
    limit = min(data.n, max(1, SAMPLE_ELEMENTS // data.n_classes))
    rows = np.arange(data.n)
    if limit < data.n:
        rows = np.sort(np.random.default_rng(seed).choice(data.n, limit, replace=False))
    labels = np.empty(limit, dtype=np.int64)
    for batch in data.batches():
        first, last = np.searchsorted(rows, (batch.start, batch.start + len(batch.given)))
        labels[first:last] = batch.given[rows[first:last] - batch.start]
    probs = data.pred_probs[:] if limit == data.n else data.pred_probs[rows]
    return RunSample(labels, probs, limit == data.n)


@dataclass
class _Tally:
    """The running counts of :func:`summarise`."""

    k: int
    n: int = 0
    n_flipped: int = 0
    n_withheld: int = 0
    n_agreed: int = 0
    highest: float = -1.0
    flow: Counter[int] = field(default_factory=Counter)
    suspects: list[tuple[float, Flip]] = field(default_factory=list)
    doubtful: list[tuple[float, Flip]] = field(default_factory=list)
    scores: Scores | None = None

    def __post_init__(self) -> None:
        self.given = np.zeros(self.k, dtype=np.int64)
        self.corrected = np.zeros(self.k, dtype=np.int64)
        self.kept_hist = np.zeros(RATIO_BINS, dtype=np.int64)
        self.flip_hist = np.zeros(RATIO_BINS, dtype=np.int64)

    def add(self, batch: Batch) -> None:
        flipped = batch.flipped
        self.n += len(flipped)
        self.n_flipped += int(flipped.sum())
        self.n_withheld += int(batch.withheld.sum())
        self.given += np.bincount(batch.given, minlength=self.k)
        self.corrected += np.bincount(batch.corrected, minlength=self.k)
        codes, counts = np.unique(
            batch.given[flipped] * self.k + batch.corrected[flipped], return_counts=True
        )
        self.flow.update(dict(zip(codes.tolist(), counts.tolist(), strict=True)))
        self._add_ratios(batch, flipped)
        self._add_truth(batch, flipped)
        self._add_examples(batch, flipped)

    def _add_ratios(self, batch: Batch, flipped: NDArray[np.bool_]) -> None:
        agreed = ~flipped & (batch.suggested == batch.given)
        self.n_agreed += int(agreed.sum())
        edges = np.linspace(0, 1, RATIO_BINS + 1)
        self.kept_hist += np.histogram(batch.ratio[~flipped & ~agreed], edges)[0]
        self.flip_hist += np.histogram(batch.ratio[flipped], edges)[0]
        if flipped.any():
            self.highest = max(self.highest, float(batch.ratio[flipped].max()))

    def _add_truth(self, batch: Batch, flipped: NDArray[np.bool_]) -> None:
        if batch.truth is None or (batch.truth < 0).all():
            return
        known = batch.truth >= 0
        after = batch.corrected == batch.truth
        old = self.scores or Scores(0, 0, 0, 0, 0)
        self.scores = Scores(
            n=old.n + int(known.sum()),
            right_before=old.right_before + int((known & (batch.given == batch.truth)).sum()),
            right_after=old.right_after + int((known & after).sum()),
            flips_right=old.flips_right + int((known & flipped & after).sum()),
            flips_wrong=old.flips_wrong + int((known & flipped & ~after).sum()),
        )

    def _add_examples(self, batch: Batch, flipped: NDArray[np.bool_]) -> None:
        doubt = batch.doubt
        _keep_first(self.suspects, SUSPECTS, batch, np.flatnonzero(doubt > 0), -doubt)
        _keep_first(self.doubtful, GALLERY, batch, np.flatnonzero(flipped), batch.certainty)

    def finish(self) -> Summary:
        return Summary(
            n=self.n,
            n_flipped=self.n_flipped,
            n_withheld=self.n_withheld,
            given=self.given,
            corrected=self.corrected,
            flow={divmod(code, self.k): count for code, count in self.flow.items()},
            ratio_kept=self.kept_hist,
            ratio_flipped=self.flip_hist,
            n_agreed=self.n_agreed,
            highest_flipped=self.highest if self.n_flipped else None,
            suspects=tuple(flip for _, flip in self.suspects),
            doubtful=tuple(flip for _, flip in self.doubtful),
            scores=self.scores,
        )


def _keep_first(
    kept: list[tuple[float, Flip]],
    limit: int,
    batch: Batch,
    rows: NDArray[np.int64],
    rank: NDArray[np.float64],
) -> None:
    """Add the rows of lowest rank, and let go of what is no longer among the first."""
    order = rows[np.argsort(rank[rows], kind="stable")[:limit]]
    kept += [(float(rank[i]), _flip_at(batch, int(i))) for i in order]
    kept.sort(key=lambda item: (item[0], item[1].row))
    del kept[limit:]


def _flip_at(batch: Batch, i: int) -> Flip:
    state = "changed" if batch.flipped[i] else "withheld" if batch.withheld[i] else "kept"
    return Flip(
        row=batch.start + i,
        index=int(batch.index[i]),
        given=int(batch.given[i]),
        other=int(batch.other[i]),
        state=state,
        ratio=float(batch.ratio[i]),
        suspicion=_known(batch.suspicion, i),
        confidence=_known(batch.confidence, i),
    )


def _known(values: NDArray[np.float64] | None, i: int) -> float | None:
    return None if values is None or np.isnan(values[i]) else float(values[i])

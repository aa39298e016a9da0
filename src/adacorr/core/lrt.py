"""The likelihood ratio test behind Procedure 1 (LRT-Correction), and what a rule is.

The work is one pass over the rows (core/kernel.py), which checks them on the way: a caller of
:func:`likelihood_ratio` or :meth:`ThresholdRule.decide` needs no pass of its own for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core import kernel
from adacorr.core.validation import check_codes, check_delta, check_rows


@dataclass(frozen=True)
class Decision:
    """What a rule says of each row; class indices, not names."""

    suggested: NDArray[np.int64]
    ratio: NDArray[np.float64]
    flipped: NDArray[np.bool_]
    confidence: NDArray[np.float64] | None = None  # P(new label is right), where the rule knows it
    review: NDArray[np.bool_] | None = None  # flips withheld for a person, where a limit was set
    suspicion: NDArray[np.float64] | None = None  # P(given label is wrong), where the rule knows it
    other: NDArray[np.int64] | None = None  # the most probable class other than the given one

    def where(self, rows: NDArray[Any] | slice) -> Decision:
        """Of some rows."""
        return _columnwise(lambda values: values[0][rows], [self])

    @classmethod
    def joined(cls, parts: Sequence[Decision]) -> Decision:
        """Of all parts, one after the other; all come from one rule."""
        return _columnwise(np.concatenate, parts)


def _columnwise(merge: Callable[[list[NDArray[Any]]], Any], parts: Sequence[Decision]) -> Decision:
    """One decision of several; a column is missing in all of them or in none."""
    columns = {}
    for column in fields(Decision):
        values = [getattr(part, column.name) for part in parts]
        columns[column.name] = None if values[0] is None else merge(values)
    return Decision(**columns)


def decided(
    labels: NDArray[np.int64],
    other: NDArray[np.int64],
    flipped: NDArray[np.bool_],
    own: NDArray[np.float64],
    best: NDArray[np.float64],
    wrong: NDArray[np.float64],
    withheld: NDArray[np.bool_] | None = None,
) -> Decision:
    """What a rule with probabilities says: change to `other` where flipped and not withheld.

    Parameters
    ----------
    own, best : P(the given label is right), P(the other class is).
    wrong : the suspicion of each row.
    withheld : changes that are left for a person; None where no limit was set.

    >>> own, best = np.array([0.2, 0.9]), np.array([0.8, 0.1])
    >>> zero, one = np.zeros(2, np.int64), np.ones(2, np.int64)
    >>> decision = decided(zero, one, best > own, own, best, 1 - own)
    >>> decision.suggested.tolist(), decision.ratio.tolist(), decision.confidence.tolist()
    ([1, 0], [0.25, 1.0], [0.8, 0.9])
    """
    ratio = np.divide(own, best, out=np.ones(len(labels)), where=flipped & (own < best))
    applied = flipped if withheld is None else flipped & ~withheld
    review = None if withheld is None else flipped & withheld
    sure = np.where(applied, best, own)
    return Decision(np.where(flipped, other, labels), ratio, applied, sure, review, wrong, other)


class Rule(Protocol):
    """A fitted correction rule: the same rows give the same decisions in any batch."""

    @property
    def summary(self) -> dict[str, Any]:
        """Plain values that describe the rule: `rule`, `noise_rate`, `note`."""
        ...

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision: ...


def likelihood_ratio(
    labels: NDArray[np.int64], pred_probs: NDArray[np.floating]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """``m = argmax f`` (first of ties) and ``f[label] / f[m]`` in float64.

    Raises :class:`~adacorr.core.validation.RowError` at the first row of `pred_probs` that is not
    a distribution, or label that is not a class index.

    >>> likelihood_ratio(np.array([1, 0]), np.array([[0.8, 0.2], [0.5, 0.5]]))
    (array([0, 0]), array([0.25, 1.  ]))
    """
    suggested, ratio, _ = _scan(labels, pred_probs, np.ones((1, 1)))
    return suggested, ratio


def _scan(
    labels: NDArray[np.int64], f: NDArray[np.floating], delta: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    suggested, ratio, flipped, suspicious = kernel.scan(labels, f, delta)
    for piece in suspicious:  # rare: look exactly, and either raise or do the piece again
        y, block = labels[piece], f[piece]
        check_rows(block, first_row=piece.start)
        check_codes(y, f.shape[1], first_row=piece.start)
        m, rows = block.argmax(axis=1), np.arange(len(y))
        r = block[rows, y].astype(np.float64) / block[rows, m].astype(np.float64)
        threshold = delta[0, 0] if delta.shape == (1, 1) else delta[m, y]
        suggested[piece], ratio[piece], flipped[piece] = m, r, (r < threshold) & (m != y)
    return suggested, ratio, flipped


@dataclass(frozen=True)
class ThresholdRule:
    """Procedure 1: flip to the argmax when the ratio is below delta, or ``delta[m, label]``."""

    delta: NDArray[np.float64]

    @classmethod
    def create(cls, delta: ArrayLike, n_classes: int) -> ThresholdRule:
        return cls(check_delta(delta, n_classes))

    @property
    def summary(self) -> dict[str, Any]:
        return {"rule": "threshold", "noise_rate": None, "note": ""}

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision:
        """Raises RowError at a row that is not a distribution or a label that is no class."""
        k = pred_probs.shape[1]
        delta = self.delta.reshape((1, 1) if self.delta.ndim == 0 else (k, k))
        return Decision(*_scan(labels, pred_probs, delta))

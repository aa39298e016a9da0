"""The likelihood ratio test behind Procedure 1 (LRT-Correction), as one pass over the rows.

Small inputs take numpy; larger ones a fused numba kernel (few classes) or threaded numpy chunks
(many classes, where numpy's vectorised argmax wins). All three give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import check_delta


@dataclass(frozen=True)
class Decision:
    """What a rule says of each row; class indices, not names."""

    suggested: NDArray[np.int64]
    ratio: NDArray[np.float64]
    flipped: NDArray[np.bool_]
    confidence: NDArray[np.float64] | None = None  # P(new label is right), where the rule knows it
    review: NDArray[np.bool_] | None = None  # flips withheld for a person, where a limit was set


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
    """``m = argmax f`` (first of ties) and ``f[label] / f[m]`` in float64, for checked input.

    >>> likelihood_ratio(np.array([1, 0]), np.array([[0.8, 0.2], [0.5, 0.5]]))
    (array([0, 0]), array([0.25, 1.  ]))
    """
    suggested = pred_probs.argmax(axis=1)
    rows = np.arange(len(labels))
    top = pred_probs[rows, suggested].astype(np.float64)
    return suggested, pred_probs[rows, labels].astype(np.float64) / top


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
        suggested, ratio = likelihood_ratio(labels, pred_probs)
        threshold = self.delta if self.delta.ndim == 0 else self.delta[suggested, labels]
        return Decision(suggested, ratio, (ratio < threshold) & (suggested != labels))

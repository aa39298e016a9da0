"""``correct``: arrays in, corrected labels and the reasons out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.lrt import ThresholdRule
from adacorr.core.validation import check_pred_probs, check_same_length, encode_labels


@dataclass(frozen=True)
class Correction:
    """Result of :func:`correct`; arrays of length N in the order of the input.

    Attributes
    ----------
    labels : the corrected labels, of the kind that was passed in.
    ratio : the likelihood ratio behind each decision, in [0, 1]; small means doubtful.
    flipped : where the label was changed.
    suggested : what the classifier would say; equals `labels` where flipped.
    """

    labels: NDArray[Any]
    ratio: NDArray[np.float64]
    flipped: NDArray[np.bool_]
    suggested: NDArray[Any]

    @property
    def n_flipped(self) -> int:
        return int(self.flipped.sum())


def correct(
    labels: ArrayLike,
    pred_probs: ArrayLike,
    delta: ArrayLike = 0.9,
    *,
    classes: Sequence[Any] | None = None,
    normalize: bool = False,
) -> Correction:
    """LRT-Correction (Procedure 1 of Zheng et al. 2020).

    >>> result = correct(["cat", "dog"], [[0.9, 0.1], [0.8, 0.2]], delta=0.9)
    >>> result.labels.tolist(), result.ratio.round(2).tolist()
    (['cat', 'cat'], [1.0, 0.25])
    """
    f = check_pred_probs(pred_probs, normalize=normalize)
    given = encode_labels(labels, f.shape[1], classes)
    check_same_length(given.codes, f)
    decision = ThresholdRule.create(delta, f.shape[1]).decide(given.codes, f)
    new = np.where(decision.flipped, decision.suggested, given.codes)
    return Correction(
        labels=given.decode(new),
        ratio=decision.ratio,
        flipped=decision.flipped,
        suggested=given.decode(decision.suggested),
    )

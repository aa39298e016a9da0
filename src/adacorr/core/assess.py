"""How far to trust labels that a network corrected while it was trained on them.

Such a network is surer of its labels than it should be, so its own probabilities say little about
them. What it says about rows that were held out is honest, and their given labels are as noisy as
the others. So, without the truth:

1. The noise T is counted on the held-out rows, predicted against given class, and shrunk as in the
   automatic rule: too much noise, as the network's errors are in it.
2. A temperature and a bias per class make the held-out labels most likely, given T; then T is
   renewed from what that says of the held-out rows. A few turns settle both.
3. With them, every row gets P(true = final label | x, given), as in :mod:`adacorr.core.posterior`.

Nobody can tell from noisy labels whether the network is as reliable on the rows that it was trained
on. Labels that were kept although they are wrong are underestimated: it was taught to agree with
them. ``benchmarks/assess.py`` prints stated against true numbers: with few held-out rows and few
wrong changes the stated number is too high rather than too low.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adacorr.core.calibration import Array, log_features, maximise, posterior, softmax
from adacorr.core.noise import uniform
from adacorr.core.posterior import (
    MAX_MATRIX_CLASSES,
    MIN_ROWS,
    PosteriorRule,
    shrunk_transition,
)
from adacorr.core.sampling import sample_rows

MAX_CLASSES = 1000  # above, a (K, K) matrix is too much for an estimate on the side
TURNS = 4
_HELD_OUT_ELEMENTS = 2_000_000
_CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Assessment:
    """What :func:`assess` found.

    Attributes
    ----------
    confidence : (N,) estimated P(the final label is right).
    held_out : rows that the network was calibrated on.
    """

    confidence: NDArray[np.float64]
    held_out: int

    def expected_wrong(self, rows: NDArray[np.bool_]) -> float:
        """How many labels of these rows are expected to be wrong."""
        return float((1 - self.confidence[rows]).sum())


def assess(
    given: NDArray[np.int64],
    final: NDArray[np.int64],
    pred_probs: NDArray[np.floating],
    held_out: tuple[NDArray[np.int64], NDArray[np.floating]],
    *,
    same_noise: bool = True,
) -> Assessment | None:
    """Estimate which final labels are right; None with too few held-out rows or too many classes.

    Parameters
    ----------
    given, final : (N,) class indices before and after training.
    pred_probs : (N, K) of the network as it was when the final labels were made.
    held_out : labels and (M, K) predictions of rows that it was not trained on.
    same_noise : the held-out labels are as noisy as the given ones. If not (they may be clean), T
        for the given ones is counted on the final labels against them.
    """
    k = pred_probs.shape[1]
    labels, probs = held_out
    if len(labels) < MIN_ROWS or k > MAX_CLASSES:
        return None
    rows = sample_rows(len(labels), max(MIN_ROWS, _HELD_OUT_ELEMENTS // k))
    rule = _calibrated(labels[rows], probs[rows])
    if not same_noise:
        rule = replace(rule, T=_transition(_counts(final, given, k)))
    confidence = np.empty(len(given))
    step = max(1, _CHUNK_ELEMENTS // k)
    for start in range(0, len(given), step):
        part = slice(start, start + step)
        p = rule.posterior(given[part], pred_probs[part])
        confidence[part] = p[np.arange(len(p)), final[part]]
    return Assessment(confidence, len(labels))


def _counts(true: NDArray[np.int64], given: NDArray[np.int64], k: int) -> Array:
    return np.bincount(true * k + given, minlength=k * k).reshape(k, k).astype(np.float64)


def _transition(counts: Array) -> Array:
    """T from (K, K) counts [true, given]; one rate for many classes."""
    k = len(counts)
    if k <= MAX_MATRIX_CLASSES:
        return shrunk_transition(counts, trust=0.0)
    return uniform(k, min(float(1 - np.trace(counts) / counts.sum()), 1 - 1 / k))


def _calibrated(labels: NDArray[np.int64], probs: NDArray[np.floating]) -> PosteriorRule:
    """The map and the noise that fit the held-out rows."""
    features = log_features(probs)
    one_hot = np.zeros_like(features.T)
    one_hot[np.arange(len(labels)), labels] = 1.0
    T = _transition(_counts(probs.argmax(axis=1), labels, len(features)))
    fit = maximise(labels, features, T, prior=None, ridge=None)
    for _ in range(TURNS - 1):
        T = _transition(posterior(softmax(fit.logits(features)), T, labels)[0] @ one_hot)
        fit = maximise(labels, features, T, prior=None, ridge=None, start=fit)
    return PosteriorRule(T, fit.weight, fit.bias)

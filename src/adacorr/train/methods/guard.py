"""Do no harm: labels are left alone while they look better than the net."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from adacorr.core.correct import fit_rule
from adacorr.core.sampling import sample_rows, sample_size


def expected_right(labels: Tensor, corrected: Tensor, pred_probs: Tensor) -> tuple[float, float]:
    """The expected share of right labels before and after a correction.

    Both are read off the posterior P(true | x, given) of the automatic rule (``delta="auto"``),
    fitted to the current labels. A net that has learnt too little explains few of them; the fit
    then takes its word for little, and most flips for wrong.
    """
    rows = sample_rows(len(labels), sample_size(pred_probs.shape[1]))
    before, after = labels.cpu().numpy()[rows], corrected.cpu().numpy()[rows]
    f = pred_probs.double().cpu().numpy()[rows]
    p = fit_rule(before, f).posterior(before, f)  # type: ignore[attr-defined]
    place = np.arange(len(rows))
    return float(p[place, before].mean()), float(p[place, after].mean())

"""How much noise there is, without clean labels: for methods that must be told."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from adacorr.core.transition import estimate_transition


def estimate_noise_rate(labels: Tensor, pred_probs: Tensor) -> float:
    """Share of wrong labels among the samples that the net is sure of (confident joint).

    Our choice for Co-teaching and MentorNet. Predictions must come from before memorising starts:
    later they repeat the given labels and the rate comes out as zero.

    >>> import torch
    >>> f = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    >>> estimate_noise_rate(torch.tensor([0, 0, 1, 1]), f)
    0.25
    """
    found = estimate_transition(labels.cpu().numpy(), pred_probs.double().cpu().numpy())
    if found.counts.sum() == 0:
        return 0.0
    return round(1 - float(np.average(np.diag(found.T), weights=found.counts)), 6)

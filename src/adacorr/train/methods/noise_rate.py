"""How much noise there is, without clean labels: for methods that must be told."""

from __future__ import annotations

import numpy as np
import torch
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


def surest_noise_rate(labels: Tensor, pred_probs: Tensor) -> Tensor:
    """Share of labels that differ from the argmax, where the net is surest.

    Looks at the surer half of the samples of each predicted class: there the net itself is seldom
    wrong, so what it disagrees with is mostly noise.

    >>> import torch
    >>> f = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.6, 0.4]])
    >>> surest_noise_rate(torch.tensor([0, 1, 1, 1]), f).item()
    0.5
    """
    sure, best = pred_probs.double().max(dim=1)
    order = (best + (1 - sure) / 2).argsort(stable=True)  # by class, the surest first
    counts = best.bincount(minlength=pred_probs.shape[1])
    first, of = counts.cumsum(0) - counts, best[order]
    place = torch.arange(len(of), device=of.device) - first[of]
    half = (counts + 1) // 2
    wrong = (labels[order] != of) & (place < half[of])
    return (wrong * counts[of] / half[of]).mean().to(pred_probs)

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


def disagreement(labels: Tensor, pred_probs: Tensor, part: int) -> tuple[float, float]:
    """Share of labels that are not the argmax: of all, and of the surest one in `part`."""
    sure, best = pred_probs.max(dim=1)
    wrong = (best != labels).double()
    surest = sure.argsort(descending=True, stable=True)[: max(1, len(sure) // part)]
    return wrong.mean().item(), wrong[surest].mean().item()


def surest_counts(labels: Tensor, pred_probs: Tensor) -> Tensor:
    """(K, K) given labels (columns) of the surest fifth of the samples of each predicted class.

    There the net itself is seldom wrong, so the rows show the noise and not what the net confuses.
    The predictions must be of labels that the net did not learn from: where it is surest, it learns
    by heart first.

    >>> import torch
    >>> sure = torch.tensor([0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.6, 0.6, 0.6])
    >>> f = torch.stack([sure, 1 - sure], dim=1)
    >>> surest_counts(torch.tensor([0, 1, 0, 0, 1, 1, 1, 1, 1, 1]), f).tolist()
    [[1, 1], [0, 0]]
    """
    k = pred_probs.shape[1]
    sure, best = pred_probs.max(dim=1)
    order = (best + (1 - sure.double()) / 2).argsort(stable=True)  # by class, the surest first
    counts, of = best.bincount(minlength=k), best[order]
    place = torch.arange(len(of), device=of.device) - (counts.cumsum(0) - counts)[of]
    surest = place < (counts // 5).clamp_min(1)[of]
    cell = of[surest] * k + labels[order][surest]
    return cell.bincount(minlength=k * k).view(k, k)


def surest_noise_rate(labels: Tensor, pred_probs: Tensor) -> Tensor:
    """Share of labels that differ from the argmax, in the fifth that the net is surest of.

    Noise may spare the classes that the net is surest of. So the fifth is also taken within each
    predicted class (:func:`surest_counts`); as there it reaches into classes that the net knows
    badly, it counts less a standard error. The larger of the two is the rate.

    >>> import torch
    >>> sure = torch.tensor([0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.6, 0.6, 0.6])
    >>> f = torch.stack([sure, 1 - sure], dim=1)
    >>> surest_noise_rate(torch.tensor([0, 1, 0, 0, 1, 1, 1, 1, 1, 1]), f).item()
    0.5
    """
    _, overall = disagreement(labels, pred_probs, part=5)
    counts = surest_counts(labels, pred_probs).double()
    n = counts.sum(dim=1).clamp_min(1)
    share = (counts.sum(dim=1) - counts.diagonal()) / n
    error = (torch.maximum(share * (1 - share), 0.25 / n) / n).sqrt()
    predicted = pred_probs.argmax(dim=1).bincount(minlength=len(n))
    by_class = ((share - error).clamp_min(0) * predicted).sum() / len(labels)
    return by_class.clamp_min(overall).to(pred_probs)

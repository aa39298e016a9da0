"""How much noise there is, without clean labels: for methods that must be told."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from adacorr.core.transition import estimate_transition

FIRST_PART = 5  # the surest fifth
FEW = 20  # samples of half a part, below which it is not halved
CLEARLY = 2.5  # standard errors
SURE = 0.8  # as far beyond chance as it is right


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


def part_without_errors(wrong: Tensor) -> int:
    """One in how many samples shows how many labels are wrong, and no errors of the net.

    `wrong` says where net and label disagree, the surest sample first. The surer a net is, the less
    it errs, while wrong labels are as frequent there as anywhere. So while the surer half of a part
    disagrees clearly less than the other half, errors of the net are in it: the surest fifth is
    halved until that is no longer so, or few are left.

    >>> import torch
    >>> labels_alone = torch.arange(4000) % 3 == 0
    >>> and_the_net = labels_alone | ((torch.arange(4000) >= 400) & (torch.arange(4000) % 3 == 1))
    >>> part_without_errors(labels_alone), part_without_errors(and_the_net)
    (5, 10)
    """
    part = FIRST_PART
    while (half := len(wrong) // (2 * part)) >= FEW:
        inner, outer = (w.double().mean().item() for w in wrong[: 2 * half].split(half))
        mean = (inner + outer) / 2
        error = (2 * max(mean * (1 - mean), 0.25 / half) / half) ** 0.5
        if outer - inner <= CLEARLY * error:
            break
        part *= 2
    return part


def surest_part(labels: Tensor, pred_probs: Tensor) -> int:
    """:func:`part_without_errors` of all classes together."""
    sure, best = pred_probs.max(dim=1)
    return part_without_errors((best != labels)[sure.argsort(descending=True, stable=True)])


def class_places(pred_probs: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) place among the samples of the same predicted class, the surest 0, and their number."""
    sure, best = pred_probs.max(dim=1)
    order = (best + (1 - sure.double()) / 2).argsort(stable=True)  # by class, the surest first
    counts, of = best.bincount(minlength=pred_probs.shape[1]), best[order]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(of), device=of.device) - (counts.cumsum(0) - counts)[of]
    return place, counts[best]


def sure_as_right(labels: Tensor, pred_probs: Tensor) -> bool:
    """Whether the net has learnt what it can of the fifth that it is surest of, in each class.

    Cross-entropy makes a net as sure as it is right. One that has just begun is right no more often
    than by chance, then far more often than it says, and many of its errors are of that time alone.
    """
    (sure, best), (place, number) = pred_probs.max(dim=1), class_places(pred_probs)
    surest, chance = place * FIRST_PART < number, 1 / pred_probs.shape[1]
    right = (best == labels)[surest].double().mean().item() - chance
    certain = right > 4 * (chance * (1 - chance) / int(surest.sum())) ** 0.5
    return certain and sure[surest].mean().item() - chance >= SURE * right


def surest_counts(labels: Tensor, pred_probs: Tensor) -> Tensor:
    """(K, K) given labels (columns) of the surest samples of each predicted class.

    There the net itself is seldom wrong, so the rows show the noise and not what the net confuses:
    a fifth of each class, or less (:func:`part_without_errors`, all classes alike). The predictions
    must be of labels that the net did not learn from: where it is surest, it learns by heart first.

    >>> import torch
    >>> sure = torch.tensor([0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.6, 0.6, 0.6])
    >>> f = torch.stack([sure, 1 - sure], dim=1)
    >>> surest_counts(torch.tensor([0, 1, 0, 0, 1, 1, 1, 1, 1, 1]), f).tolist()
    [[1, 1], [0, 0]]
    """
    k, best = pred_probs.shape[1], pred_probs.argmax(dim=1)
    place, number = class_places(pred_probs)
    part = part_without_errors((best != labels)[(place / number).argsort(stable=True)])
    surest = place < (number // part).clamp_min(1)
    cell = best[surest] * k + labels[surest]
    return cell.bincount(minlength=k * k).view(k, k)


def surest_noise_rate(labels: Tensor, pred_probs: Tensor) -> Tensor:
    """Share of labels that differ from the argmax where the net is surest: in a fifth, or less.

    Noise may spare the classes that the net is surest of. So the surest are also taken within each
    predicted class (:func:`surest_counts`); as there they reach into classes that the net knows
    badly, it counts less a standard error. The larger of the two is the rate.

    >>> import torch
    >>> sure = torch.tensor([0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.6, 0.6, 0.6])
    >>> f = torch.stack([sure, 1 - sure], dim=1)
    >>> surest_noise_rate(torch.tensor([0, 1, 0, 0, 1, 1, 1, 1, 1, 1]), f).item()
    0.5
    """
    _, overall = disagreement(labels, pred_probs, surest_part(labels, pred_probs))
    counts = surest_counts(labels, pred_probs).double()
    n = counts.sum(dim=1).clamp_min(1)
    share = (counts.sum(dim=1) - counts.diagonal()) / n
    error = (torch.maximum(share * (1 - share), 0.25 / n) / n).sqrt()
    predicted = pred_probs.argmax(dim=1).bincount(minlength=len(n))
    by_class = ((share - error).clamp_min(0) * predicted).sum() / len(labels)
    return by_class.clamp_min(overall).to(pred_probs)

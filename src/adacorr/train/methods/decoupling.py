"""Decoupling (Malach & Shalev-Shwartz 2017, "Decoupling 'when to update' from 'how to update'",
NeurIPS)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.validation import check_number
from adacorr.train.methods.base import Method, Step


def decoupling_loss(first: Tensor, second: Tensor, labels: Tensor, least: float) -> Tensor:
    """Both nets' cross-entropy where their argmaxes differ, over max(`least` B, their number)."""
    differ = (first.argmax(dim=1) != second.argmax(dim=1)).to(first.dtype)
    scale = differ.sum().clamp_min(least * len(labels))
    losses = [F.cross_entropy(z, labels, reduction="none") for z in (first, second)]
    return sum((differ * loss).sum() for loss in losses) / scale


@dataclass
class Decoupling(Method):
    """Two nets; a sample counts only while they disagree on it.

    Attributes
    ----------
    least : a batch with few disagreements is divided by this share of its size instead.
    """

    name: ClassVar[str] = "decoupling"
    twins: ClassVar[bool] = True

    least: float = 0.1

    def __post_init__(self) -> None:
        check_number(self.least, "least", above=0, at_most=1)

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        return [make_net(n_classes), make_net(n_classes)]

    def loss(self, step: Step) -> Tensor:
        first, second = step.logits
        return decoupling_loss(first, second, step.labels, self.least)

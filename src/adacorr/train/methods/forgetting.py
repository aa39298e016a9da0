"""Forgetting: dropout before the classifier (Arpit et al. 2017, "A closer look at memorization in
deep networks", ICML)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.validation import check_number
from adacorr.train.methods.base import Method, Step


@dataclass
class Forgetting(Method):
    """Cross-entropy on the given labels; dropout slows memorising more than learning.

    The source fixes neither the rate nor the place. Ours: before the last linear layer, and off
    whenever the net is evaluated.

    Attributes
    ----------
    dropout : share of features dropped in training.
    """

    name: ClassVar[str] = "forgetting"

    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_number(self.dropout, "dropout", at_least=0, below=1)

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        from adacorr.train.nets import with_dropout

        return [with_dropout(make_net(n_classes), self.dropout)]

    def loss(self, step: Step) -> Tensor:
        return F.cross_entropy(step.logits[0], step.labels)

"""Standard training: cross-entropy on the given labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from adacorr.train.methods.base import Method, Step


@dataclass
class Standard(Method):
    """The reference that every robust method is measured against."""

    name: ClassVar[str] = "standard"

    def loss(self, step: Step) -> Tensor:
        return F.cross_entropy(step.logits[0], step.labels)

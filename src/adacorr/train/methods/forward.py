"""Forward correction (Patrini et al. 2017, "Making deep neural networks robust to label noise: a
loss correction approach", CVPR)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from adacorr.train.methods.parts.transition_stage import NeedsTransition


def forward_loss(logits: Tensor, labels: Tensor, T: Tensor) -> Tensor:
    """Mean of ``-log (T^t p)_label``: what the net says about the *given* label, through T."""
    noisy = logits.softmax(dim=1) @ T
    # a T with zeros can give a label probability 0; the floor keeps the loss finite
    return -noisy.gather(1, labels[:, None]).clamp_min(1e-12).log().mean()


@dataclass
class Forward(NeedsTransition):
    """Cross-entropy between the given label and the net's prediction pushed through T.

    The net itself then estimates the clean posterior. How T is estimated when it is not given is
    the source's (anchor points); the length of that first stage is our choice.
    """

    name: ClassVar[str] = "forward"

    def corrected(self, logits: Tensor, labels: Tensor) -> Tensor:
        return forward_loss(logits, labels, self._T)

"""Backward correction (Patrini et al. 2017, "Making deep neural networks robust to label noise: a
loss correction approach", CVPR)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adacorr.train.methods.parts.transition_stage import NeedsTransition


def backward_loss(logits: Tensor, labels: Tensor, inverse: Tensor) -> Tensor:
    """Mean of ``sum_j (T^-1)[label, j] (-log p_j)``: unbiased for the clean loss, may be < 0."""
    return -(inverse[labels] * logits.log_softmax(dim=1)).sum(dim=1).mean()


@dataclass
class Backward(NeedsTransition):
    """The loss of every class, weighted so that noise cancels in expectation.

    A T that cannot be inverted is replaced by its pseudo-inverse (our choice; the source mixes T
    with the identity by hand).

    The loss has no lower bound. Where T overstates the noise, even its mean over the noise falls
    for ever as the net grows surer, and training ends in ruin; with T too low it only corrects too
    little. With the true T the mean is bounded, but not the loss on the samples at hand, so long
    training overfits.
    """

    name: ClassVar[str] = "backward"

    def _set(self, T: Tensor) -> None:
        super()._set(T)
        self._inverse = torch.linalg.pinv(T.double()).to(T)

    def corrected(self, logits: Tensor, labels: Tensor) -> Tensor:
        return backward_loss(logits, labels, self._inverse)

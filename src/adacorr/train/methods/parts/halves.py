"""Two nets, two halves: each net's word on labels that it did not learn from.

What a net says of its own training labels is worth little once it begins to learn them by heart.
While two nets train side by side, each on half of the samples, both still see every batch: the one
that does not learn from a sample predicts it, and every sample has a prediction from outside, at no
cost in passes.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Halves:
    """Which net learns from which sample: at random, half of each class to either."""

    def __init__(self, labels: Tensor) -> None:
        shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        by_class = shuffled[labels.cpu()[shuffled].argsort(stable=True)]
        half = torch.empty_like(by_class)
        half[by_class] = torch.arange(len(labels)) % 2
        self._half = half.to(labels.device)

    def weight(self, index: Tensor, net: int) -> Tensor:
        """(B,) what a sample counts for a net: 2 or 0, 1 on average."""
        return 2.0 * (self._half[index] == net)

    def unseen(self, first: Tensor, second: Tensor, index: Tensor) -> Tensor:
        """(B, K) of the two nets' probabilities, those of the one that does not learn the row."""
        return torch.where((self._half[index] == 0)[:, None], second, first)

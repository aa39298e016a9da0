"""Mixup (Zhang et al. 2018): convex combinations of samples and of their targets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mix:
    """``weight a + (1 - weight) a[partner]``, the same for inputs and targets."""

    partner: Tensor  # (B,) rows of the batch
    weight: float

    @classmethod
    def draw(cls, n: int, alpha: float, generator: torch.Generator) -> Mix:
        """A partner for each of `n` rows and one weight of Beta(alpha, alpha), at least a half.

        Of a row and its partner the row itself counts more (Berthelot et al. 2019), so that its
        place in the batch still says what it is.
        """
        a, b = (_gamma(alpha, generator) for _ in range(2))
        weight = a / max(a + b, 1e-30)
        return cls(torch.randperm(n, generator=generator), max(weight, 1 - weight))

    def __call__(self, a: Tensor) -> Tensor:
        return self.weight * a + (1 - self.weight) * a[self.partner.to(a.device)]


def _gamma(alpha: float, generator: torch.Generator) -> float:
    """One draw of Gamma(alpha, 1) by Marsaglia and Tsang (2000), from a generator of ours."""
    boost = 1.0
    if alpha < 1:
        boost = float(torch.rand((), generator=generator)) ** (1 / alpha)
        alpha += 1
    d = alpha - 1 / 3
    while True:
        z = float(torch.randn((), generator=generator))
        v = (1 + z / (9 * d) ** 0.5) ** 3
        u = float(torch.rand((), generator=generator))
        if v > 0 and torch.tensor(max(u, 1e-30)).log().item() < z * z / 2 + d - d * v + d * (
            torch.tensor(v).log().item()
        ):
            return boost * d * v


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Mean of ``-sum_c target_c log p_c``."""
    return -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()

"""A perceptron for tables."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Normalised hidden layers over raw columns.

    The columns of a table come in their own units, so the first layer is a batch normalisation
    without scale and shift: it standardises them by running means and variances, which the
    weights file then carries. Flattens inputs of any shape.

    Parameters
    ----------
    n_classes, inputs : outputs, and numbers per sample.
    hidden : widths of the hidden layers.
    """

    def __init__(self, n_classes: int, inputs: int, hidden: tuple[int, ...] = (128, 128)) -> None:
        super().__init__()
        self.standardise = nn.BatchNorm1d(inputs, eps=1e-8, affine=False)
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(inputs, size, bias=False), nn.BatchNorm1d(size), nn.ReLU()]
            inputs = size
        self.hidden = nn.Sequential(*layers)
        self.classifier = nn.Linear(inputs, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        # Heavy tails are common in tables: one huge value must not drown the others.
        x = torch.clamp(self.standardise(x.flatten(1)), -10, 10)
        return self.classifier(self.hidden(x))

"""PointNet (Qi et al. 2017) for the classification of point clouds."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


def _shared(*sizes: int) -> nn.Sequential:
    """One perceptron applied to every point: 1x1 convolutions, each normalised and rectified."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Conv1d(inputs, outputs, 1, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


def _dense(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class TNet(nn.Module):
    """Predicts a (k, k) matrix from a cloud (B, k, P); the identity before training."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.points = _shared(k, 64, 128, 1024)
        self.dense = _dense(1024, 512, 256)
        self.matrix = nn.Linear(256, k * k)
        nn.init.zeros_(self.matrix.weight)
        with torch.no_grad():
            self.matrix.bias.copy_(torch.eye(k).flatten())

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.points(x).amax(dim=2)
        return self.matrix(self.dense(pooled)).view(-1, self.k, self.k)


class PointNet(nn.Module):
    """Input transform, shared perceptrons, maximum over the points, classifier.

    Parameters
    ----------
    n_classes : outputs.
    feature_transform : also align the 64 features of each point, as in the full model. Its
        orthogonality penalty is not added to the loss: a net here is a map to logits.
    dropout : before the last layer, as in the paper (there: 0.3 dropped).

    The input is (B, P, 3); the order of the points does not matter.
    """

    def __init__(
        self, n_classes: int, feature_transform: bool = False, dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.input_transform = TNet(3)
        self.local = _shared(3, 64, 64)
        self.feature_transform = TNet(64) if feature_transform else None
        self.deep = _shared(64, 64, 128, 1024)
        self.dense = _dense(1024, 512, 256)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(256, n_classes)

    def forward(self, points: Tensor) -> Tensor:
        aligned = points @ self.input_transform(points.transpose(1, 2))
        x = self.local(aligned.transpose(1, 2))
        if self.feature_transform is not None:
            x = (x.transpose(1, 2) @ self.feature_transform(x)).transpose(1, 2)
        x = self.deep(x).amax(dim=2)
        return self.classifier(self.dropout(self.dense(x)))

"""A small convolutional net for a CPU: a second for ten thousand 28x28 images."""

from __future__ import annotations

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Two normalised 3x3 convolutions, a hidden layer, a classifier.

    Parameters
    ----------
    n_classes : outputs.
    channels, height, width : of the images.
    filters : channels of the first convolution; the second has twice as many.
    hidden : width of the hidden layer.

    Images of 16 pixels or more are halved by each convolution, smaller ones by the second alone;
    images of more than 32 are pooled to 8x8 before the hidden layer.
    """

    def __init__(
        self,
        n_classes: int,
        channels: int,
        height: int,
        width: int,
        filters: int = 32,
        hidden: int = 128,
    ) -> None:
        super().__init__()
        first = 2 if min(height, width) >= 16 else 1
        self.features = nn.Sequential(
            nn.Conv2d(channels, filters, 3, stride=first, padding=1, bias=False),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            nn.Conv2d(filters, 2 * filters, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(2 * filters),
            nn.ReLU(),
        )
        sides = [_halved(_halved(side, first), 2) for side in (height, width)]
        self.pool = nn.Identity()
        if max(sides) > 8:
            sides = [min(side, 8) for side in sides]
            self.pool = nn.AdaptiveAvgPool2d((sides[0], sides[1]))
        self.hidden = nn.Sequential(
            nn.Flatten(), nn.Linear(2 * filters * sides[0] * sides[1], hidden), nn.ReLU()
        )
        self.classifier = nn.Linear(hidden, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.hidden(self.pool(self.features(x))))


def _halved(side: int, stride: int) -> int:
    return (side + 1) // 2 if stride == 2 else side

"""Pre-activation residual networks (He et al. 2016, "Identity mappings in deep residual networks").

Every block normalises and rectifies *before* each convolution, the sum is left untouched, and one
last normalisation and rectification come before the pooling. Where a block changes the shape, its
1x1 shortcut sees the pre-activated input, as in the paper's code. The stem is a 3x3 convolution
without pooling, for small images.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from adacorr.core.validation import InputError


class BasicBlock(nn.Module):
    """Two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = _conv3(inputs, width, stride)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = _conv3(width, width, 1)
        self.shortcut = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        out = self.conv1(active)
        out = self.conv2(F.relu(self.norm2(out)))
        return out + (x if self.shortcut is None else self.shortcut(active))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; four times the width comes out."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = _conv3(width, width, stride)
        self.norm3 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.shortcut = _shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        out = self.conv1(active)
        out = self.conv2(F.relu(self.norm2(out)))
        out = self.conv3(F.relu(self.norm3(out)))
        return out + (x if self.shortcut is None else self.shortcut(active))


def _conv3(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Conv2d | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)


class PreActResNet(nn.Module):
    """A stem, stages of blocks that halve the image and double the width, a linear classifier.

    Parameters
    ----------
    block : `BasicBlock` or `Bottleneck`.
    blocks : how many blocks in each stage.
    width : channels of the stem and the first stage.
    n_classes, channels : outputs of the classifier, and channels of the images.

    The input is (B, channels, H, W).
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        blocks: Sequence[int],
        width: int,
        n_classes: int,
        channels: int = 3,
    ) -> None:
        super().__init__()
        self.stem = _conv3(channels, width, 1)
        layers: list[nn.Module] = []
        inputs = width
        for stage, count in enumerate(blocks):
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                layers.append(block(inputs, width << stage, stride))
                inputs = (width << stage) * block.expansion
        self.blocks = nn.Sequential(*layers)
        self.norm = nn.BatchNorm2d(inputs)
        self.classifier = nn.Linear(inputs, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm(self.blocks(self.stem(x))))
        return self.classifier(out.mean(dim=(2, 3)))


STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


def preact_resnet(
    n_classes: int, depth: int = 34, width: int | None = None, channels: int = 3
) -> PreActResNet:
    """A pre-activation ResNet by its depth.

    Depths 18, 34 and 50 have four stages that start at width 64. Any depth 6 n + 2 (8, 14, 20, 32,
    ...) has three stages of n basic blocks, from width 16 unless given: He et al.'s family for
    CIFAR.

    >>> sum(p.numel() for p in preact_resnet(10, depth=18).parameters())
    11172170
    """
    blocks = STAGES.get(check_depth(depth), ((depth - 2) // 6,) * 3)
    block = Bottleneck if depth == 50 else BasicBlock
    return PreActResNet(
        block, blocks, width or (64 if depth in STAGES else 16), n_classes, channels
    )


def check_depth(depth: int) -> int:
    """A depth that the family has."""
    if depth not in STAGES and (depth < 8 or (depth - 2) % 6):
        raise InputError(f"depth: expected 18, 34, 50 or 6 n + 2 (8, 14, 20, ...), got {depth}")
    return depth

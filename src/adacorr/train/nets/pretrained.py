"""ResNet-50 with pretrained weights, through the optional ``transformers`` package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from adacorr.core.validation import InputError

DEFAULT = "microsoft/resnet-50"


class Pretrained(nn.Module):
    """A pretrained ResNet trunk and a fresh linear classifier; images (B, 3, H, W) -> logits.

    Grey images are repeated over the three channels.
    """

    def __init__(self, trunk: nn.Module, features: int, n_classes: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.classifier = nn.Linear(features, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        return self.classifier(self.trunk(x).pooler_output.flatten(1))


def pretrained_resnet(n_classes: int, weights: str = DEFAULT) -> Pretrained:
    """The trunk from `weights`: a folder, or a name in the user's Hugging Face cache.

    Nothing is downloaded and no pickle is read: the weights must be there as safetensors.
    """
    try:
        from transformers import ResNetModel
    except ImportError:
        raise InputError(
            "resnet50-pretrained: expected the package transformers, got none; "
            "pip install 'adacorr[pretrained]'"
        ) from None
    try:
        trunk: Any = ResNetModel.from_pretrained(
            weights, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError) as error:
        place = "that folder" if Path(weights).exists() else "the Hugging Face cache"
        raise InputError(
            f"resnet50-pretrained: expected config.json and model.safetensors of {weights} in "
            f"{place}, got none; fetch them with: huggingface-cli download {DEFAULT}, "
            "or name a folder: resnet50-pretrained:weights=FOLDER"
        ) from error
    return Pretrained(trunk, trunk.config.hidden_sizes[-1], n_classes)

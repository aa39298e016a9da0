"""Images through a pretrained net."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.encoders import efficientnet
from adacorr.cleaning.encoders.encoded import Vectors
from adacorr.cleaning.encoders.hub import load_pretrained
from adacorr.cleaning.samples import pixels
from adacorr.core.validation import InputError

BATCH = 32  # images in memory at a time
SIDE = 112
"""Pixels on a side; 224 takes five times as long."""
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
DEFAULT = "efficientnet-lite0"


class ImageEncoder:
    """``encode`` reads, turns upright, resizes and encodes images; one that fails is all zeros.

    Parameters
    ----------
    net : (B, 3, side, side) float tensors, normalised with `scaling` (ImageNet's mean and
        deviation unless a model says otherwise) -> (B, D).
    """

    fitted = False

    def __init__(
        self, name: str, net: Callable[[Any], Any], side: int, scaling: Any = (MEAN, DEVIATION)
    ) -> None:
        self.name, self.side, self._net = f"images {name} {side}", side, net
        self._mean, self._deviation = (np.asarray(part, np.float32) for part in scaling)
        self.dimension = self._forward(np.zeros((1, side, side, 3), np.uint8)).shape[1]
        self._asked = name

    def __reduce__(self) -> Any:
        """Workers of a cluster make their own: a net is found by its name, there as here."""
        return image_encoder, (self._asked,)

    def fit(self, content: Sequence[Any]) -> None: ...

    def encode(self, content: Sequence[Any]) -> Vectors:
        """(B, D) features, and which images could be read."""
        out = np.zeros((len(content), self.dimension), np.float32)
        readable = np.zeros(len(content), bool)
        batches = [range(s, min(s + BATCH, len(content))) for s in range(0, len(content), BATCH)]
        with ThreadPoolExecutor(1) as ahead:  # reads the next batch while this one is encoded
            coming = ahead.submit(self._read, content, batches[0]) if batches else None
            for number, rows in enumerate(batches):
                assert coming is not None
                images, good = coming.result()
                if number + 1 < len(batches):
                    coming = ahead.submit(self._read, content, batches[number + 1])
                readable[rows.start : rows.stop] = good
                if good.any():
                    out[rows.start : rows.stop][good] = self._forward(images[good])
        return Vectors(out, readable)

    def _read(self, content: Sequence[Any], rows: range) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        images = np.zeros((len(rows), self.side, self.side, 3), np.uint8)
        good = np.zeros(len(rows), bool)
        for place, row in enumerate(rows):
            try:
                images[place], good[place] = pixels(content[row], self.side), True
            except InputError:
                continue
        return images, good

    def _forward(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        import torch

        scaled = (images.astype(np.float32) / 255 - self._mean) / self._deviation
        x = torch.from_numpy(scaled).permute(0, 3, 1, 2)  # channels last: 2.5 times as fast
        with torch.inference_mode():
            return np.asarray(self._net(x).flatten(1), np.float32)


def image_encoder(name: str | None) -> ImageEncoder:
    """EfficientNet-Lite0 by default; ``package.module:factory``; or a transformers model.

    A factory returns a callable from images to (B, D) features, as `ImageEncoder` takes them.
    """
    if name is None or name == DEFAULT:
        return ImageEncoder(DEFAULT, efficientnet.load(), SIDE)
    module, colon, factory = name.partition(":")
    if colon and "/" not in name:
        return ImageEncoder(name, _made(module, factory), SIDE)
    prepare, net = load_pretrained(name, "AutoImageProcessor", "AutoModel")
    mean, deviation = getattr(prepare, "image_mean", None), getattr(prepare, "image_std", None)
    scaling = (mean or MEAN, deviation or DEVIATION)
    return ImageEncoder(name, lambda x: _pooled(net(pixel_values=x)), _side(prepare), scaling)


def _made(module: str, factory: str) -> Callable[[Any], Any]:
    try:
        net = getattr(import_module(module), factory)()
    except (ImportError, AttributeError) as error:
        raise InputError(f"encoder: expected package.module:factory, got {error}") from error
    return net.eval() if hasattr(net, "eval") else net


def _pooled(out: Any) -> Any:
    """One row per image, however the model says it: pooled, tokens (first), or a feature map."""
    found = getattr(out, "pooler_output", None)
    if found is not None:
        return found
    states = out.last_hidden_state
    return states[:, 0] if states.ndim == 3 else states.mean(dim=(2, 3))


def _side(prepare: Any) -> int:
    size = getattr(prepare, "crop_size", None) or getattr(prepare, "size", None) or {}
    sides = [v for v in dict(size).values() if isinstance(v, int)] if size else []
    return int(sides[0]) if sides else 224

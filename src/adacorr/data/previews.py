"""What one sample looks like: a small picture, or its columns as text."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.data.dataset import Dataset

SIDE = 128
"""Pictures are at most this many pixels on a side; tiny ones are enlarged."""


@dataclass(frozen=True)
class Preview:
    """``image`` is a PNG or None; ``fields`` are names and values to show beside it."""

    image: bytes | None = None
    fields: dict[str, str] = field(default_factory=dict)


def preview(dataset: Dataset, i: int, side: int = SIDE) -> Preview:
    """Sample `i` as a thumbnail (images, point clouds) or as the text of its columns (tables).

    Pictures are at most `side` pixels on a side.

    >>> from adacorr.data import load
    >>> seen = preview(load("digits").train, 0)
    >>> seen.image[1:4], seen.fields
    (b'PNG', {'sample': '0'})
    """
    fields = {"sample": str(i if dataset.ids is None else dataset.ids[i])}
    sample = np.asarray(dataset.features[i])
    if sample.ndim == 3 and sample.dtype == np.uint8:
        return Preview(picture(sample, side), fields)
    if sample.ndim == 2 and sample.shape[1] == 3:
        return Preview(picture(_project(sample), side), fields)
    names = dataset.feature_names or tuple(f"column {j}" for j in range(sample.size))
    values = sample.ravel()
    for name, value in zip(names, values, strict=True):
        if "=" not in name:
            fields[name] = f"{float(value):g}"
        elif value:  # of a text column only the level that holds
            column, _, level = name.partition("=")
            fields[column] = level
    return Preview(None, fields)


def picture(pixels: NDArray[np.uint8], side: int) -> bytes:
    """(H, W, C) pixels as PNG, at most `side` on a side, tiny ones enlarged."""
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    longest = max(image.size)
    if longest > side:
        image.thumbnail((side, side))
    elif longest <= side // 2:
        step = side // longest
        image = image.resize(
            (image.width * step, image.height * step), resample=3
        )  # bicubic: squares are hard to see as a shape
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _project(cloud: NDArray[Any]) -> NDArray[np.uint8]:
    """A cloud seen from the front and a little above: nearer points are darker."""
    finite = cloud[np.isfinite(cloud).all(axis=1)].astype(np.float64)
    canvas = np.full((SIDE, SIDE, 1), 255, np.uint8)
    if not len(finite):
        return canvas
    centred = finite - finite.mean(axis=0)
    centred /= max(float(np.abs(centred).max()), 1e-12)
    turn, lift = np.deg2rad(30), np.deg2rad(20)
    x = centred[:, 0] * np.cos(turn) + centred[:, 2] * np.sin(turn)
    depth = -centred[:, 0] * np.sin(turn) + centred[:, 2] * np.cos(turn)
    y = centred[:, 1] * np.cos(lift) - depth * np.sin(lift)
    column = np.clip((x * 0.6 + 1) * SIDE / 2, 0, SIDE - 1).astype(int)
    row = np.clip((1 - y * 0.6) * SIDE / 2, 0, SIDE - 1).astype(int)
    shade = np.clip(110 - 70 * depth, 0, 200).astype(np.uint8)
    order = np.argsort(depth)  # nearest last
    canvas[row[order], column[order], 0] = shade[order]
    return canvas

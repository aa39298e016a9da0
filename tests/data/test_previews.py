from __future__ import annotations

import io

import numpy as np
from PIL import Image

from adacorr.data import Dataset, from_arrays, preview


def picture(png: bytes | None) -> np.ndarray:
    assert png is not None
    return np.asarray(Image.open(io.BytesIO(png), formats=("PNG",)))


def test_small_images_are_enlarged_smoothly() -> None:
    ramp = np.linspace(0, 240, 28).astype(np.uint8)
    x = np.stack([np.tile(ramp, (28, 1))] * 2)
    shown = picture(preview(from_arrays(x, [0, 1]), 1).image).astype(int)
    assert shown.shape == (112, 112)
    steps = np.diff(shown, axis=1)
    assert 0 < steps.max() <= 4  # 9 between two pixels of the image, and no edge between them
    assert abs(shown.mean() - x[1].mean()) < 1


def test_large_images_are_reduced() -> None:
    x = np.zeros((2, 300, 200, 3), np.uint8)
    assert picture(preview(from_arrays(x, [0, 1]), 0).image).shape == (128, 85, 3)


def test_clouds_become_pictures(rng) -> None:
    data = from_arrays(rng.normal(size=(2, 500, 3)), [0, 1])
    shown = picture(preview(data, 0).image)
    assert shown.shape == (128, 128)
    assert 100 < (shown < 255).sum() <= 500
    broken = Dataset("x", np.full((1, 4, 3), np.nan, np.float32), np.zeros(1, np.int64), ("a", "b"))
    assert (picture(preview(broken, 0).image) == 255).all()
    point = Dataset("x", np.ones((1, 4, 3), np.float32), np.zeros(1, np.int64), ("a", "b"))
    assert (picture(preview(point, 0).image) < 255).any()


def test_rows_become_text() -> None:
    data = Dataset(
        "people",
        np.array([[30, 0, 1], [40.5, 1, 0]], np.float32),
        np.array([0, 1]),
        ("a", "b"),
        ids=np.array([7, 9]),
        feature_names=("age", "colour=blue", "colour=red"),
    )
    seen = preview(data, 1)
    assert seen.image is None
    assert seen.fields == {"sample": "9", "age": "40.5", "colour": "blue"}
    assert preview(from_arrays([[1, 2], [3, 4]], [0, 1]), 0).fields["column 1"] == "2"

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
REAL = os.environ.get("ADACORR_DATA")


@pytest.mark.parametrize(
    ("name", "folder", "suffix"),
    [
        ("mnist", "MNIST/raw", ".gz"),
        ("fashion_mnist", "FashionMNIST/raw", ".gz"),
        ("mnist", "mnist", ""),
    ],
)
def test_reads_the_official_files(root: Path, write_idx, rng, name, folder, suffix) -> None:
    x = rng.integers(0, 256, (6, 28, 28), dtype=np.uint8)
    y = np.array([5, 0, 4, 1, 9, 2])
    for file, array in zip(FILES, (x, y, x[:2], y[:2]), strict=True):
        write_idx(root / folder / (file + suffix), array)
    parts = load(name)
    assert np.array_equal(np.asarray(parts.train.features)[..., 0], x)
    assert parts.train.labels.tolist() == y.tolist()
    assert parts.train.truth is not None
    assert parts.train.truth.tolist() == y.tolist()
    assert parts.test is not None
    assert len(parts.test) == 2
    assert parts.validation is None
    assert parts.train.n_classes == 10


def test_missing_files_are_named_with_their_checksums(root: Path, write_idx) -> None:
    write_idx(root / "MNIST/raw" / f"{FILES[0]}.gz", np.zeros((1, 28, 28)))
    with pytest.raises(InputError) as error:
        load("mnist")
    told = str(error.value)
    assert "train-images" not in told
    assert "train-labels-idx1-ubyte.gz (md5:d53e105ee54ea40749a09fcbcd1e9432)" in told
    assert "t10k-images-idx3-ubyte.gz (md5:9fb629c4189551a2d022fa330f9573f3)" in told
    assert str(root / "MNIST/raw") in told
    assert told.endswith("run: adacorr data get mnist")
    assert "\n" not in told


@pytest.mark.skipif(not REAL, reason="ADACORR_DATA is not set: no real files to read")
@pytest.mark.parametrize(
    ("name", "mean"), [("mnist", 0.13066), ("fashion_mnist", 0.28604)], ids=["mnist", "fashion"]
)
def test_the_real_files(monkeypatch: pytest.MonkeyPatch, name: str, mean: float) -> None:
    monkeypatch.setenv("ADACORR_DATA", str(REAL))
    parts = load(name, paper_split=name == "mnist")
    images = np.asarray(parts.train.features)
    assert parts.test is not None
    if name == "mnist":
        assert parts.validation is not None
        assert (len(parts.train), len(parts.validation), len(parts.test)) == (45_000, 5_000, 10_000)
        assert parts.train.ids is not None
        assert parts.validation.ids is not None
        assert not set(parts.train.ids.tolist()) & set(parts.validation.ids.tolist())
        assert abs(images.mean() / 255 - mean) < 1e-3
    else:
        assert images.shape == (60_000, 28, 28, 1)
        assert np.bincount(parts.train.labels).tolist() == [6000] * 10
        assert abs(images.mean() / 255 - mean) < 1e-5

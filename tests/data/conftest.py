"""Small files in the true formats."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data root and an empty cache, so no test sees the machine's own data."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ADACORR_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def write_idx() -> Callable[[Path, Any], None]:
    def write(path: Path, array: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
        raw += array.astype(np.uint8).tobytes()
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)

    return write


@pytest.fixture
def encode_png() -> Callable[[Any], bytes]:
    def encode(pixels: Any) -> bytes:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "PNG")
        return out.getvalue()

    return encode


@pytest.fixture
def image_folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Two classes of three 6 x 5 colour images each."""
    folder = tmp_path / "photos"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(0, 256, (6, 5, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder

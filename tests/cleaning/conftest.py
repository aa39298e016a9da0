"""Small data of every kind, with wrong labels among it."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

WORDS = {
    "fruit": ["apple", "pear", "plum", "cherry", "grape", "peach", "melon", "juice", "peel"],
    "music": ["song", "violin", "drum", "chorus", "piano", "concert", "rhythm", "flute", "note"],
    "sea": ["wave", "tide", "harbour", "sail", "boat", "anchor", "coast", "storm", "deck"],
}


@pytest.fixture(scope="session")
def texts():
    """300 texts of three classes, 15% of the labels wrong: (texts, given, truth)."""
    rng = np.random.default_rng(0)
    names = sorted(WORDS)
    truth = np.array([names[i % 3] for i in range(300)])
    made = [" ".join(rng.choice(WORDS[name], 9)) + f" number {rng.integers(99)}" for name in truth]
    given = truth.copy()
    for row in rng.choice(300, 45, replace=False):
        given[row] = names[(names.index(truth[row]) + 1) % 3]
    return made, given, truth


@pytest.fixture
def photos(tmp_path):
    """A folder of two classes with 24 pictures each: red on dark, and stripes."""
    rng = np.random.default_rng(0)
    for name in ("plain", "striped"):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for i in range(24):
            pixels = rng.integers(0, 60, (40, 50, 3)).astype(np.uint8)
            pixels[:, :, 0] += 150
            if name == "striped":
                pixels[:, :: rng.integers(3, 6)] = 250
            Image.fromarray(pixels).save(folder / f"{i:02}.png")
    return tmp_path / "photos"

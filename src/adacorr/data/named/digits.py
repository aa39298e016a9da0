"""scikit-learn's digits: 1,797 images of 8x8, always there."""

from __future__ import annotations

from typing import Any

import numpy as np

from adacorr.data.dataset import Dataset, Splits

TEST_SIZE = 360
_SEED = 0  # the split is part of the dataset, so it does not follow the user's seed


def load_digits() -> Splits:
    """1,437 training and 360 test images by one fixed permutation; grey levels 0 .. 255."""
    from sklearn.datasets import load_digits as bundled

    raw: Any = bundled()
    images = np.rint(raw["images"] * (255 / 16)).astype(np.uint8)[:, :, :, None]
    labels = raw["target"].astype(np.int64)
    names = tuple(str(digit) for digit in range(10))
    whole = Dataset("digits", images, labels, names, truth=labels)
    order = np.random.default_rng(_SEED).permutation(len(whole))
    return Splits(
        train=whole.take(np.sort(order[TEST_SIZE:])), test=whole.take(np.sort(order[:TEST_SIZE]))
    )

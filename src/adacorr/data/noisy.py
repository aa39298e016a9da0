"""Labels made wrong on purpose, to try a method out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from adacorr.core.noise import inject, parse
from adacorr.core.streams import NOISE, numbers
from adacorr.data.dataset import Dataset


def with_noise(
    data: Dataset, noise: str | None, seed: int
) -> tuple[Dataset, NDArray[np.int64] | None]:
    """The data as training sees it, and the true classes where they are known.

    Noise is put on the truth where the source knows it, else on its labels, which then are the
    truth. None leaves the labels as they are.

    >>> data = Dataset("toy", np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1]), ("a", "b"))
    >>> noisy, truth = with_noise(data, "pair:0.5", seed=1)
    >>> noisy.labels.tolist(), truth.tolist()
    ([0, 1, 1, 0], [0, 1, 0, 1])
    """
    if noise is None:
        return data, data.truth
    truth = data.labels if data.truth is None else data.truth
    labels = inject(truth, parse(noise, data.n_classes), numbers(seed, NOISE))
    return replace(data, labels=labels, truth=None), truth

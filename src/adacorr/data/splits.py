"""Parts of a dataset by seeded permutations, and the paper's sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset, Splits


@dataclass(frozen=True)
class Sizes:
    """Training, validation and test sizes of the paper's section 5."""

    train: int
    validation: int
    test: int


PAPER: dict[str, Sizes] = {
    "mnist": Sizes(45_000, 5_000, 10_000),
    "cifar10": Sizes(45_000, 5_000, 10_000),
    "cifar100": Sizes(45_000, 5_000, 10_000),
    "modelnet40": Sizes(8_859, 984, 2_468),
}
"""The test parts are the official ones.

Of MNIST the paper counts 60,000 images in all, though the official release has 60,000 for training
alone. Here training and validation are the first 45,000 and the next 5,000 of the seeded
permutation of the official training part, and its other 10,000 images are not used.
"""


def subset(data: Dataset, size: int, seed: int) -> Dataset:
    """The first `size` samples of a seeded permutation, kept in the source's order.

    >>> import numpy as np
    >>> from adacorr.data.dataset import Dataset
    >>> data = Dataset("toy", np.zeros((9, 2), np.float32), np.arange(9) % 2, ("a", "b"))
    >>> len(subset(data, 4, seed=1)), subset(data, 4, seed=1).ids.tolist() == sorted(
    ...     np.random.default_rng(1).permutation(9)[:4].tolist())
    (4, True)
    """
    if not 1 <= size <= len(data):
        raise InputError(f"subset: expected a size in [1, {len(data)}], got {size}")
    return data.take(np.sort(np.random.default_rng(seed).permutation(len(data))[:size]))


def paper_split(splits: Splits, seed: int) -> Splits:
    """The paper's training, validation and test parts of a named dataset.

    The validation labels are as given by the source; whoever injects noise into the training part
    and wants a noisy validation part injects it there as well.
    """
    name = splits.train.name
    if name not in PAPER:
        raise InputError(f"paper split: expected one of {', '.join(PAPER)}, got {name}")
    sizes = PAPER[name]
    wanted = sizes.train + sizes.validation
    n = len(splits.train)
    train, validation = sizes.train, sizes.validation
    if n < wanted:  # the hdf5 release of ModelNet40 lacks three training models
        validation = max(1, round(n * sizes.validation / wanted))
        train = n - validation
    order = np.random.default_rng(seed).permutation(n)
    return Splits(
        splits.train.take(np.sort(order[:train])),
        splits.train.take(np.sort(order[train : train + validation])),
        splits.test,
    )

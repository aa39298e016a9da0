from __future__ import annotations

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset, Splits
from adacorr.data.splits import PAPER, paper_split, subset


def dataset(n: int, name: str = "toy") -> Dataset:
    return Dataset(name, np.arange(n)[:, None], np.arange(n) % 2, ("a", "b"))


def test_subset_is_the_start_of_the_seeded_permutation() -> None:
    data = dataset(100)
    part = subset(data, 10, seed=3)
    assert part.ids is not None
    assert set(part.ids) == set(np.random.default_rng(3).permutation(100)[:10])
    assert (np.diff(part.ids) > 0).all()
    larger = subset(data, 20, seed=3)
    assert larger.ids is not None
    assert set(part.ids) < set(larger.ids)
    other = subset(data, 10, seed=4)
    assert other.ids is not None
    assert set(other.ids) != set(part.ids)


@pytest.mark.parametrize("size", [0, -1, 101])
def test_subset_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=r"subset: expected a size in \[1, 100\]"):
        subset(dataset(100), size, seed=0)


@pytest.mark.parametrize(
    ("name", "n", "sizes"),
    [
        ("mnist", 60_000, (45_000, 5_000)),
        ("cifar10", 50_000, (45_000, 5_000)),
        ("cifar100", 50_000, (45_000, 5_000)),
        ("modelnet40", 9_843, (8_859, 984)),
        ("modelnet40", 9_840, (8_856, 984)),
    ],
)
def test_the_papers_sizes(name: str, n: int, sizes: tuple[int, int]) -> None:
    test = dataset(PAPER[name].test, name)
    parts = paper_split(Splits(dataset(n, name), test=test), seed=1)
    assert parts.validation is not None
    assert (len(parts.train), len(parts.validation)) == sizes
    assert parts.test is test
    assert parts.train.ids is not None
    assert parts.validation.ids is not None
    assert not set(parts.train.ids) & set(parts.validation.ids)
    again = paper_split(Splits(dataset(n, name)), seed=1)
    assert again.train.ids is not None
    assert np.array_equal(parts.train.ids, again.train.ids)


def test_the_paper_has_no_split_of_other_data() -> None:
    with pytest.raises(InputError, match="expected one of mnist, cifar10"):
        paper_split(Splits(dataset(10)), seed=0)

import numpy as np
import pytest
from scipy.stats import chisquare

from adacorr.core import noise
from adacorr.core.validation import InputError


@pytest.mark.parametrize(
    "T",
    [noise.uniform(5, 0.4), noise.pair(5, 0.3), noise.class_map(5, {0: 3, 2: 2}, 0.25)],
    ids=["uniform", "pair", "map"],
)
def test_rows_are_stochastic(T):
    np.testing.assert_allclose(T.sum(axis=1), 1)
    assert (T >= 0).all()


def test_the_released_maps():
    """Spot checks of the pairs listed for the released code."""
    expect = {
        "mnist": [(7, 1), (2, 7), (5, 6), (6, 5), (3, 8)],
        "cifar10": [(9, 1), (2, 0), (3, 5), (5, 3), (4, 7)],
        "cifar100": [(0, 1), (3, 4), (4, 0), (9, 5), (99, 95), (50, 51)],
        "modelnet40": [(3, 9), (12, 33), (33, 12), (23, 33), (36, 33), (30, 3), (1, 29), (38, 14)],
    }
    sizes = {"mnist": (10, 5), "cifar10": (10, 5), "cifar100": (100, 100), "modelnet40": (40, 15)}
    for name, pairs in expect.items():
        k, moved = sizes[name]
        T = noise.parse(f"map:{name}:0.4", k)
        for source, target in pairs:
            assert T[source, target] == pytest.approx(0.4)
            assert T[source, source] == pytest.approx(0.6)
        assert (np.diag(T) < 1).sum() == moved


def test_inject_reproduces_T_in_frequency():
    rng = np.random.default_rng(0)
    T = rng.dirichlet(np.ones(4), 4)
    true = rng.integers(0, 4, 40_000)
    given = noise.inject(true, T, rng)
    for c in range(4):
        counts = np.bincount(given[true == c], minlength=4)
        assert chisquare(counts, T[c] * counts.sum()).pvalue > 1e-4


def test_inject_never_draws_the_impossible():
    true = np.repeat(np.arange(6), 5000)
    given = noise.inject(true, noise.pair(6, 0.5), 1)
    assert set(np.unique((given - true) % 6)) == {0, 1}


def test_inject_repeats_with_its_seed_and_leaves_its_input():
    true = np.arange(1000) % 3
    T = noise.uniform(3, 0.5)
    first, second = noise.inject(true, T, 7), noise.inject(true, T, np.random.default_rng(7))
    np.testing.assert_array_equal(first, second)
    assert (noise.inject(true, T, 8) != first).any()
    np.testing.assert_array_equal(true, np.arange(1000) % 3)


def test_inject_equals_inverse_transform_sampling_by_hand():
    T = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.1, 0.2, 0.7]])
    true = np.array([0, 2, 1, 0, 2, 2, 0])
    draws = np.random.default_rng(3).random(7)
    expected = [
        next(j for j in range(3) if u < T[y, : j + 1].sum())
        for y, u in zip(true, draws, strict=True)
    ]
    assert noise.inject(true, T, 3).tolist() == expected


def test_inject_keeps_the_kind_of_labels():
    given = noise.inject(["cat", "dog"], [[0, 1], [1, 0]], 0)
    assert given.tolist() == ["dog", "cat"]
    given = noise.inject(["dog"], [[0, 1], [1, 0]], 0, classes=["cat", "dog"])
    assert given.tolist() == ["cat"]


def test_instance_dependent_noise_depends_on_x():
    rng = np.random.default_rng(0)
    x, true = rng.standard_normal((4000, 5)), rng.integers(0, 3, 4000)
    P = noise.instance_dependent(x, true, 3, 0.3, 1)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    keep = P[np.arange(4000), true]
    assert 1 - keep.mean() == pytest.approx(0.3, abs=0.01)
    same = noise.instance_dependent(x, true, 3, 0.3, 1)
    np.testing.assert_array_equal(P, same)
    given = noise.inject(true, P, 2)
    assert (given != true).mean() == pytest.approx(0.3, abs=0.03)
    share = P[true == 0][:, 1] / (1 - keep[true == 0])  # the target varies with x
    assert share.std() > 0.1


def test_instance_dependent_with_an_absent_class():
    P = noise.instance_dependent(np.ones((3, 2)), [0, 1, 0], 3, 0.2, 0)
    np.testing.assert_allclose(P.sum(axis=1), 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: noise.uniform(1, 0.2),
        lambda: noise.uniform(3, 1.2),
        lambda: noise.pair(0, 0.2),
        lambda: noise.class_map(3, {0: 5}, 0.2),
        lambda: noise.parse("uniform:lots", 3),
        lambda: noise.parse("map:nowhere:0.2", 3),
        lambda: noise.parse("pair", 3),
        lambda: noise.inject([0, 1], np.full((3, 2), 0.5), 0),
        lambda: noise.inject([0, 1, 1], [[0.5, 0.5], [0.5, 0.5], [0.9, 0.5]], 0),
        lambda: noise.inject([0, 5], noise.uniform(3, 0.1), 0),
        lambda: noise.instance_dependent(np.ones((2, 2)), [0, 1, 0], 3, 0.2, 0),
    ],
)
def test_bad_input(make):
    with pytest.raises(InputError, match="expected"):
        make()

"""Limits for sampled sets: exact on small cases, and valid at whatever moment one stops."""

import numpy as np
import pytest

from adacorr.core import sequences
from adacorr.core.sequences import Part, least_marked, most_marked
from adacorr.core.validation import InputError

ALPHA = 0.05
REPETITIONS = 2000
LOOKS = (20, 30, 50, 80, 120, 200, 320, 500)


def test_one_part_equals_a_search_over_all_numbers():
    rng = np.random.default_rng(0)
    for _ in range(100):
        size = int(rng.integers(1, 3000))
        seen = int(rng.integers(1, size + 1))
        part = Part(size, seen, int(rng.binomial(seen, rng.random() ** 3)))
        numbers = np.arange(part.marked, size - seen + part.marked + 1).astype(np.int64)
        bets = sequences._bet(part, numbers)
        assert most_marked([part], ALPHA) == numbers[bets < -np.log(ALPHA)].max()


def test_two_parts_equal_a_search_over_all_pairs():
    rng = np.random.default_rng(1)
    for _ in range(25):
        parts = []
        for size in rng.integers(1, 250, 2).tolist():
            seen = int(rng.integers(1, size + 1))
            parts.append(Part(size, seen, int(rng.binomial(seen, rng.random() ** 3))))
        numbers = [np.arange(p.marked, p.size - p.seen + p.marked + 1).astype(int) for p in parts]
        bets = sequences._bet_on_two(parts, numbers)
        sums = numbers[0][:, None] + numbers[1]
        assert most_marked(parts, ALPHA) == sums[bets < -np.log(ALPHA)].max()


def test_a_coarse_grid_only_ever_makes_the_limit_larger(monkeypatch):
    parts = [Part(15_000, 133, 20), Part(85_000, 267, 3)]
    coarse = most_marked(parts, ALPHA)
    monkeypatch.setattr(sequences, "_GRID", 1500)
    fine = most_marked(parts, ALPHA)
    assert fine <= coarse <= 1.005 * fine


def test_everything_seen_leaves_no_guess():
    parts = [Part(30, 30, 4), Part(50, 50, 1)]
    assert most_marked(parts, ALPHA) == least_marked(parts, ALPHA) == 5
    assert most_marked([Part(7)], ALPHA) == 7
    assert most_marked([Part(7), Part(30, 30, 4), Part(50, 50, 1)], ALPHA) == 12
    assert least_marked([Part(7)], ALPHA) == 0


def test_more_answers_and_less_confidence_make_the_limit_smaller():
    limits = [most_marked([Part(10_000, n, 0.02 * n)], ALPHA) for n in (50, 100, 500, 5000)]
    assert limits == sorted(limits, reverse=True)
    assert most_marked([Part(10_000, 50, 1)], 0.2) < most_marked([Part(10_000, 50, 1)], 0.01)
    assert (
        least_marked([Part(10_000, 500, 50)], ALPHA)
        < 1000
        < most_marked([Part(10_000, 500, 50)], ALPHA)
    )


def test_a_billion_rows_are_no_work():
    limit = most_marked([Part(10**8, 133, 20), Part(9 * 10**8, 267, 3)], ALPHA)
    assert 10**7 < limit < 10**8


def test_impossible_parts_are_refused():
    with pytest.raises(InputError, match="expected marked <= seen <= size"):
        Part(10, 5, 6)
    with pytest.raises(InputError, match="at most 2"):
        most_marked([Part(5, 1)] * 3, ALPHA)


# --- simulations ------------------------------------------------------------------------------


def sampled(rng, size, marked, n):
    """(REPETITIONS, n) cumulative counts of marked rows in random orders of a set."""
    order = np.empty((REPETITIONS, n), dtype=bool)
    left = np.full(REPETITIONS, marked)
    for i in range(n):  # the next of size - i rows, of which `left` are marked
        order[:, i] = rng.random(REPETITIONS) * (size - i) < left
        left -= order[:, i]
    return order.cumsum(axis=1)


def worst_count(size, seen, marked, shrink):
    """The largest count whose limit, made smaller by a factor, lies below the true number."""
    low, high = -1, seen  # limits grow with the count
    while low < high:
        middle = (low + high + 1) // 2
        missed = shrink * most_marked([Part(size, seen, middle)], ALPHA) < marked
        low, high = (middle, high) if missed else (low, middle - 1)
    return low


def misses_whenever_one_stops(size, marked, shrink=1.0, n=500):
    """Share of repetitions in which the limit is below the truth at any of 20 to n rows."""
    paths = sampled(np.random.default_rng(size + marked), size, marked, min(n, size))
    looks = np.arange(20, paths.shape[1] + 1)
    border = np.array([worst_count(size, int(k), marked, shrink) for k in looks])
    return (paths[:, looks - 1] <= border).any(axis=1).mean()


@pytest.mark.parametrize(
    ("size", "marked"),
    [(2000, 1000), (2000, 300), (5000, 100), (20_000, 100), (20_000, 4), (600, 30), (600, 0)],
)
def test_the_limit_holds_when_one_stops_at_the_best_moment(size, marked):
    # three standard errors of 2,000 repetitions above the level
    assert misses_whenever_one_stops(size, marked) <= ALPHA + 3 * (ALPHA / REPETITIONS) ** 0.5


@pytest.mark.parametrize(("size", "marked"), [(2000, 1000), (2000, 300), (5000, 100), (600, 30)])
def test_a_limit_shrunk_by_a_fifth_would_be_found_out(size, marked):
    assert misses_whenever_one_stops(size, marked, 0.8) > ALPHA + 3 * (ALPHA / REPETITIONS) ** 0.5


def pair_misses(sizes, marked, shrink=1.0):
    """The same for two sets together at some moments, two rows of one to one of the other."""
    rng = np.random.default_rng(sum(sizes) + sum(marked))
    ns = [[max(1, 2 * k // 3), max(1, k // 3)] for k in LOOKS]
    ns = [[min(n, size) for n, size in zip(pair, sizes, strict=True)] for pair in ns]
    paths = [sampled(rng, s, m, n) for s, m, n in zip(sizes, marked, ns[-1], strict=True)]
    missed = np.zeros(REPETITIONS, dtype=bool)
    for a, b in ns:
        counts = np.stack([paths[0][:, a - 1], paths[1][:, b - 1]], axis=1)
        combinations, where = np.unique(counts, axis=0, return_inverse=True)
        limits = [
            most_marked([Part(sizes[0], a, i), Part(sizes[1], b, j)], ALPHA)
            for i, j in combinations.tolist()
        ]
        missed |= (shrink * np.array(limits) < sum(marked))[where.ravel()]
    return missed.mean()


CASES = [((500, 4500), (100, 0)), ((500, 4500), (50, 90)), ((1500, 3500), (300, 350))]


@pytest.mark.parametrize(("sizes", "marked"), [*CASES, ((100, 9900), (0, 0)), ((300, 700), (3, 2))])
def test_the_limit_of_two_sets_holds_when_one_stops_at_the_best_moment(sizes, marked, monkeypatch):
    monkeypatch.setattr(sequences, "_GRID", 64)  # conservative, and fast
    assert pair_misses(sizes, marked) <= ALPHA + 3 * (ALPHA / REPETITIONS) ** 0.5


def test_a_limit_of_two_sets_shrunk_by_a_fifth_would_be_found_out(monkeypatch):
    monkeypatch.setattr(sequences, "_GRID", 64)
    sizes, marked = (400, 600), (150, 180)
    assert pair_misses(sizes, marked) <= ALPHA
    assert pair_misses(sizes, marked, 0.8) > ALPHA + 3 * (ALPHA / REPETITIONS) ** 0.5

"""Which rows are asked: the same whoever computes them, random inside a stratum, and stable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacorr.core.asking import AGREED, DISPUTED, Queue, ask, is_disputed, order_key, turns
from adacorr.core.validation import InputError


def example(n=300, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.dirichlet(np.ones(4) * 0.3, n)
    labels = np.where(rng.random(n) < 0.7, f.argmax(axis=1), rng.integers(0, 4, n))
    return labels, f


def test_strata_take_turns_as_documented():
    first = turns(1000, 1000, 200)
    assert (first[:60] == DISPUTED).sum() == 40
    assert (first[60:180] == DISPUTED).sum() == 40
    assert turns(3, 1000, 50)[:5].tolist() == [DISPUTED, DISPUTED, AGREED, DISPUTED, AGREED]
    assert (turns(0, 10, 50) == AGREED).all()
    assert len(turns(0, 10, 50)) == 10
    assert np.bincount(turns(5, 7, 12)).tolist() == [5, 7]


def test_every_row_is_asked_once_and_in_the_same_order_in_any_pass():
    labels, f = example()
    whole = ask(labels, f, n=1000)
    assert sorted(whole) == list(range(300))
    answered, order = {}, []
    while len(rows := ask(labels, f, n=37, verified=answered)):
        order.extend(rows.tolist())
        answered |= {int(row): int(labels[row]) for row in rows}
    assert order == whole.tolist()


def test_rows_answered_elsewhere_are_skipped():
    labels, f = example()
    whole = ask(labels, f, n=60).tolist()
    rows = ask(labels, f, n=20, verified={whole[3]: 1, whole[7]: "cannot tell"})
    assert rows.tolist() == [row for i, row in enumerate(whole) if i not in (3, 7)][:20]


def test_seeds_give_other_orders_and_a_generator_is_refused():
    labels, f = example()
    assert ask(labels, f, rng=0).tolist() == ask(labels, f).tolist()
    assert ask(labels, f, rng=1).tolist() != ask(labels, f).tolist()
    with pytest.raises(InputError, match="rng: expected a whole number"):
        ask(labels, f, rng=np.random.default_rng(0))  # pyright: ignore[reportArgumentType]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 120))
def test_parts_in_any_size_choose_the_rows_of_the_whole(seed, n, step):
    labels, f = example(seed=seed)
    disputed = is_disputed(labels, f)
    parts = [
        Queue.of(disputed[start : start + step], n, seed=3, first_row=start)
        for start in range(0, len(labels), step)
    ]
    merged = parts[-1]
    for part in parts[-2::-1]:
        merged = part.merge(merged)
    assert merged.next(n).tolist() == Queue.of(disputed, n, seed=3).next(n).tolist()
    assert merged.sizes == (disputed.sum(), (~disputed).sum())


def test_the_order_is_uniform():
    """Over seeds every row is as often among the first tenth as any other."""
    rows = np.arange(200)
    first = np.zeros(200)
    for seed in range(2000):
        first[np.argsort(order_key(rows, seed))[:20]] += 1
    assert abs(first - 200).max() < 5 * (2000 * 0.1 * 0.9) ** 0.5
    assert len(np.unique(order_key(np.arange(100_000)))) == 100_000


def test_several_models_count_as_their_mean():
    labels, f = example()
    _, g = example(seed=1)
    assert ask(labels, [f, g]).tolist() == ask(labels, (f + g) / 2).tolist()


def test_names_and_frames():
    rows = ask(["dog", "cat", "dog"], [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]], n=1)
    assert rows.tolist() == [0]

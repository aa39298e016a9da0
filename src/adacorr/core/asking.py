"""Which rows a person is asked about, and in which order.

Rows fall into two strata that depend on the labels and the probabilities alone, never on a rule or
on answers: *disputed*, where the most probable class is not the given label, and *agreed*. Inside
a stratum the order is random: ascending hash of (row number, seed). So the first n rows of a
stratum are a simple random sample of it (each row with probability n / size), whoever computes
them: from arrays, a stream or a cluster. Strata take turns by a fixed pattern (:func:`turns`): two
of three questions are about disputed rows up to question 60, where the rule is found, then one of
three, as what is left to learn is how many errors hide among the agreed ones. A stratum that is
exhausted, or empty, leaves its turns to the other.

The order never changes, so that answers of several passes belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.answers import encode_answers
from adacorr.core.models import mean_probs
from adacorr.core.sampling import priority
from adacorr.core.sparse import TopK
from adacorr.core.validation import check_count, check_same_length
from adacorr.labels import encode_labels

DISPUTED, AGREED = 0, 1
STRATA = ("disputed", "agreed")
FIRST = 60
"""So many questions are mostly about disputed rows."""
LAST_KEY = np.uint64(2**64 - 1)  # after every key


def is_disputed(codes: NDArray[np.int64], pred_probs: Any) -> NDArray[np.bool_]:
    """Where the most probable class (the first of ties) is not the given label.

    >>> is_disputed(np.array([0, 0]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    array([False,  True])
    """
    listed = isinstance(pred_probs, TopK)
    return (pred_probs.best()[0] if listed else pred_probs.argmax(axis=1)) != codes


def order_key(rows: NDArray[np.integer], seed: int = 0) -> NDArray[np.uint64]:
    """Rows are asked in ascending order of this; no two rows share a key.

    Hashed twice, so that the order has nothing to do with the sample that a rule is fitted on.
    """
    salt = priority(np.array([seed]))
    return priority(priority(np.asarray(rows)) ^ salt)


def check_seed(rng: int) -> int:
    """A whole number: a generator would give every pass an order of its own."""
    return check_count(rng, "rng")


def turns(n_disputed: int, n_agreed: int, count: int) -> NDArray[np.int64]:
    """The stratum of each of the first `count` questions.

    >>> turns(100, 100, 9).tolist()
    [0, 0, 1, 0, 0, 1, 0, 0, 1]
    >>> turns(1, 100, 4).tolist(), turns(100, 0, 2).tolist()
    ([0, 1, 1, 1], [0, 0])
    """
    k = np.arange(count)
    wanted = np.where(np.where(k < FIRST, k % 3 != 2, k % 3 == 2), DISPUTED, AGREED)
    # Once a stratum is exhausted the other one has all further turns.
    for stratum, size in ((DISPUTED, n_disputed), (AGREED, n_agreed)):
        over = (wanted == stratum) & (np.cumsum(wanted == stratum) > size)
        wanted[over] = 1 - stratum
    return wanted[: n_disputed + n_agreed]


@dataclass(frozen=True)
class Queue:
    """The first rows of each stratum in the order of asking; queues of parts of the rows merge.

    Attributes
    ----------
    rows, keys : of each stratum, in ascending order of the keys.
    sizes : rows in each stratum.
    limit : how many rows of a stratum are kept.
    seed : of the order.
    """

    rows: tuple[NDArray[np.int64], NDArray[np.int64]]
    keys: tuple[NDArray[np.uint64], NDArray[np.uint64]]
    sizes: tuple[int, int]
    limit: int
    seed: int

    @classmethod
    def of(
        cls, disputed: NDArray[np.bool_], limit: int, *, seed: int = 0, first_row: int = 0
    ) -> Queue:
        """Of some rows, the first of which has the number `first_row`."""
        keys = order_key(np.arange(first_row, first_row + len(disputed)), seed)
        strata = np.flatnonzero(disputed), np.flatnonzero(~disputed)
        first = [rows[_smallest(keys[rows], limit)] for rows in strata]
        return cls(
            (first[0] + first_row, first[1] + first_row),
            (keys[first[0]], keys[first[1]]),
            (len(strata[0]), len(strata[1])),
            limit,
            seed,
        )

    def merge(self, other: Queue) -> Queue:
        """Of both parts together."""
        keys = [np.concatenate(pair) for pair in zip(self.keys, other.keys, strict=True)]
        rows = [np.concatenate(pair) for pair in zip(self.rows, other.rows, strict=True)]
        first = [_smallest(key, self.limit) for key in keys]
        return Queue(
            (rows[0][first[0]], rows[1][first[1]]),
            (keys[0][first[0]], keys[1][first[1]]),
            (self.sizes[0] + other.sizes[0], self.sizes[1] + other.sizes[1]),
            self.limit,
            self.seed,
        )

    def next(self, n: int, answered: NDArray[np.int64] | Sequence[int] = ()) -> NDArray[np.int64]:
        """The next `n` rows that nobody has answered; `limit` must be n + len(answered) or more."""
        wanted = turns(*self.sizes, n + len(answered))
        order = np.empty(len(wanted), dtype=np.int64)
        for stratum, rows in enumerate(self.rows):
            places = np.flatnonzero(wanted == stratum)
            order[places] = rows[: len(places)]
        return order[~np.isin(order, np.asarray(answered, dtype=np.int64))][:n]


def _smallest(keys: NDArray[np.uint64], limit: int) -> NDArray[np.int64]:
    """Places of the `limit` smallest keys, in ascending order."""
    if limit >= len(keys):
        return np.argsort(keys)
    some = np.argpartition(keys, limit)[:limit]
    return some[np.argsort(keys[some])]


def ask(
    labels: ArrayLike,
    pred_probs: ArrayLike | Sequence[ArrayLike],
    n: int = 50,
    verified: Any = None,
    rng: int = 0,
    *,
    classes: Sequence[Any] | None = None,
) -> NDArray[np.int64]:
    """The rows to show to a person next, in the order in which to ask.

    The answers choose a rule and certify its result: ``correct(labels, pred_probs, verified=...)``.
    Ask again with the answers so far, as often as you like; every pass goes on where the last one
    stopped.

    Parameters
    ----------
    labels, pred_probs : as in :func:`adacorr.correct`; several models' probabilities are averaged.
    n : how many rows; fewer are returned when no more are left.
    verified : the answers so far: ``{row: label}``, an array with gaps, or None.
    rng : the seed of the order, the same in every pass.
    classes : names of the columns, when the labels do not tell.

    >>> labels, pred_probs = [0, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]
    >>> ask(labels, pred_probs, n=2)
    array([1, 2])
    >>> ask(labels, pred_probs, verified={1: 1})
    array([2, 0])
    """
    f, columns = mean_probs(pred_probs)
    given = encode_labels(labels, f.shape[1], classes, columns=columns)
    check_same_length(given.codes, f)
    answered = encode_answers(verified, len(f), given.codec).rows
    count = check_count(n, "n") + len(answered)
    queue = Queue.of(is_disputed(given.codes, f), count, seed=check_seed(rng))
    return queue.next(n, answered)

"""Two mistakes in what a caller passes that no later number would show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from adacorr.core.sampling import priority
from adacorr.core.sparse import TopK, first_choice, given_probs

MIN_ROWS = 200  # our choice: fewer rows seldom carry the proof that is asked for
MAX_CLASSES = 1000  # an assignment problem of this size takes a tenth of a second
PROOF = 5.0  # standard errors beyond chance
TIMES = 2.0  # as many labels must agree with the moved columns as do now
SEEN = 0.0005  # disagreement below this: the model knows each label
SEEN_MOST = 0.002  # the same, if the model itself expects clearly more
SURE = 0.02  # doubt above this is no sign that the rows were seen


def input_warnings(labels: NDArray[np.int64], f: NDArray[np.floating] | TopK) -> tuple[str, ...]:
    """What is off with labels and probabilities, a sentence each; mostly nothing.

    >>> labels = np.arange(300) % 3
    >>> input_warnings(labels, np.roll(np.eye(3) * 0.7 + 0.1, 1, axis=1)[labels])[0][:46]
    'the probabilities seem to be in another order '
    """
    if len(labels) < MIN_ROWS:
        return ()
    predicted, top = first_choice(f)
    found = (_permuted(labels, predicted, f.shape[1]), _in_sample(labels, predicted, top, f))
    return tuple(sentence for sentence in found if sentence)


def _permuted(labels: NDArray[np.int64], predicted: NDArray[np.int64], k: int) -> str:
    """Classes that the model points away from, and to each other.

    A model that is merely weak, or leans to some classes, still makes a label more likely where it
    predicts it. Where columns have changed places it makes it less likely, and that of another
    column more. The exchange is found in one half of the rows and has to hold in the other.
    """
    suspect = _less_likely(labels, predicted, k)
    if not 2 <= len(suspect) <= MAX_CLASSES:
        return ""
    place = np.full(k, -1)
    place[suspect] = np.arange(len(suspect))
    half = (priority(np.arange(len(labels))) >> np.uint64(9)) & np.uint64(1) == 0
    seen, other = (
        _counts(place[predicted[part]], place[labels[part]], len(suspect)) for part in (half, ~half)
    )
    from scipy.optimize import linear_sum_assignment

    _, goal = linear_sum_assignment(-seen)
    share = np.bincount(labels[~half], minlength=k)[suspect] / (~half).sum()
    rows = np.bincount(predicted[~half], minlength=k)[suspect]
    moved: list[int] = []
    for cycle in _cycles(goal):
        now, then = np.diag(other)[cycle].sum(), other[cycle, goal[cycle]].sum()
        chance = max(float(rows[cycle] @ share[cycle]), float(rows[cycle] @ share[goal[cycle]]))
        if then - chance > PROOF * np.sqrt(then + 1) and then > TIMES * now and now < chance:
            moved += cycle.tolist()
    if not moved:
        return ""
    return _other_order(labels, predicted, suspect[sorted(moved)], suspect[goal[sorted(moved)]])


def _less_likely(
    labels: NDArray[np.int64], predicted: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """Classes whose label is rarer where the model predicts them than elsewhere, or never there."""
    hits = np.bincount(labels[predicted == labels], minlength=k)
    rows, share = np.bincount(predicted, minlength=k), np.bincount(labels, minlength=k)
    return np.flatnonzero(hits * len(labels) <= rows * share)


def _counts(predicted: NDArray[np.int64], labels: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """(K, K) rows by predicted class and label; -1 is none of them."""
    known = (predicted >= 0) & (labels >= 0)
    keys = predicted[known] * k + labels[known]
    return np.bincount(keys, minlength=k * k).reshape(k, k)


def _cycles(goal: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The cycles of a permutation, but for what stays in its place.

    >>> [cycle.tolist() for cycle in _cycles(np.array([1, 0, 2, 4, 5, 3]))]
    [[0, 1], [3, 4, 5]]
    """
    done = np.zeros(len(goal), bool)
    for first in range(len(goal)):
        cycle = []
        while not done[first]:
            done[first] = True
            cycle.append(first)
            first = int(goal[first])
        if len(cycle) > 1:
            yield np.array(cycle)


def _other_order(
    labels: NDArray[np.int64],
    predicted: NDArray[np.int64],
    columns: NDArray[np.int64],
    classes: NDArray[np.int64],
) -> str:
    meant = predicted.copy()
    for column, name in zip(columns, classes, strict=True):
        meant[predicted == column] = name
    pairs = ", ".join(f"{c} as {g}" for c, g in zip(columns, classes, strict=True))
    shown = pairs if len(pairs) < 60 else pairs[:60].rsplit(",", 1)[0] + ", ..."
    return (
        f"the probabilities seem to be in another order than the classes: "
        f"{(predicted == labels).mean():.0%} of the labels agree as they are, "
        f"{(meant == labels).mean():.0%} with columns moved "
        f"(column {shown}); nothing is changed, check the class order"
    )


def _in_sample(
    labels: NDArray[np.int64],
    predicted: NDArray[np.int64],
    top: NDArray[np.floating],
    f: NDArray[np.floating] | TopK,
) -> str:
    """A model that has seen the labels agrees with next to all, and more than it itself expects.

    A good model on clean labels agrees with most too, but errs about as often as it says.
    """
    n, against = len(labels), int((predicted != labels).sum())
    claimed = float((1 - top).sum())
    fewer = against < claimed - PROOF * np.sqrt(claimed)
    if against > (SEEN_MOST if fewer else SEEN) * n or 1 - given_probs(labels, f).mean() > SURE:
        return ""
    return (
        "the model gives next to every label with full confidence: it may have been trained on "
        "these rows; out-of-sample probabilities are needed (for example by cross-validation)"
    )

"""Two mistakes in what a caller passes that no later number would show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_ROWS = 200
MAX_CLASSES = 1000  # an assignment problem of this size takes a tenth of a second
MOVED_ROWS = 20  # of a class; in fewer a weak model may mean another one by chance
IN_SAMPLE = 0.002  # disagreement and doubt below this: the model knows each label


def input_warnings(labels: NDArray[np.int64], f: NDArray[np.floating]) -> tuple[str, ...]:
    """What is off with labels and probabilities, a sentence each; mostly nothing.

    >>> labels = np.arange(300) % 3
    >>> input_warnings(labels, np.roll(np.eye(3) * 0.7 + 0.1, 1, axis=1)[labels])[0][:46]
    'the probabilities seem to be in another order '
    """
    if len(labels) < MIN_ROWS:
        return ()
    predicted = f.argmax(axis=1)
    found = (_permuted(labels, predicted, f.shape[1]), _in_sample(labels, predicted, f))
    return tuple(sentence for sentence in found if sentence)


def _permuted(labels: NDArray[np.int64], predicted: NDArray[np.int64], k: int) -> str:
    """Classes of which most rows agree once columns change places, and few do now."""
    if k > MAX_CLASSES:
        return ""
    counts = np.bincount(predicted * k + labels, minlength=k * k).reshape(k, k)
    now, size, own = np.trace(counts), counts.sum(axis=1), np.diag(counts)
    elsewhere = (size >= MOVED_ROWS) & (counts.max(axis=1) > 0.5 * size) & (own < 0.25 * size)
    if elsewhere.sum() < 2:  # the common case: nothing to look for
        return ""
    from scipy.optimize import linear_sum_assignment

    columns, classes = linear_sum_assignment(-counts)
    clear = elsewhere & (columns != classes) & (counts[columns, classes] > 0.5 * size)
    gain = (counts[columns, classes] - own)[clear].sum()
    if clear.sum() < 2:
        return ""
    pairs = ", ".join(f"{c} as {g}" for c, g in zip(columns[clear], classes[clear], strict=True))
    shown = pairs if len(pairs) < 60 else pairs[:60].rsplit(",", 1)[0] + ", ..."
    return (
        f"the probabilities seem to be in another order than the classes: {now / len(labels):.0%} "
        f"of the labels agree as they are, {(now + gain) / len(labels):.0%} with columns moved "
        f"(column {shown}); nothing is changed, check the class order"
    )


def _in_sample(
    labels: NDArray[np.int64], predicted: NDArray[np.int64], f: NDArray[np.floating]
) -> str:
    own = f[np.arange(len(labels)), labels]
    if (predicted != labels).mean() > IN_SAMPLE or 1 - own.mean() > IN_SAMPLE:
        return ""
    return (
        "the model gives next to every label with full confidence: it may have been trained on "
        "these rows; out-of-sample probabilities are needed (for example by cross-validation)"
    )

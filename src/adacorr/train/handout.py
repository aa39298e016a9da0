"""The labels that a user gets after training: the rule's word, and when it is not taken."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers
from adacorr.core.asking import is_disputed
from adacorr.core.certify import Tally, certify
from adacorr.correction.arrays import Correction, correct

CHANCE_ERRORS = 4  # standard errors by which a net must beat naming the largest class


@dataclass(frozen=True)
class HandOut:
    """What :func:`hand_out` decided.

    Attributes
    ----------
    correction : of the rule; where `withheld`, nothing is changed in it and what the rule would
        have changed is in ``to_review``.
    pred_probs : (N, K) that it was made from, by nets that did not learn from the row.
    withheld : why the changes of the rule are not made; empty if they are, or if there are none.
    """

    correction: Correction
    pred_probs: NDArray[np.float32]
    withheld: str


def hand_out(
    labels: NDArray[np.int64], pred_probs: NDArray[np.float32], answers: Answers | None = None
) -> HandOut:
    """The labels corrected by ``adacorr.correct``, unless that could do more harm than good.

    Parameters
    ----------
    labels : (N,) class indices as given.
    pred_probs : (N, K) by nets that did not learn from the row.
    answers : of people. They choose the rule, and their rows get their label, whatever becomes of
        the other changes.

    >>> clean = hand_out(np.arange(200) % 2, np.eye(2, dtype=np.float32)[np.arange(200) % 2])
    >>> clean.correction.n_flipped, clean.withheld
    (0, '')
    """
    said = answers or Answers.of([], [])
    found = correct(labels, pred_probs, classes=range(pred_probs.shape[1]), verified=said)
    reason = why_not(labels, pred_probs, found) if found.n_flipped else ""
    if not reason:
        return HandOut(found, pred_probs, "")
    kept = _withheld(found, labels)
    return HandOut(_answered(kept, labels, pred_probs, said) if said else kept, pred_probs, reason)


def why_not(labels: NDArray[np.int64], pred_probs: NDArray[np.floating], found: Correction) -> str:
    """Why the changes should not be made, in a sentence; empty where nothing speaks against them.

    Four ways in which they do harm: the net knows next to nothing; there may be no wrong label at
    all; there are more changes than wrong labels; about every second one is wrong by the rule's own
    account.
    """
    n, changes = len(labels), found.n_flipped
    chance = np.bincount(labels).max() / n
    right = float((pred_probs.argmax(axis=1) == labels).mean())
    if right < chance + CHANCE_ERRORS * (chance * (1 - chance) / n) ** 0.5:
        return (
            f"the net agrees with {right:.1%} of labels that it did not learn from, hardly more "
            f"than naming the largest class ({chance:.1%})"
        )
    low, high = found.noise_rate_interval or (1.0, 1.0)
    if low <= 0:
        return (
            f"between none and {high:.1%} of the labels may be wrong: it cannot be told from none"
        )
    limit = most_wrong_labels(found, n)
    if limit is not None and changes > limit:
        return f"the rule would change {changes:,} labels and supports at most {limit:,.0f}"
    wrong = found.expected_wrong_flips
    if wrong is not None and 2 * wrong >= changes:
        return f"of the {changes:,} changes about {wrong:,.0f} would be wrong, half or more"
    return ""


def most_wrong_labels(found: Correction, n: int) -> float | None:
    """How many labels may be wrong by the rule's own account: its interval's upper end, if any."""
    ends = (found.noise_rate, *(found.noise_rate_interval or ()))
    rate = max((end for end in ends if end is not None), default=None)
    if rate is None:
        return None
    return n * rate + 2 * (n * rate * (1 - min(rate, 1.0))) ** 0.5


def _withheld(found: Correction, labels: NDArray[np.int64]) -> Correction:
    """The same without its changes: they are left for a person to look at."""
    review = found.flipped if found.to_review is None else found.flipped | found.to_review
    sure = found.confidence
    if sure is not None:  # of the label that stays
        sure = np.where(found.flipped, found.ratio * sure, sure)
    missed = (
        None if found.expected_missed_errors is None or sure is None else float((1 - sure).sum())
    )
    return replace(
        found,
        labels=labels.copy(),
        flipped=np.zeros(len(labels), dtype=bool),
        to_review=review,
        confidence=sure,
        expected_wrong_flips=None if missed is None else 0.0,
        expected_wrong_flips_interval=None if missed is None else (0.0, 0.0),
        expected_missed_errors=missed,
    )


def _answered(
    kept: Correction, labels: NDArray[np.int64], pred_probs: NDArray[np.float32], said: Answers
) -> Correction:
    """With the labels that people named, and what their answers prove of leaving the rest alone."""
    known = np.isin(np.arange(len(labels)), said.definite.rows)
    new, size = said.applied(labels), kept.certificate.family_size if kept.certificate else 1
    tally = Tally.of(labels, labels, is_disputed(labels, pred_probs), said)
    return replace(
        kept,
        labels=new,
        flipped=new != labels,
        to_review=None if kept.to_review is None else kept.to_review & ~known,
        confidence=None if kept.confidence is None else np.where(known, 1.0, kept.confidence),
        certificate=certify(tally, family_size=size),
    )

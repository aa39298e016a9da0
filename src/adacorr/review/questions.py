"""Which row a person is asked about next, and what the answers so far would do."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers
from adacorr.core.asking import is_disputed
from adacorr.core.certify import Certificate, Tally, certify
from adacorr.correction.questions import queue_of_run
from adacorr.correction.rerun import RunInputs
from adacorr.review.answers import Said, as_answers
from adacorr.review.queue import LEASE_SECONDS
from adacorr.runs.reader import RunData

ELEMENTS = 1_000_000_000
"""Runs with more probabilities are asked about with ``adacorr ask``: after each answer the page
reads them all, a hundred million in some ten seconds, from the disk and in the background."""
PLANNED = 2000
"""So many questions are planned; nobody answers more in one run."""
AGAIN = 10
"""Every tenth question of a person is one that somebody, or they themselves, answered before."""
APART = 10
"""A person meets a row again after at least so many others."""


def plan(given: NDArray[np.int64], pred_probs: Any, limit: int = PLANNED) -> NDArray[np.int64]:
    """The rows to ask about, in the order of :func:`adacorr.ask`."""
    return queue_of_run(given, pred_probs, limit).next(limit)


@dataclass
class Questions:
    """Hands out rows so that people who work at once see different ones, but for double answers.

    Attributes
    ----------
    order : rows in the order of asking.
    """

    order: NDArray[np.int64]
    _holder: dict[int, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(
        self, said: Sequence[Said], client: str, person: tuple[str, str], limit: int
    ) -> list[int]:
        """The next rows for a person, who is held to them for a while."""
        answered = {one.row for one in said}
        with self._lock:
            now = time.monotonic()
            self._holder = {
                row: held
                for row, held in self._holder.items()
                if held[1] > now and held[0] != client and row not in answered
            }
            fresh = [
                row
                for row in self.order[: len(answered) + len(self._holder) + limit].tolist()
                if row not in answered and row not in self._holder
            ]
            picked = fresh[:limit]
            self._holder.update(dict.fromkeys(picked, (client, now + LEASE_SECONDS)))
        mine = [one.row for one in said if one.person == person]
        # Which place of the list the repeated row takes depends on what was answered so far only.
        place = AGAIN - 1 - len(mine) % AGAIN
        if place < limit and (again := _again(said, person, mine)) is not None:
            picked[place:place] = [again]
        return picked[:limit]


def _again(said: Sequence[Said], person: tuple[str, str], mine: list[int]) -> int | None:
    """A row that others answered and this person did not; else one of their own, once."""
    times, people = Counter(mine), defaultdict(set)
    for one in said:
        if one.row not in times:
            people[one.row].add(one.person)
    if people:  # the first of those with the fewest people
        return min(people, key=lambda row: len(people[row]))
    early = [row for row in mine[: max(0, len(mine) - APART)] if times[row] == 1]
    return early[0] if early else None


@dataclass(frozen=True)
class Outlook:
    """What would be done with the answers so far.

    Attributes
    ----------
    labels : (N,) class indices after correction, verified rows included.
    certificate : what the answers prove of them.
    answers : those that it rests on.
    note : what the rule says of itself.
    sure : (N,) how sure the rule is of each label after correction; NaN where it does not say.
    """

    labels: NDArray[np.int64]
    certificate: Certificate
    answers: Answers
    note: str = ""
    sure: NDArray[np.float64] | None = None

    def doubtful(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of the rows that no answer has settled, those first of which the rule is least
        sure."""
        sure = np.zeros(len(rows)) if self.sure is None else np.nan_to_num(self.sure[rows])
        order = np.argsort(sure, kind="stable")
        return order[~np.isin(rows[order], self.answers.definite.rows)]


def outlook_of(inputs: RunInputs, answers: Answers) -> Outlook:
    """The labels after correction, and what the answers prove of them."""
    result = inputs.correct(answers)
    labels, sure = np.asarray(result.labels, dtype=np.int64), result.confidence
    sure = result.ratio if sure is None else sure
    if result.certificate is not None:
        return Outlook(labels, result.certificate, answers, result.note, sure)
    # Nobody has answered yet: the limits before the first answer.
    given = inputs.given.codes
    tally = Tally.of(given, labels, is_disputed(given, inputs.pred_probs), answers)
    return Outlook(labels, certify(tally), answers, result.note, sure)


class Analyst:
    """Fits the rule anew whenever there are new answers, in a thread: no answer waits for it.

    Parameters
    ----------
    outlook : of some answers; takes its time.
    answers : those of now, row -> class index.
    """

    def __init__(
        self, outlook: Callable[[Answers], Outlook], answers: Callable[[], dict[int, int]]
    ) -> None:
        self._outlook, self._answers = outlook, answers
        self._changed = threading.Condition()
        self._version, self._seen = 0, -1
        self._done: Outlook | None = None
        self._problem: str | None = None
        threading.Thread(target=self._work, daemon=True).start()

    def tell(self) -> None:
        """There are new answers."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    @property
    def asked(self) -> bool:
        """Has anybody asked for an outlook, or answered?"""
        return self._version > 0

    @property
    def latest(self) -> Outlook | None:
        """The last outlook, perhaps of fewer answers than there are; None before the first."""
        return self._done

    @property
    def problem(self) -> str | None:
        """Why the rule could not be fitted to the answers; None when it could."""
        return self._problem

    @property
    def up_to_date(self) -> bool:
        return self._done is not None and self._seen == self._version

    def wait(self, seconds: float) -> Outlook | None:
        """The outlook on all answers; None when it takes longer."""
        with self._changed:
            self._changed.wait_for(lambda: self.up_to_date or self._problem, seconds)
            return self._done if self.up_to_date else None

    def _work(self) -> None:
        done = -1
        while True:
            with self._changed:
                self._changed.wait_for(lambda seen=done: self._version > max(seen, 0))
                done = self._version
            try:
                found, problem = self._outlook(as_answers(self._answers())), None
            except Exception as error:  # the page says so, and tries again at the next answer
                found, problem = None, str(error) or type(error).__name__
            with self._changed:
                self._problem = problem
                if found is not None:
                    self._done, self._seen = found, done
                self._changed.notify_all()


def too_large(data: RunData) -> str | None:
    """Why a run cannot be asked about on the page; None when it can."""
    if data.pred_probs is None:
        return "No questions: the run stores no probabilities (pred_probs.npy)."
    if data.n * data.n_classes > ELEMENTS:
        return (
            f"No questions: the page asks about up to {ELEMENTS:,} probabilities; see adacorr ask."
        )
    return None

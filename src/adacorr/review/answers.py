"""What people answered when they were asked for a label, in the same file as the decisions.

A row may have several answers: of several people, or of one who was asked again. Nothing is ever
deleted; an undo is an entry of its own. An answer is on disk before anyone is told that it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from adacorr.core.answers import CANNOT_TELL, Answers
from adacorr.core.validation import InputError
from adacorr.correction.verified import Verified
from adacorr.review.store import ACCEPT, OTHER, REJECT, Store
from adacorr.runs.imports import FILE, kept_answers
from adacorr.runs.reader import RunData

_STANDING = "undoes IS NULL AND NOT EXISTS (SELECT 1 FROM answer AS u WHERE u.undoes = answer.id)"


@dataclass(frozen=True)
class Said:
    """One answer; `label` is a class index, or None: cannot tell.

    `reviewer` is the name that is shown; `author` tells people of one name apart. `blind`: neither
    the given label nor the model's view was on screen.
    """

    row: int
    label: int | None
    reviewer: str
    author: str = ""
    blind: bool = True
    note: str = ""

    @property
    def person(self) -> tuple[str, str]:
        return self.reviewer, self.author


BROUGHT = "answers"
"""The name under which answers that were given elsewhere are counted; see `DECIDERS`."""


def brought(data: RunData) -> tuple[Said, ...]:
    """Answers that came with the run (``--verified``), or that ``adacorr import`` put into it."""
    labels: dict[int, int | None] = {}
    if "decided_by" in data.columns:
        for batch in data.batches(texts=True):
            by = np.array(batch.decided_by, dtype=object)
            for i in np.flatnonzero(by == BROUGHT).tolist():
                labels[batch.start + i] = int(batch.corrected[i])
    if kept := kept_answers(data):
        codes = {name: code for code, name in enumerate(data.run.class_names())}
        rows = {int(number): row for row, number in enumerate(data.names_of_rows()[0])}
        labels |= {rows[number]: codes.get(label) for number, label in kept.items()}
    return tuple(Said(row, label, BROUGHT, "import") for row, label in labels.items())


def brought_by(data: RunData, said: Sequence[Said]) -> dict[str, str]:
    """How many answers came from elsewhere, and when they were imported; empty without any."""
    if not said:
        return {}
    file, times = data.run.file(FILE), "with the run"
    if file.is_file():
        at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        times = f"imported {at:%Y-%m-%dT%H:%M} UTC"
    return {"people outside of the page": f"{len(said):,}, {times}"}


class AnswerLog:
    """The answers of one run; safe for threads, and for several servers on one file.

    Parameters
    ----------
    data : the run; answers that came with it or were imported count as those of one more person.
    """

    def __init__(self, store: Store, data: RunData) -> None:
        self.store, self.data = store, data
        self._brought = brought(data)
        self._seen_id, self._said = -1, ()

    def add(self, said: Said) -> None:
        """Write an answer; it is on disk when this returns."""
        with self.store.write() as db:
            _insert(db, said, None)

    def undo(self, reviewer: str, author: str) -> Said | None:
        """Take back this person's last standing answer."""
        with self.store.write() as db:
            found = db.execute(
                f"SELECT {_COLUMNS}, id FROM answer WHERE reviewer = ? AND author = ? "
                f"AND {_STANDING} ORDER BY id DESC LIMIT 1",
                (reviewer, author),
            ).fetchone()
            if found is None:
                return None
            said = self._checked(found[:-1])
            _insert(db, said, int(found[-1]))
        return said

    def standing(self) -> Sequence[Said]:
        """All answers that were not taken back, oldest first."""
        with self.store.read() as db:
            (newest,) = db.execute("SELECT COALESCE(MAX(id), 0) FROM answer").fetchone()
            if newest != self._seen_id:
                lines = db.execute(
                    f"SELECT {_COLUMNS} FROM answer WHERE {_STANDING} ORDER BY id"
                ).fetchall()
                said = map(self._checked, lines)
                self._said, self._seen_id = (*self._brought, *said), newest
            return self._said

    def people(self) -> dict[str, str]:
        """Who answered or decided how often, and when; what was not taken back."""
        with self.store.read() as db:
            said = db.execute(
                "SELECT reviewer, COUNT(*), MIN(at), MAX(at), SUM(1 - blind) FROM answer "
                f"WHERE {_STANDING} GROUP BY reviewer"
            ).fetchall()
        told = brought_by(self.data, self._brought)
        for who, count, first, last, shown in said:
            told[str(who)] = f"{count:,}, {first[:16]} to {last[:16]} UTC" + (
                f", {shown:,} with the given label and the model's view shown" if shown else ""
            )
        for who, count in self.store.counts_by_reviewer().items():
            more = f"{count:,} decided on changes"
            told[who] = f"{told[who]}; {more}" if who in told else more
        return told

    def _checked(self, line: Sequence[Any]) -> Said:
        row, label, reviewer, author, blind, note = line
        known = label is None or (isinstance(label, int) and 0 <= label < self.store.n_classes)
        if not (known and isinstance(row, int) and 0 <= row < self.data.n):
            raise InputError(
                f"{self.store.path}: expected answers about this run, got {label!r} for row {row!r}"
            )
        return Said(row, label, str(reviewer), str(author), bool(blind), str(note))


_COLUMNS = "row, label, reviewer, author, blind, note"


def _insert(db: Any, said: Said, undoes: int | None) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    db.execute(
        f"INSERT INTO answer ({_COLUMNS}, undoes, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (said.row, said.label, said.reviewer, said.author, int(said.blind), said.note, undoes, now),
    )


def settled(said: Iterable[Said]) -> dict[int, int]:
    """One class index per answered row; -1 where people could not tell, or do not agree.

    Of one person the last answer counts, and among people the one that most of them gave.

    >>> ann, bob = Said(0, 2, "Ann"), Said(0, 1, "Bob")
    >>> settled([ann, bob]), settled([ann, bob, Said(0, 1, "Ann")]), settled([Said(3, None, "Ann")])
    ({0: -1}, {0: 1}, {3: -1})
    """
    last: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    for one in said:
        last[one.row][one.person] = -1 if one.label is None else one.label
    return {row: _majority(list(votes.values())) for row, votes in last.items()}


def _majority(votes: list[int]) -> int:
    (best, count), *rest = Counter(votes).most_common()
    return -1 if rest and rest[0][1] == count else best


def verified(log: AnswerLog) -> dict[int, int]:
    """Row of the run -> class index, -1 where nobody could tell; decisions stand over answers."""
    found, store = settled(log.standing()), log.store
    state, flips = store.current(), store.flips
    for flip in np.flatnonzero(np.isin(state, (ACCEPT, REJECT, OTHER))):
        chosen = {
            ACCEPT: flips.proposed[flip],
            REJECT: flips.given[flip],
            OTHER: store.label[flip],
        }
        found[int(flips.row[flip])] = int(chosen[int(state[flip])])
    return found


def as_answers(labels: dict[int, int]) -> Answers:
    return Answers.of(list(labels), list(labels.values()))


def in_the_source(data: RunData, labels: dict[int, int]) -> Verified:
    """Answers to rows of a run, by what the source calls these rows: for another run on it."""
    names = (*data.run.class_names(), CANNOT_TELL)
    said = tuple(names[label] for label in labels.values())
    numbers, ids = data.names_of_rows()
    if ids is None or len(set(ids)) != len(numbers):  # some come twice
        return Verified(tuple(int(numbers[row]) for row in labels), said)
    column = data.section("data").get("id_column")
    by = column if isinstance(column, str) else "id"
    return Verified(tuple(ids[row] for row in labels), said, by)


@dataclass(frozen=True)
class Agreement:
    """How far double answers agree.

    Attributes
    ----------
    rows, same : rows that two or more people answered, and those on which all said the same.
    repeats : (name, rows that this person answered twice, those answered differently), for
        everybody who was asked twice.
    """

    rows: int
    same: int
    repeats: tuple[tuple[str, int, int], ...]


def agreement(said: Iterable[Said]) -> Agreement:
    """Compare the answers of several people, and of one person to the same row.

    >>> agreement([Said(0, 1, "Ann"), Said(0, 1, "Bob"), Said(4, 0, "Bob"), Said(4, 1, "Bob")])
    Agreement(rows=1, same=1, repeats=(('Bob', 1, 1),))
    """
    by_row: dict[int, dict[tuple[str, str], list[int | None]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in said:
        by_row[one.row][one.person].append(one.label)
    shared = [votes for votes in by_row.values() if len(votes) > 1]
    same = sum(len({labels[-1] for labels in votes.values()}) == 1 for votes in shared)
    twice: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for votes in by_row.values():
        for person, labels in votes.items():
            if len(labels) > 1:
                twice[person].append(len(set(labels)) > 1)
    repeats = [(person[0], len(found), sum(found)) for person, found in twice.items()]
    return Agreement(len(shared), same, tuple(sorted(repeats, key=lambda r: (-r[2], r[0]))))


def agreement_of(log: AnswerLog) -> list[str]:
    """Sentences about double answers; who contradicts themselves is named."""
    found, lines = agreement(log.standing()), []
    if found.rows:
        row = "row was" if found.rows == 1 else "rows were"
        lines.append(
            f"{found.rows:,} {row} answered by several people, {found.same:,} alike "
            f"({found.same / found.rows:.0%})."
        )
    for name, asked, differently in found.repeats:
        rows = "row" if asked == 1 else "rows"
        how = f"{differently} of them differently" if differently else "the same way each time"
        lines.append(f"{name} answered {asked} repeated {rows}, {how}.")
    return lines

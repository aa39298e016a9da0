"""Decisions in SQLite: an append-only log, on disk before anyone is told that it is saved."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.review.queue import Flips

Choice = Literal["accept", "reject", "other", "skip", "undo"]
OPEN, ACCEPT, REJECT, OTHER, SKIP = 0, 1, 2, 3, 4
"""State of a flip; a skipped one is not decided."""
STATES = {"accept": ACCEPT, "reject": REJECT, "other": OTHER, "skip": SKIP}

APPLICATION_ID = 0x61646163  # "adac": tells our file from anybody else's
SCHEMA = 4
BUSY_SECONDS = 3.0
_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE log (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        row INTEGER NOT NULL,
        choice TEXT NOT NULL CHECK (choice IN ('accept', 'reject', 'other', 'skip', 'undo')),
        label INTEGER,
        undoes INTEGER UNIQUE REFERENCES log (id),
        reviewer TEXT NOT NULL,
        at TEXT NOT NULL,
        author TEXT NOT NULL DEFAULT '',
        note TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX log_row ON log (row, id)",
    "CREATE INDEX log_reviewer ON log (reviewer, id)",
)
_ANSWER = """CREATE TABLE IF NOT EXISTS answer (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    row INTEGER NOT NULL,
    label INTEGER,
    blind INTEGER NOT NULL CHECK (blind IN (0, 1)),
    note TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES answer (id),
    reviewer TEXT NOT NULL,
    author TEXT NOT NULL,
    at TEXT NOT NULL)"""
_COPIES = {  # of what decides and is in no other index
    "log_copy": "log (choice, label, undoes)",
    "answer_copy": "answer (row, label, blind, undoes, reviewer, author)",
    "meta_copy": "meta (key, value)",
}
_STANDING = "choice != 'undo' AND NOT EXISTS (SELECT 1 FROM log AS u WHERE u.undoes = log.id)"


class Busy(InputError):
    """The file could not be written now; nothing was saved."""


@dataclass(frozen=True)
class SignOff:
    """What a reviewer said of one flip; `label` is the class for "other"."""

    flip: int
    choice: Choice
    label: int | None = None
    seen: int = 0  # the log entry that stood when the reviewer looked; 0: none
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """A decision in the log that stands."""

    id: int
    flip: int
    choice: Choice
    label: int | None
    reviewer: str


class Store:
    """The decisions of one run. Safe for threads, and for several servers on one file."""

    def __init__(self, path: Path, flips: Flips, n_classes: int) -> None:
        """Open or create the file; one clear line when it cannot be used."""
        self.path = path
        self.flips = flips
        self.n_classes = n_classes
        self.state = np.zeros(len(flips), dtype=np.int8)
        self.label = np.full(len(flips), -1, dtype=np.int64)
        self.latest = np.zeros(len(flips), dtype=np.int64)  # log id that stands; 0: none
        self._people: dict[str, int] = {}
        self._person = np.zeros(len(flips), dtype=np.int32)  # whose decision stands
        self._lock = threading.RLock()
        self._seen_id = 0
        if path.is_symlink():
            raise InputError(f"{path}: expected a file in the run directory, got a symbolic link")
        try:
            self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
            self._db.isolation_level = None  # transactions are written out below
            self._prepare()
            self.refresh()
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a complaint may quote the damage
            raise InputError(_explain(path, error)) from error

    def close(self) -> None:
        self._db.close()

    def refresh(self) -> None:
        """Take in what this and other processes have written since."""
        with self.read():
            (newest,) = self._db.execute("SELECT COALESCE(MAX(id), 0) FROM log").fetchone()
            if newest == self._seen_id:
                return
            touched = "SELECT row FROM log WHERE id > ?"
            self._forget(self._db.execute(touched, (self._seen_id,)))
            self._apply(
                self._db.execute(
                    f"SELECT id, row, choice, label, reviewer FROM log WHERE row IN ({touched}) "
                    f"AND {_STANDING} ORDER BY id",
                    (self._seen_id,),
                )
            )
            self._seen_id = int(newest)

    def current(self) -> NDArray[np.int8]:
        """The state of every flip; a copy, as others go on deciding meanwhile."""
        with self._lock:
            self.refresh()
            return self.state.copy()

    def decide(self, decisions: Sequence[SignOff], reviewer: str, author: str = "") -> list[Entry]:
        """Write decisions in one transaction; return those refused because another one stands.

        When this returns, the rest is on disk (write-ahead log, synchronous). `reviewer` is the
        name that is shown; `author` tells people of one name apart.
        """
        refused: list[Entry] = []
        with self.write():
            for decision in decisions:
                standing = self._standing(decision.flip)
                if standing is not None and standing.id != decision.seen:
                    refused.append(standing)
                    continue
                self._append(decision, None, reviewer, author)
        self.refresh()
        return refused

    def undo(self, reviewer: str, author: str = "") -> int | None:
        """Take back this person's last standing decision; the flip it was about, or None."""
        with self.write():
            found = self._db.execute(
                f"SELECT id, row FROM log WHERE reviewer = ? AND author = ? AND {_STANDING} "
                "ORDER BY id DESC LIMIT 1",
                (reviewer, author),
            ).fetchone()
            if found is None:
                return None
            flip = self._flip(found[1])
            self._append(SignOff(flip, "undo"), int(found[0]), reviewer, author)
        self.refresh()
        return flip

    def entry(self, flip: int) -> Entry | None:
        """The decision that stands for a flip."""
        with self.read():
            return self._standing(flip)

    def reviewers(self) -> dict[int, str]:
        """Flip -> who made the decision that stands."""
        with self._lock:
            names = list(self._people)
            decided = np.flatnonzero(self.state != OPEN)
            return {int(flip): names[self._person[flip]] for flip in decided}

    def notes(self) -> list[tuple[int, str, str]]:
        """(row, who, note) of the decisions that stand and have one, oldest first."""
        with self.read() as db:
            return db.execute(
                f"SELECT row, reviewer, note FROM log WHERE note != '' AND {_STANDING} ORDER BY id"
            ).fetchall()

    def counts_by_reviewer(self) -> dict[str, int]:
        """How many standing verdicts (not skips) each person has given, most first."""
        with self._lock:  # a newcomer's first decision must not come in between
            judged = (self.state != OPEN) & (self.state != SKIP)
            counts = np.bincount(self._person[judged], minlength=len(self._people))
            found = [(name, int(n)) for name, n in zip(self._people, counts, strict=True) if n]
        return dict(sorted(found, key=lambda item: (-item[1], item[0]))[:50])

    def audit_order(self) -> NDArray[np.int64]:
        """A random order of all proposed changes, drawn once and the same ever after."""
        with self.read():
            found = self._db.execute("SELECT value FROM meta WHERE key = 'audit_seed'").fetchone()
        if found is None or not str(found[0]).isdecimal():
            raise InputError(f"{self.path}: expected the audit's seed, got {found and found[0]!r}")
        changes = np.flatnonzero(~self.flips.suspect)
        return changes[np.random.default_rng(int(found[0])).permutation(len(changes))]

    # --- inside ---------------------------------------------------------------------------

    def _prepare(self) -> None:
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        owner = int(self._db.execute("PRAGMA application_id").fetchone()[0])
        empty = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0
        if not empty and owner != APPLICATION_ID:
            raise InputError(f"{self.path}: expected adacorr's decisions, got another database")
        if version > SCHEMA:
            raise InputError(
                f"{self.path}: expected format {SCHEMA}, got {version} from a newer adacorr; "
                "update adacorr to read it"
            )
        mode = self._db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise InputError(f"{self.path}: expected a write-ahead log, got journal mode {mode}")
        self._db.execute("PRAGMA synchronous = FULL")
        if empty:
            self._create()
        elif version < SCHEMA:
            self._renew()
        self._check_whole()
        self._check_run()

    def _check_whole(self) -> None:
        """Compare the log with its indices: a flipped bit in either would be another decision.

        Every column that decides is in an index, so that a damaged value disagrees with its copy.
        """
        known = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
        if not known >= set(_COPIES):
            with self.write():  # a new file, or one of an earlier version
                for name, columns in _COPIES.items():
                    self._db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")
        (found,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            reason = " ".join(found.split())
            raise InputError(
                f"{self.path}: expected decisions as they were saved, got a damaged file: {reason}"
            )

    def _renew(self) -> None:
        """Bring a file of an earlier format up to date; nothing in it changes."""
        with self.write():
            self._db.execute(_ANSWER)
            columns = {line[1] for line in self._db.execute("PRAGMA table_info(log)")}
            for name in ("author", "note"):
                if name not in columns:  # else another server was faster
                    self._db.execute(f"ALTER TABLE log ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _create(self) -> None:
        with self.write():
            # Another server may have been faster while we waited for the lock.
            if self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                return
            for table in (*_TABLES, _ANSWER):
                self._db.execute(table)
            seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
            meta = {"audit_seed": str(seed), "flips": fingerprint(self.flips)}
            self._db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _check_run(self) -> None:
        found = dict(self._db.execute("SELECT key, value FROM meta").fetchall())
        if found.get("flips") != fingerprint(self.flips):
            raise InputError(
                f"{self.path}: expected decisions about this run's changes, got ones about others; "
                "the labels were corrected again since: move the file away to start anew"
            )

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The connection, for a look."""
        with self._lock, self._explained():
            yield self._db

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the database become one line that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            raise Busy(_explain(self.path, error)) from error

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction: when it ends, all of it is on disk, or none."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise Busy(_explain(self.path, error)) from error

    def _append(self, said: SignOff, undoes: int | None, reviewer: str, author: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = int(self.flips.row[said.flip])
        self._db.execute(
            "INSERT INTO log (row, choice, label, undoes, reviewer, at, author, note) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row, said.choice, said.label, undoes, reviewer, now, author, said.note),
        )

    def _standing(self, flip: int) -> Entry | None:
        found = self._db.execute(
            f"SELECT id, choice, label, reviewer FROM log WHERE row = ? AND {_STANDING} "
            "ORDER BY id DESC LIMIT 1",
            (int(self.flips.row[flip]),),
        ).fetchone()
        return None if found is None else Entry(found[0], flip, found[1], found[2], found[3])

    def _forget(self, rows: Iterable[tuple[int]]) -> None:
        for (row,) in rows:
            flip = self._flip(row)
            self.state[flip], self.label[flip], self.latest[flip] = OPEN, -1, 0

    def _apply(self, entries: Iterable[tuple[int, int, str, int | None, str]]) -> None:
        """Standing entries in the order of the log: a later one covers an earlier one."""
        for entry, row, choice, label, reviewer in entries:
            flip = self._flip(row)
            if choice not in STATES:
                raise InputError(f"{self.path}: expected a decision, got {choice!r} in row {row}")
            known = isinstance(label, int) and 0 <= label < self.n_classes
            if not known and (label is not None or choice == "other"):
                raise InputError(f"{self.path}: expected a class index, got {label!r} in row {row}")
            self.state[flip] = STATES[choice]
            self.label[flip] = -1 if label is None else label
            self.latest[flip] = entry
            self._person[flip] = self._people.setdefault(str(reviewer), len(self._people))

    def _flip(self, row: int) -> int:
        flip = self.flips.find(row) if isinstance(row, int) else None
        if flip is None:
            raise InputError(f"{self.path}: expected decisions about changed rows, got row {row}")
        return flip


def fingerprint(flips: Flips) -> str:
    """Names the set of proposed changes, so that decisions never meet another run's."""
    digest = hashlib.sha256()
    for array in (flips.row, flips.given, flips.proposed):
        digest.update(np.ascontiguousarray(array[~flips.suspect]).tobytes())
    return digest.hexdigest()


def _explain(path: Path, error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the details of the kind
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return (
            f"{path}: expected to write decisions, got a database that another program has locked"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return f"{path}: expected a folder and file that can be written, got {error}"
    return f"{path}: expected adacorr's decisions, got {error}"

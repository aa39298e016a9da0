"""The final labels: accepted changes, rejected ones put back, other classes as chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import DECIDERS, Answers
from adacorr.core.validation import InputError
from adacorr.review.answers import AnswerLog, Said, settled
from adacorr.review.store import ACCEPT, OPEN, OTHER, REJECT, SKIP, Store
from adacorr.runs.outcome import SUFFIXES, Final, write_outcome
from adacorr.runs.reader import RunData
from adacorr.tables import parquet

Unreviewed = Literal["keep", "accept"]
APPLIED = "final-labels.parquet"
"""In the run: what the page's button wrote, a label for each row."""
_WORDS = np.array(["unreviewed", "accepted", "rejected", "other", "unreviewed"], dtype=object)


def export(data: RunData, store: Store, path: Path, unreviewed: Unreviewed = "keep") -> str | None:
    """Write every row of the run with its final label to a ``.parquet`` or ``.csv`` file.

    The table is that of :mod:`adacorr.runs.outcome`, as ``adacorr export`` writes it, with
    ``adacorr_decision`` (unchanged, accepted, rejected, other, unreviewed, answered, rule) and
    ``adacorr_note``. Where the page's button has applied a rule, its labels stand in all rows that
    nobody decided or answered. The run itself is not touched. Returns what could not be shown.

    Parameters
    ----------
    unreviewed : where no rule was applied: what becomes of changes that nobody decided (skipped
        ones too): "keep" the given label, or "accept" the change. Withheld ones keep it either
        way: the run did not apply them, so only a person's acceptance does.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"export: expected a name that ends in .parquet or .csv, got {path.name}")
    if path.parent.resolve() == data.run.path.resolve() and path.name == "labels.parquet":
        raise InputError(
            "export: expected a name other than the run's own labels.parquet, which keeps the "
            "given labels"
        )
    source = data.section("data").get("source")
    if isinstance(source, str) and path.resolve() == Path(source).resolve():
        raise InputError(f"export: expected a name other than the run's own data, got {path}")
    store.refresh()
    return write_outcome(data, path, final_labels(data, store, unreviewed))


def decisions(store: Store) -> dict[str, int]:
    """How many proposed changes were accepted, rejected, given another class, not decided."""
    state = store.current()  # a suspect that nobody decided is no change that waits for anyone
    words = _WORDS[state[~store.flips.suspect | (state != OPEN) & (state != SKIP)]]
    return {word: int((words == word).sum()) for word in dict.fromkeys([*_WORDS[1:], _WORDS[0]])}


def final_labels(data: RunData, store: Store, unreviewed: Unreviewed = "keep") -> Final:
    """The label of every row of the run, whose word it is, and the notes."""
    given = np.concatenate([batch.given for batch in data.batches()])
    applied = applied_labels(data, given)
    rule = given if applied is None else applied
    label = rule.copy()
    by = np.where(label != given, "rule", "given").astype(object)
    word = np.where(label != given, "rule", "unchanged").astype(object)

    flips, state = store.flips, store.state.copy()
    undecided = (state != ACCEPT) & (state != REJECT) & (state != OTHER)
    by_policy = undecided & ~flips.withheld & ~flips.suspect & (unreviewed == "accept")
    accepted = (state == ACCEPT) | by_policy
    decided = np.where(accepted, flips.proposed, flips.given)
    decided = np.where(state == OTHER, store.label, decided)
    set_here = ~(undecided & (flips.suspect | (applied is not None)))
    at = flips.row[set_here]
    label[at], word[at] = decided[set_here], _WORDS[state[set_here]]
    by[at] = np.where(label[at] != given[at], "rule", "given")

    log, people = AnswerLog(store, data), store.reviewers()
    judged = {int(flips.row[flip]): people[flip] for flip in np.flatnonzero(~undecided).tolist()}
    by[list(judged)] = list(judged.values())
    for row, (answer, person) in answered(log.standing()).items():
        if row not in judged:  # a decision, which was made with all in view, stands
            label[row], word[row], by[row] = answer, "answered", person
    notes = np.full(len(given), None, dtype=object)
    said = [(one.row, one.reviewer, one.note) for one in log.standing() if one.note]
    for row, person, note in [*said, *store.notes()]:
        notes[row] = f"{notes[row]}; {person}: {note}" if notes[row] else f"{person}: {note}"
    return Final(label, by, {"adacorr_decision": word, "adacorr_note": notes})


def applied_labels(
    data: RunData, given: NDArray[np.int64] | None = None
) -> NDArray[np.int64] | None:
    """What the rule says of each row, as the page applied it; None where it did not."""
    path = data.run.file(APPLIED)
    if path.is_symlink() or not path.is_file():
        return None
    found = parquet.read(path)
    wanted = ("adacorr_row", "adacorr_given", "adacorr_label")
    if found.num_rows != data.n or not set(wanted) <= set(found.column_names):
        raise InputError(
            f"{path}: expected labels of the run's {data.n:,} rows, got {found.num_rows:,} rows "
            f"with columns {', '.join(found.column_names[:8])}"
        )
    codes = {name: code for code, name in enumerate(data.run.class_names())}
    rows = found["adacorr_row"].to_numpy()
    before, after = (
        np.array([codes.get(name, -1) for name in found[column].to_pylist()], dtype=np.int64)
        for column in wanted[1:]
    )
    if given is None:
        given = np.concatenate([batch.given for batch in data.batches()])
    index = np.concatenate([batch.index for batch in data.batches()])
    ours, theirs = np.argsort(index, kind="stable"), np.argsort(rows, kind="stable")
    same = (index[ours] == rows[theirs]) & (given[ours] == before[theirs]) & (after[theirs] >= 0)
    if not same.all():
        raise InputError(f"{path}: expected labels of this run, got others; apply the rule again")
    labels = np.empty(data.n, dtype=np.int64)
    labels[ours] = after[theirs]
    return labels


def answered(said: Sequence[Said]) -> dict[int, tuple[int, str]]:
    """Rows whose label people named when asked: row -> (class index, who)."""
    people: dict[int, dict[str, None]] = {}
    for one in said:
        people.setdefault(one.row, {})[one.reviewer] = None
    labels = {row: label for row, label in settled(said).items() if label >= 0}
    return {row: (label, ", ".join(people[row])) for row, label in labels.items()}


def write_applied(
    data: RunData, path: Path, labels: NDArray[np.int64], answers: Answers
) -> str | None:
    """Write every row with the label that the rule and the answers give it; columns as above."""
    given = np.concatenate([batch.given for batch in data.batches()])
    by = np.array(DECIDERS, dtype=object)[answers.deciders(labels != given)]
    return write_outcome(data, path, Final(labels, by))

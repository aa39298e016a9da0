"""Answers of people as files and mappings, before the classes are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers, class_codes, encode_pairs
from adacorr.core.validation import InputError
from adacorr.labels import Codec
from adacorr.runs.imports import answers_by_row
from adacorr.tables.sources import Source, open_sources

ROW_NAMES = ("row", "index", "id")
LABEL_NAMES = ("label", "answer", "verified", "verified_label", "choice")
_BATCH = 1 << 16
_SHORT = 200  # characters; longer texts are cut in tasks


@dataclass(frozen=True)
class Verified:
    """Which row, or which entry of a column of ids, was said to be what.

    Attributes
    ----------
    keys : row numbers, or ids as text.
    labels : one answer per key; "cannot tell" is one.
    id_column : the column of the table that holds the ids; None for row numbers.
    shown : the other columns of the answers: what the table said when people were asked.
    """

    keys: tuple[Any, ...]
    labels: tuple[Any, ...]
    id_column: str | None = None
    shown: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, verified: Any) -> Verified | None:
        """From ``{row: label}``, or a CSV or parquet file with columns row (or id) and label."""
        if verified is None or isinstance(verified, Verified):
            return verified
        if isinstance(verified, Mapping):
            return cls(tuple(verified), tuple(verified.values()))
        if isinstance(verified, str | Path):
            return read_verified(Path(verified))
        raise InputError(
            f"verified: expected {{row: label}} or a file, got {type(verified).__name__}"
        )

    def rows(self, sources: Sequence[Source]) -> NDArray[np.int64]:
        """Row numbers in the whole input, in the order of the keys."""
        if self.id_column is not None:
            return _rows_of_ids([str(key) for key in self.keys], self.id_column, sources)
        rows = self._numbers()
        _check_same(rows, self.shown, sources)
        return rows

    def among(
        self,
        count: int,
        codec: Codec,
        *,
        rows: NDArray[np.int64] | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> Answers:
        """As class indices of `count` samples that are in memory.

        Parameters
        ----------
        codec : what the labels mean.
        rows : the samples' row numbers in the source; default 0 .. count - 1.
        ids : what the source calls them, where it does.

        >>> said = Verified(("a.png",), ("dog",), "id")
        >>> codec = Codec(("cat", "dog"), np.array(["cat", "dog"]))
        >>> said.among(2, codec, ids=["b.png", "a.png"])
        Answers(rows=array([1]), codes=array([1]))
        """
        if self.id_column is None:
            numbers = np.arange(count) if rows is None else rows
            places = _places(map(str, self._numbers().tolist()), numbers.tolist(), "row")
        elif ids is None:
            raise InputError("verified: expected row numbers, as the data have no ids, got ids")
        else:
            places = _places((str(key).strip() for key in self.keys), ids, "id")
        return self.answers(np.array(places, dtype=np.int64), count, codec)

    def _numbers(self) -> NDArray[np.int64]:
        try:
            return np.array([int(key) for key in self.keys], dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            bad = next(key for key in self.keys if not _is_row(str(key).strip()))
            raise InputError(f"verified: expected row numbers, got {bad!r}") from None

    def answers(self, rows: NDArray[np.int64], n_rows: int, codec: Codec) -> Answers:
        """As class indices, once the classes are known."""
        pairs = zip(rows.tolist(), self.labels, strict=True)
        return encode_pairs(pairs, n_rows, class_codes(codec))


def read_verified(path: Path, *, by_id: bool = False) -> Verified:
    """A CSV or parquet file with a column row (or id) and a column label; empty labels are gaps.

    Finished tasks of Label Studio, as JSON, are read too. `by_id`: where the file has both, the ids
    count, as row numbers of a folder change with its files.
    """
    if path.suffix.lower() in (".json", ".jsonl"):
        return _of_tasks(path)
    (source,) = open_sources(path)
    key = _column(source, ("id", *ROW_NAMES) if by_id else ROW_NAMES)
    label = _column(source, tuple(name for name in LABEL_NAMES if name != key))
    names = [key, label, *(n for n in source.types if n not in (key, label))]
    found: list[tuple[Any, ...]] = []
    for batch in source.batches(names, _BATCH):
        columns = (batch.column(name).to_pylist() for name in names)
        found += [row for row in zip(*columns, strict=True) if not _is_gap(row[1])]
    if not found:
        raise InputError(f"{path}: expected answers in column {label!r}, got none")
    keys, labels, *others = zip(*found, strict=True)
    labels = tuple(said.strip() if isinstance(said, str) else said for said in labels)
    shown = dict(zip(names[2:], others, strict=True))
    return Verified(keys, labels, key if key == "id" else None, shown)


def _of_tasks(path: Path) -> Verified:
    """Of another tool's JSON; short columns in every task are compared with the table's."""
    labels, held = answers_by_row(path)
    if not labels:
        raise InputError(f"{path}: expected answered tasks, got none")
    tasks = [held[row] for row in labels]
    names = [
        name
        for name in tasks[0]
        if name not in ("row", "index", *LABEL_NAMES, "text")  # a text may have been put together
        and all(name in task and len(str(task[name])) < _SHORT for task in tasks)
    ]
    shown = {name: tuple(task[name] for task in tasks) for name in names}
    return Verified(tuple(labels), tuple(labels.values()), None, shown)


def _is_row(text: str) -> bool:
    return text.isdecimal() and len(text) <= 18


def _is_gap(said: Any) -> bool:
    return said is None or not str(said).strip()


def _column(source: Source, names: Sequence[str]) -> str:
    found = next((name for name in names if name in source.types), None)
    if found is None:
        got = ", ".join(list(source.types)[:8])
        raise InputError(
            f"{source.path}: expected a column {' or '.join(names)}, got columns {got}"
        )
    return found


def _places(keys: Iterable[str], names: Iterable[Any], kind: str) -> list[int]:
    """Where each key is among the names of the samples; it must be there once."""
    found: dict[str, int] = {}
    wanted = list(keys)
    asked = set(wanted)
    for place, name in enumerate(map(str, names)):
        if name in asked and found.setdefault(name, place) != place:
            raise InputError(f"verified: expected the {kind} {name} once in the data, got it twice")
    missing = next((name for name in wanted if name not in found), None)
    if missing is not None:
        raise InputError(f"verified: expected a {kind} of the data, got {missing!r}")
    return [found[name] for name in wanted]


def _check_same(
    rows: NDArray[np.int64], shown: Mapping[str, tuple[Any, ...]], sources: Sequence[Source]
) -> None:
    """Row numbers mean nothing in a table that was sorted again: its rows must be those shown."""
    order = np.argsort(rows, kind="stable")
    ranked, start = rows[order], 0
    for source in sources:
        names = [name for name in shown if name in source.types]
        for batch in source.batches(names, _BATCH) if names else ():
            first, last = np.searchsorted(ranked, [start, start + batch.num_rows])
            for place in order[first:last].tolist():
                for name in names:
                    now = batch.column(name)[int(rows[place]) - start].as_py()
                    if not _alike(now, shown[name][place]):
                        raise InputError(
                            f"{source.path}: expected {name} = {_short(shown[name][place])} in row "
                            f"{rows[place]}, as the answers have it, got {_short(now)}: the table "
                            f"has changed since (or take {name} out of the answers)"
                        )
            start += batch.num_rows
            if start > ranked[-1]:
                return


def _alike(a: Any, b: Any) -> bool:
    """Whether two cells say the same, however a spreadsheet has written them.

    >>> _alike(0.123456, "0.1235"), _alike("a  b", "a b"), _alike(None, ""), _alike("a", "b")
    (True, True, True, False)
    """
    plain = (str, int, float, type(None))
    if type(a) not in plain or type(b) not in plain:
        return True  # dates, flags and lists have too many spellings
    a, b = ("" if x is None or x != x else x for x in (a, b))  # NaN is a gap too
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=1e-6)
    except ValueError:
        return "".join(str(a).split()) == "".join(str(b).split())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _rows_of_ids(ids: Sequence[str], column: str, sources: Sequence[Source]) -> NDArray[np.int64]:
    """Where each id stands in the column of the table; each must be there once."""
    wanted = {name: place for place, name in enumerate(ids)}
    rows, start = np.full(len(ids), -1, dtype=np.int64), 0
    for source in sources:
        if column not in source.types:
            raise InputError(
                f"{source.path}: expected a column {column!r} as in the answers, got none"
            )
        for batch in source.batches([column], _BATCH):
            for i, name in enumerate(batch.column(0).to_pylist()):
                place = wanted.get(str(name))
                if place is None:
                    continue
                if rows[place] >= 0:
                    raise InputError(f"{source.path}: expected the id {name} once, got it twice")
                rows[place] = start + i
            start += batch.num_rows
    if (rows < 0).any():
        missing = ids[int((rows < 0).argmax())]
        raise InputError(f"verified: expected ids of the table, got {missing!r}")
    return rows[[wanted[name] for name in ids]]

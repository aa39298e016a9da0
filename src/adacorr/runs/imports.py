"""Answers that people gave in another tool, as rows and labels of a run.

Read are finished tasks of Label Studio (JSON, JSON-MIN, CSV), records of Argilla (JSON nested or
flat, CSV) and documents of doccano (JSON, JSONL, CSV), and any table with a row and a label. A row
is found by ``adacorr_row``, which the exports of :mod:`adacorr.runs` put into each task and the
tools hand back, else by ``row``, ``index``, or the run's own ids.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from adacorr.core.answers import CANNOT_TELL
from adacorr.core.validation import InputError
from adacorr.files import atomic
from adacorr.runs.reader import RunData

ROWS = ("adacorr_row", "row", "index")
IDS = ("adacorr_id", "id", "sample")
LABELS = ("label", "answer", "choice", "verified_label")
FILE = "answers.csv"
_PIECE = 1 << 14  # characters that are read at once
_MAX_RECORD = 4 << 20  # characters of a record
_MAX_LIST = 1 << 16  # of a list or object that a CSV file holds as text
_NO_SPACE = re.compile(r"\S")
_DECODE = json.JSONDecoder().raw_decode
_TOO_LONG = f"a record of more than {_MAX_RECORD:,} characters"


@dataclass(frozen=True)
class Imported:
    """Answers by row of the source: a class name or "cannot tell"; and tasks left unanswered."""

    labels: dict[int, str]
    unanswered: int

    @property
    def cannot_tell(self) -> int:
        return sum(label == CANNOT_TELL for label in self.labels.values())


def read_answers(data: RunData, path: Path) -> Imported:
    """The answers in a file of another tool.

    Of several people's answers to a row the one that most gave counts; a tie is "cannot tell".
    """
    rows = _Rows.of(data)
    allowed = {*data.run.class_names(), CANNOT_TELL}
    votes: dict[int, Counter[str]] = {}
    unanswered = 0
    for place, record in enumerate(_records(path)):
        fields = _fields(record)
        said = list(_answers(record))
        unanswered += not said
        for label in said:
            if label not in allowed:
                names = ", ".join(sorted(allowed)[:8])
                raise InputError(
                    f"{path}: expected a label among {names}, got {label!r} in record {place}"
                )
            votes.setdefault(rows.find(fields, path, place), Counter())[label] += 1
    if not votes:
        raise InputError(f"{path}: expected answered tasks, got none")
    return Imported({row: _majority(count) for row, count in sorted(votes.items())}, unanswered)


def answers_by_row(path: Path) -> tuple[dict[int, str], dict[int, dict[str, Any]]]:
    """The answers in a file of another tool by row number, and what each task held; of any table.

    Label Studio and the others hand back the ``row`` that ``adacorr ask`` put into each task.
    """
    votes: dict[int, Counter[str]] = {}
    held: dict[int, dict[str, Any]] = {}
    for place, record in enumerate(_records(path)):
        fields = _fields(record)
        row = next((text for name in ROWS if (text := str(fields.get(name, ""))).isdecimal()), None)
        for label in _answers(record):
            if row is None:
                raise InputError(
                    f"{path}: expected a row number in each record, as adacorr ask writes it, got "
                    f"{', '.join(list(fields)[:8])} in record {place}"
                )
            votes.setdefault(int(row), Counter())[label] += 1
            held[int(row)] = dict(record.get("data") or {})
    return {row: _majority(count) for row, count in votes.items()}, held


def keep_answers(data: RunData, found: Imported) -> tuple[Path, int]:
    """Put answers into the run's ``answers.csv``, where later ones replace earlier ones.

    ``correct --verified`` and ``certify --verified`` read it. Returns the file and its rows.
    """
    path = data.run.file(FILE)
    labels = kept_answers(data) | found.labels
    with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(("row", "label"))
        writer.writerows(sorted(labels.items()))
    return path, len(labels)


def kept_answers(data: RunData) -> dict[int, str]:
    """The answers that were imported into a run so far, by row of the source."""
    path = data.run.file(FILE)
    return read_answers(data, path).labels if path.is_file() and not path.is_symlink() else {}


@dataclass(frozen=True)
class _Rows:
    """The rows of a run by number, and by the source's own names."""

    numbers: frozenset[int]
    by_id: Mapping[str, int]

    @classmethod
    def of(cls, data: RunData) -> _Rows:
        numbers: set[int] = set()
        by_id: dict[str, int] = {}
        for batch in data.batches(texts=True):
            numbers.update(batch.index.tolist())
            if batch.id is not None:
                by_id.update(zip(batch.id, batch.index.tolist(), strict=True))
        # doccano and Argilla number their own documents: such numbers are not the run's ids
        named = by_id if any(not name.isdecimal() for name in by_id) else {}
        return cls(frozenset(numbers), named)

    def find(self, fields: Mapping[str, Any], path: Path, place: int) -> int:
        for name in ROWS:
            text = str(fields.get(name, "")).strip()
            if text.isdecimal():
                if len(text) > 18 or int(text) not in self.numbers:
                    raise InputError(
                        f"{path}: expected rows of this run, got {name} {text[:20]} "
                        f"in record {place}"
                    )
                return int(text)
        for name in IDS:
            if (found := self.by_id.get(str(fields.get(name, "")))) is not None:
                return found
        raise InputError(
            f"{path}: expected adacorr_row in each record, as adacorr export writes it, got "
            f"{', '.join(map(str, list(fields)[:8]))} in record {place}"
        )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSON list, of JSON lines, or of a CSV file, one at a time."""
    ending = path.suffix.lower()
    try:
        if not path.is_file():
            raise OSError("no file")  # a device never ends
        with open(path, newline="", encoding="utf-8-sig") as file:
            if ending in (".csv", ".tsv"):
                yield from csv.DictReader(file, delimiter="\t" if ending == ".tsv" else ",")
                return
            values = _lines(file) if ending in (".jsonl", ".ndjson") else _values(file)
            for value in values:
                if not isinstance(value, dict):
                    raise ValueError(f"{type(value).__name__} in place of a record")
                yield value
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: expected records as JSON, JSON lines or CSV, got {error}"
        ) from error


def _lines(file: TextIO) -> Iterator[Any]:
    while line := file.readline(_MAX_RECORD + 1):
        if len(line) > _MAX_RECORD:
            raise ValueError(_TOO_LONG)
        if line.strip():
            yield json.loads(line)


def _values(file: TextIO) -> Iterator[Any]:
    """The elements of a JSON list as they come, or the one value that is no list.

    What is parsed takes 30 times the memory of its text: only one record is held.
    """
    text = _Text(file)
    if not (listed := text.take("[")):
        yield text.value()
    while listed and not text.take("]"):
        yield text.value()
        listed = text.take(",")
        if not listed and not text.take("]"):
            raise ValueError("no comma between two records")
    if text.next():
        raise ValueError("more after the end")


class _Text:
    """A piece of a long text; it grows until a record is in it."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._held, self._at = file, "", 0

    def next(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            found = _NO_SPACE.search(self._held, self._at)
            if found is not None:
                self._at = found.start()
                return found[0]
            self._at = len(self._held)
            if not self._more():
                return ""

    def take(self, mark: str) -> bool:
        """Is this the next character? Then go on behind it."""
        found = self.next() == mark
        self._at += found
        return found

    def value(self) -> Any:
        self.next()
        while True:
            try:
                value, end = _DECODE(self._held, self._at)
                if end < len(self._held) or not self._more():  # a number may go on
                    self._at = end
                    return value
            except json.JSONDecodeError:
                if not self._more():
                    raise

    def _more(self) -> bool:
        """Read on, as much again as there is; False at the end."""
        held = self._held[self._at :]
        if len(held) > _MAX_RECORD:
            raise ValueError(_TOO_LONG)
        found = self._file.read(max(_PIECE, len(held)))
        self._held, self._at = held + found, 0
        return bool(found)


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the tools hand back of a task: Label Studio in `data`, Argilla in `metadata`."""
    inner = (record.get(name) for name in ("fields", "meta", "metadata", "data"))
    merged = dict(record)
    for found in inner:
        if isinstance(found, Mapping):
            merged |= found
    return merged


def _answers(record: Mapping[str, Any]) -> Iterator[str]:
    """The labels that people gave in one record."""
    if isinstance(record.get("annotations"), list):  # Label Studio, JSON
        yield from _of_annotations(record["annotations"])
        return
    if isinstance(record.get("responses"), Mapping):  # Argilla, nested
        for given in record["responses"].values():
            for one in given if isinstance(given, list) else [given]:
                submitted = not isinstance(one, Mapping) or one.get("status") != "discarded"
                if submitted:
                    yield from _texts(one.get("value") if isinstance(one, Mapping) else one)
        return
    for name in LABELS:
        if (given := _parsed(record.get(f"{name}.responses"))) is not None:  # Argilla, flat
            status = _parsed(record.get(f"{name}.responses.status"))
            for i, value in enumerate(given if isinstance(given, list) else [given]):
                state = status[i] if isinstance(status, list) and i < len(status) else "submitted"
                if state in (None, "submitted"):
                    yield from _texts(value)
            return
        if name in record:  # doccano, JSON-MIN, CSV
            yield from _texts(_parsed(record[name]))
            return


def _of_annotations(annotations: list[Any]) -> Iterator[str]:
    for one in annotations:
        if not isinstance(one, Mapping) or one.get("was_cancelled"):
            continue
        results = one.get("result")
        for result in results if isinstance(results, list) else []:
            if isinstance(result, Mapping) and result.get("type") == "choices":
                yield from _texts(result.get("value"))


def _texts(value: Any) -> Iterator[str]:
    """One label; a list of several is no single class and is taken as "cannot tell"."""
    if isinstance(value, Mapping):
        value = value.get("choices")
    if isinstance(value, list):
        if len(value) > 1:
            yield CANNOT_TELL
            return
        value = value[0] if value else None
    if value is not None and str(value).strip():
        yield str(value).strip()


def _parsed(value: Any) -> Any:
    """Lists and objects that a CSV file holds as text."""
    text = value.strip() if isinstance(value, str) else ""
    if text[:1] not in ("[", "{") or len(text) > _MAX_LIST:
        return value
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value


def _majority(votes: Counter[str]) -> str:
    (best, count), *rest = votes.most_common()
    return CANNOT_TELL if rest and rest[0][1] == count else best

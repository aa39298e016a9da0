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
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adacorr.core.answers import CANNOT_TELL
from adacorr.core.validation import InputError
from adacorr.files import atomic
from adacorr.runs.reader import RunData

ROWS = ("adacorr_row", "row", "index")
IDS = ("adacorr_id", "id", "sample")
LABELS = ("label", "answer", "choice", "verified_label")
FILE = "answers.csv"
_MAX_BYTES = 1 << 30


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
                if int(text) not in self.numbers:
                    raise InputError(
                        f"{path}: expected rows of this run, got {name} {text} in record {place}"
                    )
                return int(text)
        for name in IDS:
            if (found := self.by_id.get(str(fields.get(name, "")))) is not None:
                return found
        raise InputError(
            f"{path}: expected adacorr_row in each record, as adacorr export writes it, got "
            f"{', '.join(list(fields)[:8])} in record {place}"
        )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSON list, of JSON lines, or of a CSV file."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: expected at most {_MAX_BYTES >> 20} MB, got more")
        if path.suffix.lower() in (".csv", ".tsv"):
            with open(path, newline="", encoding="utf-8-sig") as handle:
                mark = "\t" if path.suffix.lower() == ".tsv" else ","
                yield from csv.DictReader(handle, delimiter=mark)
            return
        text = path.read_text(encoding="utf-8-sig")
        lines = path.suffix.lower() in (".jsonl", ".ndjson")
        found = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else None
        found = json.loads(text) if found is None else found
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: expected JSON, JSON lines or CSV, got {error}") from error
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{path}: expected a list of tasks or records, got {type(found).__name__}")
    yield from found


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
        for result in one.get("result") or []:
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
    if text[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(text)
    except ValueError:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value


def _majority(votes: Counter[str]) -> str:
    (best, count), *rest = votes.most_common()
    return CANNOT_TELL if rest and rest[0][1] == count else best

"""Checked, streamed reads of a finished run, shared by the report and the review page.

A run directory may come from anywhere, so nothing in it is trusted: links are refused, sizes are
looked at before reading, every class index and ratio is checked, and names are made safe to show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.runs.directory import MAX_CLASSES, Run
from adacorr.runs.manifest import CheckedRows, check
from adacorr.runs.schema import REQUIRED_COLUMNS, run_format
from adacorr.tables import parquet
from adacorr.tables.unpacked import check_unpacked

if TYPE_CHECKING:
    import pyarrow as pa

NAME_LENGTH = 80
BATCH_ROWS = 1 << 16
_MAX_BYTES = {"config.toml": 4 << 20, "metrics.jsonl": 256 << 20}
_ROW_BYTES = 48  # of the required columns in memory: what a reader keeps grows with the rows
_HARMLESS = 64 << 20
_OPTIONAL = ("confidence", "review", "truth", "suspicion", "alternative", "unjudged")
_TEXTS = ("id", "content", "decided_by")


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of the label table as checked arrays; `start` is the first row's number."""

    start: int
    index: NDArray[np.int64]  # the sample's row number in its source
    given: NDArray[np.int64]
    corrected: NDArray[np.int64]
    suggested: NDArray[np.int64]
    ratio: NDArray[np.float64]
    confidence: NDArray[np.float64] | None  # P(the label after correction is right); NaN: unknown
    withheld: NDArray[np.bool_]  # another class is suggested, but left to a person to apply
    truth: NDArray[np.int64] | None  # -1: unknown
    suspicion: NDArray[np.float64] | None = None  # P(the given label is wrong); NaN: unknown
    alternative: NDArray[np.int64] | None = None  # the most probable other class; -1: unknown
    decided_by: tuple[str, ...] | None = None  # given, rule or person
    id: tuple[str, ...] | None = None  # the source's own names of the rows
    content: tuple[str, ...] | None = None  # fingerprints of the files behind the rows
    unjudged: NDArray[np.bool_] | None = None  # the row has no say and keeps its label

    @property
    def flipped(self) -> NDArray[np.bool_]:
        return self.corrected != self.given

    @property
    def proposed(self) -> NDArray[np.int64]:
        """The class that a person is asked about: the applied change, or the withheld one."""
        return np.where(self.withheld, self.suggested, self.corrected)

    @property
    def chance(self) -> NDArray[np.float64]:
        """P(`proposed` is right); NaN where unknown.

        A withheld row keeps its given label, and `confidence` is about that; the ratio
        P(given) / P(suggested) leads back to the suggestion.
        """
        if self.confidence is None:
            return np.full(len(self.given), np.nan)
        other = np.divide(
            self.confidence, self.ratio, out=np.full_like(self.ratio, np.nan), where=self.ratio > 0
        )
        return np.where(self.withheld, np.minimum(other, 1), self.confidence)

    @property
    def certainty(self) -> NDArray[np.float64]:
        """How sure a change is, for ordering only: the chance where known, else 1 - ratio."""
        chance = self.chance
        return np.where(np.isnan(chance), 1 - self.ratio, chance)

    @property
    def doubt(self) -> NDArray[np.float64]:
        """How doubtful the given label is, for ordering: the suspicion, else from the decision."""
        from_decision = np.where(self.flipped | self.withheld, self.certainty, 1 - self.ratio)
        if self.suspicion is None:
            return from_decision
        return np.where(np.isnan(self.suspicion), from_decision, self.suspicion)

    @property
    def other(self) -> NDArray[np.int64]:
        """What may be right instead of the given label; -1 where the run does not say."""
        named = np.where(self.suggested != self.given, self.suggested, -1)
        if self.alternative is None:
            return named
        return np.where(named >= 0, named, self.alternative)


@dataclass(frozen=True)
class RunData:
    """An opened run: its configuration, class names, and ways to stream its rows."""

    run: Run
    config: dict[str, Any]
    class_names: tuple[str, ...]
    n: int
    columns: tuple[str, ...]
    pred_probs: CheckedRows | None

    @classmethod
    def open(cls, run: Run) -> RunData:
        """Open `run`, or raise one line that names the file and what is wrong with it."""
        for name in ("config.toml", "labels.parquet", "metrics.jsonl", "pred_probs.npy"):
            _check_plain(run.file(name))
        check(run.file("labels.parquet"))
        config = run.config()
        run_format(config, str(run.file("config.toml")))
        names = _class_names(run, config)
        n, columns = _table_shape(run.file("labels.parquet"))
        return cls(run, config, names, n, columns, _pred_probs(run, n, len(names)))

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def format(self) -> int:
        """Of the run; see :mod:`adacorr.runs.schema`."""
        return run_format(self.config, str(self.run.file("config.toml")))

    @property
    def kind(self) -> str:
        """The command that wrote the run: fit, correct, ...; older runs tell by their tables."""
        found = self.section("run").get("kind")
        if isinstance(found, str):
            return clean_text(found)
        return "correct" if self.section("correct") and not self.section("method") else "fit"

    @property
    def sentence(self) -> str | None:
        """What is true of the rule that changed labels; None in runs that do not say."""
        found = self.section("rule").get("sentence")
        return clean_text(found, 1000) if isinstance(found, str) and found else None

    def section(self, name: str) -> dict[str, Any]:
        """A table of the configuration; empty when it is absent or something else."""
        value = self.config.get(name, {})
        return value if isinstance(value, dict) else {}

    def number(self, section: str, key: str) -> float | None:
        """A finite number of the configuration, or None."""
        value = self.section(section).get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value) if math.isfinite(value) else None

    def interval(self, section: str, key: str) -> tuple[float, float] | None:
        """Two finite numbers of the configuration in ascending order, or None."""
        ends = self.section(section).get(key)
        if not isinstance(ends, list) or len(ends) != 2:
            return None
        if not all(isinstance(end, (int, float)) and math.isfinite(end) for end in ends):
            return None
        return (float(ends[0]), float(ends[1])) if ends[0] <= ends[1] else None

    def metrics(self) -> list[dict[str, float]]:
        """The finite numbers of each epoch's record."""
        try:
            records = self.run.metrics()
        except (RecursionError, ValueError, MemoryError) as error:
            path = self.run.file("metrics.jsonl")
            raise InputError(f"{path}: expected one JSON object per line, got {error}") from error
        return [{k: float(v) for k, v in record.items() if _is_number(v)} for record in records]

    def batches(self, rows: int = BATCH_ROWS, *, texts: bool = False) -> Iterator[Batch]:
        """The label table in pieces of at most `rows` rows; memory does not grow with N.

        `texts` reads the columns of text too (`id`, `content`, `decided_by`), which takes longer.
        """
        import pyarrow as pa

        path = self.run.file("labels.parquet")
        more = (*_OPTIONAL, *_TEXTS) if texts or self.format == 1 else _OPTIONAL
        wanted = [*REQUIRED_COLUMNS, *(name for name in more if name in self.columns)]
        start = 0
        try:
            for piece in parquet.batches(path, path, wanted, rows):
                yield _check_batch(piece, start, self.n_classes, path, self.format)
                start += piece.num_rows
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: expected a readable parquet file, got {error}") from error

    def names_of_rows(self) -> tuple[NDArray[np.int64], list[str] | None]:
        """Row numbers in the source, and what it calls the rows; None where it has no names."""
        numbers: list[NDArray[np.int64]] = []
        ids: list[str] = []
        for batch in self.batches(texts=True):
            numbers.append(batch.index)
            ids += batch.id or ()
        return np.concatenate(numbers), ids or None


def clean_text(text: object, limit: int = NAME_LENGTH) -> str:
    """Text that is safe to lay out: no control characters, at most `limit` characters.

    >>> clean_text("a\\x00b" + "c" * 99, 6)
    'a\\ufffdbcc…'
    """
    value = str(text)
    cut = value if len(value) <= limit else value[: limit - 1] + "…"
    return "".join(c if c.isprintable() or c == " " else "\ufffd" for c in cut)


def clean_lines(text: object, limit: int) -> str:
    """As :func:`clean_text`, with the lines of the text kept apart.

    >>> clean_lines("a\\tb\\r\\nc\\x00", 9)
    'a b\\nc\\ufffd'
    """
    value = str(text)
    cut = value if len(value) <= limit else value[: limit - 1] + "…"
    lines = cut.expandtabs(1).splitlines()
    return "\n".join(clean_text(line, limit) for line in lines)


def _check_plain(path: Path) -> None:
    if path.is_symlink():
        raise InputError(f"{path}: expected a file inside the run directory, got a symbolic link")
    limit = _MAX_BYTES.get(path.name)
    if limit and path.is_file() and path.stat().st_size > limit:
        raise InputError(f"{path}: expected at most {limit >> 20} MB, got {path.stat().st_size}")


def _class_names(run: Run, config: dict[str, Any]) -> tuple[str, ...]:
    data = config.get("data")
    names = data.get("class_names") if isinstance(data, dict) else None
    if not isinstance(names, list) or not 2 <= len(names) <= MAX_CLASSES:
        raise InputError(
            f"{run.file('config.toml')}: expected data.class_names, "
            f"a list of 2 to {MAX_CLASSES} names"
        )
    return tuple(clean_text(name) or f"class {i}" for i, name in enumerate(names))


def _table_shape(path: Path) -> tuple[int, tuple[str, ...]]:
    import pyarrow as pa

    try:
        with parquet.opened(path) as table:
            n, columns = table.metadata.num_rows, tuple(table.schema_arrow.names)
        check_unpacked(path, n * _ROW_BYTES, harmless=_HARMLESS)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: expected a readable parquet file, got {error}") from error
    missing = [name for name in REQUIRED_COLUMNS if name not in columns]
    if missing:
        raise InputError(
            f"{path}: expected columns {', '.join(REQUIRED_COLUMNS)}, got no {missing[0]}"
        )
    if n == 0:
        raise InputError(f"{path}: expected at least one row, got none")
    return n, columns


def _pred_probs(run: Run, n: int, k: int) -> CheckedRows | None:
    probs = run.pred_probs()
    if probs is not None and (probs.shape != (n, k) or probs.dtype.kind != "f"):
        raise InputError(
            f"{run.file('pred_probs.npy')}: expected floats of shape ({n}, {k}), one row per label "
            f"and one column per class, got {probs.dtype} of shape {probs.shape}"
        )
    return probs


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _check_batch(piece: pa.RecordBatch, start: int, k: int, path: Path, format: int) -> Batch:
    def codes(name: str, lowest: int = 0) -> NDArray[np.int64]:
        values = _integers(piece.column(name), name, path, missing=lowest)
        bad = (values < lowest) | (values >= k)
        if bad.any():
            row = int(bad.argmax())
            raise InputError(
                f"{path}: expected {name} in [0, {k}), got {values[row]} in row {start + row}"
            )
        return values

    present = piece.schema.names
    ratio = _floats(piece.column("ratio"), "ratio", path)
    if not ((ratio >= 0) & (ratio <= 1)).all():
        row = int((~((ratio >= 0) & (ratio <= 1))).argmax())
        raise InputError(f"{path}: expected ratio in [0, 1], got {ratio[row]} in row {start + row}")
    confidence = _chances(piece, "confidence", path)
    given, corrected, suggested = codes("given"), codes("corrected"), codes("suggested")
    withheld = np.zeros(len(given), dtype=bool)
    if "review" in present:
        asked = _booleans(piece.column("review"), "review", path)
        withheld = asked & (corrected == given) & (suggested != given)
    return Batch(
        start=start,
        index=_integers(piece.column(_row_column(piece, format)), "index", path, missing=-1),
        given=given,
        corrected=corrected,
        suggested=suggested,
        ratio=ratio,
        confidence=confidence,
        withheld=withheld,
        truth=codes("truth", -1) if "truth" in present else None,
        suspicion=_chances(piece, "suspicion", path),
        alternative=codes("alternative", -1) if "alternative" in present else None,
        decided_by=_texts(piece, "decided_by"),
        id=_texts(piece, "id"),
        content=_texts(piece, "content"),
        unjudged=(
            _booleans(piece.column("unjudged"), "unjudged", path) if "unjudged" in present else None
        ),
    )


def _row_column(piece: pa.RecordBatch, format: int) -> str:
    """Where the row number in the source is: format 1 had it in `id`, unless rows had names."""
    import pyarrow.types as kinds

    old = format == 1 and "id" in piece.schema.names
    return "id" if old and kinds.is_integer(piece.column("id").type) else "index"


def _chances(piece: pa.RecordBatch, name: str, path: Path) -> NDArray[np.float64] | None:
    if name not in piece.schema.names:
        return None
    return np.clip(_floats(piece.column(name), name, path), 0, 1)


def _texts(piece: pa.RecordBatch, name: str) -> tuple[str, ...] | None:
    if name not in piece.schema.names:
        return None
    return tuple("" if value is None else str(value) for value in piece.column(name).to_pylist())


def _integers(column: pa.Array, name: str, path: Path, missing: int) -> NDArray[np.int64]:
    """Whole numbers; empty cells become `missing` when that is -1 and are refused otherwise."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type):
        raise InputError(f"{path}: expected whole numbers in column {name}, got {column.type}")
    if column.null_count and missing >= 0:
        raise InputError(f"{path}: expected no empty cells in column {name}, got some")
    return np.asarray(column.cast(pa.int64()).fill_null(-1), dtype=np.int64)


def _floats(column: pa.Array, name: str, path: Path) -> NDArray[np.float64]:
    import pyarrow as pa

    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"{path}: expected numbers in column {name}, got {column.type}")
    return np.asarray(column.cast(pa.float64()).fill_null(float("nan")), dtype=np.float64)


def _booleans(column: pa.Array, name: str, path: Path) -> NDArray[np.bool_]:
    import pyarrow as pa

    if not pa.types.is_boolean(column.type):
        raise InputError(f"{path}: expected true or false in column {name}, got {column.type}")
    return np.asarray(column.fill_null(False), dtype=bool)

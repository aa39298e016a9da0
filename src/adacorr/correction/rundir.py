"""A correction as a run directory, for ``adacorr report`` and ``adacorr review``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adacorr._version import __version__
from adacorr.correction.arrays import Correction
from adacorr.correction.process import Corrected, Plan
from adacorr.correction.result import TableResult
from adacorr.correction.sinks import open_npy
from adacorr.data.identity import id_column, source_digest
from adacorr.files import atomic
from adacorr.runs.directory import write_toml
from adacorr.runs.schema import FORMAT, SAID
from adacorr.tables import parquet
from adacorr.tables.arrow import from_numpy
from adacorr.tables.layout import Layout
from adacorr.tables.remote import is_url
from adacorr.tables.sources import ArraySource, Source

ANSWERED = "People's answers chose the rule, and rows that they answered got their label."


class RunSink:
    """Writes labels.parquet and pred_probs.npy as the batches come; config.toml at the end.

    Of several annotators also what each of them said, as class indices.
    """

    def __init__(self, folder: Path, n_rows: int, plan: Plan, id_column: str | None) -> None:
        k = len(plan.codec.names)
        self._folder = folder
        self._id = id_column
        self._row = 0
        self._labels: Any = None
        self._probs = None  # top-k rows of many classes stay in the table
        if not plan.lists_only:
            self._probs = open_npy(folder / "pred_probs.npy", (n_rows, k), np.dtype(np.float32))
        self._said = None
        if people := len(plan.layout.annotators):
            self._said = open_npy(folder / SAID, (n_rows, people), np.dtype(np.int32))

    def write(self, done: Corrected) -> None:
        import pyarrow as pa

        decision = done.decision
        n = len(done.codes)
        columns = {
            "index": np.arange(self._row, self._row + n),
            "given": done.codes,
            "corrected": np.where(decision.flipped, decision.suggested, done.codes),
            "ratio": decision.ratio,
            "flipped": decision.flipped,
            "suggested": decision.suggested,
        }
        if decision.confidence is not None:
            columns["confidence"] = decision.confidence
        if decision.suspicion is not None and decision.other is not None:
            columns["suspicion"], columns["alternative"] = decision.suspicion, decision.other
        if decision.review is not None:
            columns["review"] = decision.review
        arrays = {name: from_numpy(values) for name, values in columns.items()}
        if done.tally is not None:  # people were asked
            arrays["decided_by"] = done.table.column("adacorr_decided_by")
        if self._id is not None:
            arrays["id"] = done.table.column(self._id)
        batch = pa.record_batch(arrays)
        if self._labels is None:
            self._labels = parquet.writer(self._folder / "labels.parquet", batch.schema)
        self._labels.write_batch(batch)
        if self._probs is not None:
            self._probs.write(np.ascontiguousarray(done.pred_probs, np.float32).tobytes())
        if self._said is not None and done.said is not None:
            self._said.write(done.said.astype(np.int32).tobytes())
        self._row += n

    def close(self) -> None:
        if self._probs is not None:
            self._probs.close()
        if self._said is not None:
            self._said.close()
        if self._labels is not None:
            self._labels.close()


def write_config(
    folder: Path,
    result: TableResult,
    source: str | Path | tuple[str | Path, ...],
    first: Source,
    settings: Mapping[str, Any],
    command: str,
    files: Sequence[Path],
) -> None:
    """How to run it again, and what came out; `settings` are those of the rule."""
    import pyarrow

    arrays = isinstance(first, ArraySource)
    path = source if is_url(source) else Path(str(source)).resolve()
    stats, rule, delta = result.stats, result.summary, settings["delta"]
    people = len(result.annotators)
    chosen = result.certificate is not None and isinstance(delta, str) and not people
    config = {
        "run": {
            "format": FORMAT,
            "kind": "correct",
            "command": command,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": 0,  # nothing is drawn at random: the sample is chosen by a hash
        },
        "versions": {
            "adacorr": __version__,
            "numpy": np.__version__,
            "pyarrow": pyarrow.__version__,
        },
        "data": {
            "source": None if arrays else str(path),
            "source_sha256": source_digest(files) if files and not arrays else None,
            "id_column": row_names(first, result.layout),
            "label_column": None if arrays else result.layout.label,
            "annotator_columns": list(result.layout.annotators) or None,
            "probs_columns": None if arrays else result.layout.needed[len(result.layout.labels) :],
            "class_names": list(result.class_names),
        },
        "rule": {
            "sentence": ANSWERED if chosen else sentence(delta, people),
            "decision": "one rule, fitted to these rows and applied to each of them",
        },
        "correct": {name: _plain(value) for name, value in settings.items() if value is not None},
        "result": {
            "rows": stats.rows,
            "flipped": stats.flipped,
            "noise_rate": result.noise_rate,
            "noise_rate_from": result.noise_rate_from,
            "noise_rate_interval": result.interval and list(result.interval),
            "readings": rule.get("readings"),
            "warnings": rule.get("warnings") or None,
            "expected_wrong_flips": stats.expected_wrong_flips,
            "expected_wrong_flips_interval": result.wrong_changes and list(result.wrong_changes),
            "expected_missed_errors": stats.expected_missed_errors,
            "note": rule.get("note") or None,
            "answers": result.certificate and result.certificate.answers,
        },
    }
    if result.annotators:
        config["annotators"] = _annotators(folder, result)
    write_toml(folder / "config.toml", config)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else np.asarray(value).tolist()


def _annotators(folder: Path, result: TableResult) -> dict[str, Any]:
    """Who is how good; all that was found of each goes into a file of its own."""
    people = result.annotators
    with atomic(folder / "annotators.json") as temporary:
        found = {
            "classes": list(result.class_names),
            "confusion": "[true][said]",
            "annotators": [person.to_dict() for person in people],
        }
        temporary.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    return {
        "names": [str(person.name) for person in people],
        "labels": [person.n_labels for person in people],
        "quality": [person.quality for person in people],
        "standard_error": [person.standard_error for person in people],
        "worst": [person.worst(result.class_names) for person in people],
    }


def stated(found: Correction) -> dict[str, Any]:
    """What a correction says of the whole, as a run's `result` holds it."""
    rate, wrong = found.noise_rate_interval, found.expected_wrong_flips_interval
    return {
        "noise_rate": found.noise_rate,
        "noise_rate_interval": rate and list(rate),
        "readings": [str(reading) for reading in found.readings] or None,
        "warnings": list(found.warnings) or None,
        "expected_wrong_flips": found.expected_wrong_flips,
        "expected_wrong_flips_interval": wrong and list(wrong),
        "expected_missed_errors": found.expected_missed_errors,
        "note": found.note or None,
        "answers": found.certificate and found.certificate.answers,
    }


def row_names(source: Source, layout: Layout) -> str | None:
    """The column that names the rows of a table: integers or texts; None without one."""
    import pyarrow.types as kinds

    name = id_column([name for name in source.kept if name not in layout.needed])
    if name is None:
        return None
    kind = source.types[name]
    named = kinds.is_integer(kind) or kinds.is_string(kind) or kinds.is_large_string(kind)
    return name if named else None


def sentence(delta: ArrayLike | str, annotators: int = 0) -> str:
    """What is true of the rule: the report prints it.

    >>> sentence(0.9)[:52]
    'A label was changed to the most probable class where'
    """
    if annotators:
        return (
            f"The label is the most probable one given the labels of {annotators} annotators, how "
            "good each of them is, and the probabilities; it was changed where that is not what "
            "the majority said."
        )
    if isinstance(delta, str):
        return (
            "A label was changed where another class was more probable to be the true one, given "
            "the probabilities, the given label and a noise model fitted to the labels."
        )
    limits = np.asarray(delta)
    limit = f"δ = {limits:g}" if limits.ndim == 0 else "the threshold of that pair of classes"
    return (
        "A label was changed to the most probable class where the likelihood ratio, P(given class) "
        f"divided by P(most probable class), was below {limit}."
    )

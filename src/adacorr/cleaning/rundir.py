"""The run directory of a clean: what the report, the review page and a later session read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacorr._version import __version__
from adacorr.cleaning.issues import sentences
from adacorr.core.validation import InputError
from adacorr.files import atomic
from adacorr.runs.directory import Run, write_labels, write_toml

if TYPE_CHECKING:
    from adacorr.cleaning.clean import Cleaned
    from adacorr.cleaning.folds import Folds
    from adacorr.cleaning.samples import Samples


def begin(folder: Path, resume: bool) -> Path:
    """A new folder, or with `resume` one of an earlier clean, finished or not."""
    if not resume and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: expected a new run directory, got one with files; resume it?")
    if resume and not (folder / "cache").is_dir():
        raise InputError(f"{folder}: expected a run of `adacorr clean` to go on with, got none")
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    return folder


def write_results(
    folder: Path, samples: Samples, cleaned: Cleaned, encoder: str, how: Folds
) -> Run:
    """labels.parquet, pred_probs.npy and config.toml, each whole or not there."""
    run = Run(folder)
    with atomic(run.file("pred_probs.npy")) as path, open(path, "wb") as handle:
        np.save(handle, cleaned.pred_probs)
    write_toml(run.file("config.toml"), _config(samples, cleaned, encoder, how))
    write_labels(run.file("labels.parquet"), _columns(samples, cleaned))
    return run


def _columns(samples: Samples, cleaned: Cleaned) -> dict[str, Any]:
    found = cleaned.correction
    code = _codes(samples)
    columns: dict[str, Any] = {
        "index": np.arange(len(samples)),
        "given": samples.labels,
        "corrected": code(found.labels),
        "ratio": found.ratio,
        "flipped": found.flipped,
        "suggested": code(found.suggested),
        "suspicion": cleaned.suspicion,
    }
    optional = {
        "confidence": found.confidence,
        "review": found.to_review,
        "truth": samples.truth,
        "id": samples.ids,
    }
    columns |= {name: value for name, value in optional.items() if value is not None}
    return columns | cleaned.issues.columns()


def _codes(samples: Samples) -> Any:
    if samples.classes is None:
        return lambda labels: labels
    return lambda labels: np.searchsorted(samples.classes, labels)  # classes are sorted


def _config(
    samples: Samples, cleaned: Cleaned, encoder: str, how: Folds
) -> dict[str, dict[str, Any]]:
    """How to run it again, and what came out."""
    import sklearn

    found, names = cleaned.correction, samples.class_names
    return {
        "run": {
            "command": samples.about.get("command"),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": how.seed,
        },
        "versions": {
            "adacorr": __version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "data": {
            **{k: v for k, v in samples.about.items() if k != "command"},
            "samples": len(samples),
            "class_names": list(names),
        },
        "correct": {"delta": "auto"},
        "clean": {
            "kind": samples.kind,
            "encoder": encoder,
            "models": list(cleaned.by_model),
            "folds": how.count,
            "repeats": how.repeated(len(samples)),
            "notes": list(cleaned.notes),
        },
        "result": {
            "rows": len(samples),
            "flipped": found.n_flipped,
            "noise_rate": found.noise_rate,
            "expected_wrong_flips": found.expected_wrong_flips,
            "expected_missed_errors": found.expected_missed_errors,
            "note": found.note or None,
        },
        "issues": {
            **cleaned.issues.counts(),
            "sentences": sentences(cleaned.issues, names),
        },
    }

"""The run directory of a clean: what the report, the review page and a later session read."""

from __future__ import annotations

import os
import stat
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacorr._version import __version__
from adacorr.cleaning.encoders.encoded import OWN
from adacorr.cleaning.folds import Folds
from adacorr.cleaning.samples import Columns, Samples
from adacorr.core.validation import InputError, check_fields
from adacorr.correction.rundir import ANSWERED, sentence, stated
from adacorr.data.identity import contents, source_digest
from adacorr.files import atomic, read_toml
from adacorr.runs.directory import Run, write_labels, write_toml
from adacorr.runs.manifest import FILES, check, seal, unseal
from adacorr.runs.schema import FORMAT

if TYPE_CHECKING:
    from adacorr.cleaning.clean import Cleaned


SEALED = (*FILES, "features.npy")
"""What is complete when a clean is."""


def begin(folder: Path, resume: bool) -> Path:
    """A new folder, or with `resume` one of an earlier clean, finished or not."""
    if not resume and folder.exists() and not _is_new(folder):
        raise InputError(f"{folder}: expected a new run directory, got one with files; resume it?")
    if resume and not (folder / "cache").is_dir():
        raise InputError(f"{folder}: expected a run of `adacorr clean` to go on with, got none")
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    _check_own(folder)
    check(folder / "features.npy")
    unseal(folder, set(SEALED) - set(FILES))  # the others change when this clean is complete
    return folder


def _is_new(folder: Path) -> bool:
    """Empty, or left by a clean that was killed before it had written how to go on."""
    cache = folder / "cache"
    if any(place != cache for place in folder.iterdir()):
        return False
    inside = list(cache.iterdir()) if cache.is_dir() else []
    return all(place.match(".settings.toml.*.tmp") for place in inside)


def _check_own(folder: Path) -> None:
    """Arrays are written in place, so nothing there may be a file of somewhere else."""
    for place in (folder / "cache", *folder.glob("*.npy"), *(folder / "cache").iterdir()):
        found = os.lstat(place)
        own = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if not own and not (place == folder / "cache" and stat.S_ISDIR(found.st_mode)):
            raise InputError(f"{place}: expected a file of this run alone, got a link or a device")


def write_settings(folder: Path, samples: Samples, encoder: str | None, how: Folds) -> None:
    """How to go on with this run when it is stopped."""
    entries = {
        "data": dict(samples.about),
        "clean": {"encoder": encoder},
        "folds": {"count": how.count, "repeats": how.repeats, "seed": how.seed},
    }
    write_toml(folder / "cache" / "settings.toml", entries)


def read_settings(folder: Path) -> tuple[str, Columns, str | None, Folds]:
    """What :func:`write_settings` noted: data, columns, encoder and folds."""
    path = folder / "cache" / "settings.toml"
    if not path.is_file():
        raise InputError(f"{folder}: expected a run of `adacorr clean`, got no {path.name} in it")
    try:
        found = read_toml(path)
        data, folds = found["data"], found["folds"]
        names = {entry.name for entry in fields(Columns)}
        choice: Any = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in names
        }
        check_fields(Columns, choice, f"{path}: data")
        check_fields(Folds, folds, f"{path}: folds")
        return str(data["source"]), Columns(**choice), found["clean"].get("encoder"), Folds(**folds)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: expected a run of `adacorr clean`, got {error}") from error


def trusted(encoder: str | None, named: str | None, where: Path) -> str | None:
    """The run's encoder. Another than adacorr's own only if the caller has `named` it too.

    Others are code that is imported, or models that are fetched, and a run directory may come from
    anywhere.
    """
    if named not in (None, encoder):
        raise InputError(f"--encoder: expected {encoder or 'none'} as in the run, got {named}")
    if encoder is not None and encoder not in OWN and named is None:
        raise InputError(
            f"{where}: expected an encoder of adacorr's, got {encoder!r}, which is code or a model "
            f"of somebody's; if you trust it, say so: --encoder {encoder}"
        )
    return encoder


def write_results(folder: Path, cleaned: Cleaned, encoder: str, how: Folds) -> Run:
    """labels.parquet, pred_probs.npy and config.toml, each whole or not there."""
    run = Run(folder)
    unseal(folder, SEALED)
    with atomic(run.file("pred_probs.npy")) as path, open(path, "wb") as handle:
        np.save(handle, cleaned.pred_probs)
    write_toml(run.file("config.toml"), _config(cleaned, encoder, how))
    write_labels(run.file("labels.parquet"), _columns(cleaned))
    seal(folder, SEALED)
    return run


def _columns(cleaned: Cleaned) -> dict[str, Any]:
    found, samples = cleaned.correction, cleaned.samples
    code = samples.codec.encode
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
        "content": _contents(samples),
        "decided_by": found.decided_by,
        "alternative": None if found.alternative is None else code(found.alternative),
    }
    columns |= {name: value for name, value in optional.items() if value is not None}
    return columns | {"unjudged": ~cleaned.judged} | cleaned.issues.columns()


def _contents(samples: Samples) -> Any:
    """A fingerprint of each file of a folder: one that changed is not shown as if it had not."""
    folder = Path(str(samples.about.get("source", "")))
    readable = samples.ids is not None and samples.about.get("source") and folder.is_dir()
    return contents(folder, samples.ids) if readable and samples.ids is not None else None


def _digest(samples: Samples) -> str | None:
    """Of the file that the samples came from; the files of a folder have one each."""
    path = Path(str(samples.about.get("source", "")))
    return source_digest([path]) if path.is_file() else None


def _config(cleaned: Cleaned, encoder: str, how: Folds) -> dict[str, dict[str, Any]]:
    """How to run it again, and what came out."""
    import sklearn

    found, samples = cleaned.correction, cleaned.samples
    names, models = samples.class_names, list(cleaned.by_model)
    return {
        "run": {
            "format": FORMAT,
            "kind": "clean",
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
            "source_sha256": _digest(samples),
            "samples": len(samples),
            "class_names": list(names),
        },
        "rule": {
            "sentence": sentence("auto") if found.certificate is None else ANSWERED,
            "decision": "the automatic rule on out-of-fold predictions of " + ", ".join(models),
        },
        "correct": {"delta": "auto"},
        "clean": {
            "kind": samples.kind,
            "encoder": encoder,
            "models": models,
            "folds": how.count,
            "repeats": how.repeated(len(samples)),
            "notes": list(samples.notes),
        },
        "result": {
            "rows": len(samples),
            "flipped": found.n_flipped,
            **stated(found),
        },
        "issues": {
            **cleaned.issues.counts(),
            "sentences": cleaned.also,
        },
    }

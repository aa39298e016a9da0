"""Writes the run directory of a fit; only the first rank does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import nn

from adacorr._version import __version__
from adacorr.core.lrt import likelihood_ratio
from adacorr.core.validation import InputError
from adacorr.correction.rundir import ANSWERED, sentence, stated
from adacorr.files import atomic, sync
from adacorr.runs.directory import Run, write_labels, write_toml
from adacorr.runs.manifest import FILES, seal, unseal
from adacorr.runs.schema import FORMAT
from adacorr.train.engine import Engine
from adacorr.train.handout import HandOut
from adacorr.train.state import flatten, load_checkpoint, save_checkpoint

NO_RULE = "A model was trained, and no label was to be changed."
PREDICTED_BY = "the noise model, fitted to predictions by nets that did not learn from the row"


def label_columns(
    given: NDArray[np.int64], pred_probs: NDArray[np.float32], handed: HandOut | None
) -> dict[str, NDArray[Any]]:
    """The columns of labels.parquet: the rule's word, or the ratio alone where none was asked."""
    found = None if handed is None else handed.correction
    if found is None:
        suggested, ratio = likelihood_ratio(given, pred_probs)
        corrected, flipped = given, np.zeros(len(given), dtype=bool)
    else:
        suggested, ratio, corrected = found.suggested, found.ratio, found.labels
        flipped = found.flipped
    columns = {
        "index": np.arange(len(given)),
        "given": given,
        "corrected": corrected,
        "ratio": ratio,
        "flipped": flipped,
        "suggested": suggested,
    }
    if found is not None:
        more = {
            "confidence": found.confidence,
            "review": found.to_review,
            "suspicion": found.suspicion,
            "alternative": found.alternative,
            "decided_by": found.decided_by,
        }
        columns |= {name: column for name, column in more.items() if column is not None}
    return columns


class RunWriter:
    """config.toml at the start, metrics and a checkpoint per epoch, the results at the end."""

    def __init__(
        self,
        path: Path,
        engine: Engine,
        classes: Sequence[str],
        net: object,
        config: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.run, self.engine = Run(path), engine
        self.config = run_config(engine, classes, net, config)
        self.identity = run_identity(engine)

    def begin(self, resume: bool, log: Callable[[str], None]) -> None:
        """Start afresh in an empty directory, or go on from its last whole checkpoint."""
        first = self.engine.ranks.first
        if resume:
            saved = load_checkpoint(self.run.file("checkpoint"), log)
            try:
                _check_identity(saved.values["identity"], self.identity)
                self.engine.restore(saved)
            except (KeyError, TypeError, AttributeError, RuntimeError) as error:
                raise InputError(
                    f"{self.run.file('checkpoint')}: expected a checkpoint of this run as this "
                    f"version of adacorr saves it, got another one ({error})"
                ) from error
        elif first:
            if self.run.file("config.toml").exists():
                raise InputError(
                    f"{self.run.path}: expected a new run directory, got one with a run in it; "
                    f"resume it or choose another"
                )
            # In this order: where config.toml is, there is something to resume from, so a kill
            # at any moment leaves a directory that is either resumed or started again.
            self._save()
            write_toml(self.run.file("config.toml"), self.config)
        if first:
            unseal(self.run.path, FILES)  # of a finished run that is resumed
            lines = [json.dumps(record) + "\n" for record in self.engine.state.history]
            with atomic(self.run.file("metrics.jsonl")) as path:
                path.write_text("".join(lines), encoding="utf-8")
        self.engine.ranks.barrier()

    def after_epoch(self) -> None:
        if not self.engine.ranks.first:
            return
        with open(self.run.file("metrics.jsonl"), "a", encoding="utf-8") as handle:
            handle.write(json.dumps(self.engine.state.history[-1]) + "\n")
        self._save()

    def _save(self) -> None:
        checkpoint = self.engine.checkpoint()
        checkpoint.values["identity"] = self.identity
        save_checkpoint(self.run.file("checkpoint"), checkpoint)

    def finish(
        self, pred_probs: NDArray[np.float32], val: NDArray[np.int64], handed: HandOut | None
    ) -> Run:
        """`pred_probs` of the model; without `handed` no label was to be corrected."""
        if self.engine.ranks.first:
            self._write_model()
            f = pred_probs if handed is None else handed.pred_probs
            with atomic(self.run.file("pred_probs.npy")) as path, open(path, "wb") as handle:
                np.save(handle, f)
            columns = label_columns(self.engine.job.labels, f, handed)
            columns["split"] = np.full(len(f), "train", dtype=object)
            columns["split"][val] = "validation"
            write_labels(self.run.file("labels.parquet"), columns)
            self._write_result(columns["flipped"], handed)
            sync(self.run.file("metrics.jsonl"))  # what was appended; the others are
            seal(self.run.path, FILES)
        self.engine.ranks.barrier()
        return self.run

    def _write_result(self, flipped: NDArray[np.bool_], handed: HandOut | None) -> None:
        """What came out, beside how to run it again."""
        result: dict[str, Any] = {"rows": len(flipped), "flipped": int(flipped.sum())}
        # The file on disk, not self.config: a resumed run keeps its own beginning.
        begun = {k: v for k, v in self.run.config().items() if isinstance(v, dict)}
        rule = {"sentence": NO_RULE, "decision": "the net of the selected epoch"}
        if handed is not None:
            found = handed.correction
            said = sentence("auto") if found.certificate is None else ANSWERED
            rule = {"sentence": said, "decision": PREDICTED_BY}
            withheld = f"no label is changed: {handed.withheld}" if handed.withheld else ""
            result |= {
                **stated(found),
                "noise_rate_from": PREDICTED_BY,
                "note": withheld or found.note or None,
            }
        write_toml(self.run.file("config.toml"), {**begun, "rule": rule, "result": result})

    def _write_model(self) -> None:
        state = self.engine.state
        scaling = state.model.scaling
        tensors = flatten(
            net=state.model.weights(), scaling={"mean": scaling.mean, "std": scaling.std}
        )
        about = {
            "kind": scaling.kind,
            "stage": self.engine.method.stage,
            "epoch": state.best_epoch,
        }
        # One entry, because safetensors writes several in no fixed order.
        with atomic(self.run.file("model.safetensors")) as path:
            path.write_bytes(save(tensors, {"adacorr": json.dumps(about)}))


def run_config(
    engine: Engine, classes: Sequence[str], net: object, extra: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What config.toml holds: how to run it again."""
    source = engine.job.feed.source
    config: dict[str, dict[str, Any]] = {
        "run": {
            "format": FORMAT,
            "kind": "fit",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "adacorr": __version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "processes": engine.ranks.size,
        },
        "data": {
            "samples": len(source),
            "input_shape": list(source.shape),
            "class_names": list(classes),
        },
        "method": {"name": engine.method.name, **_method_fields(engine.method)},
        "train": {"net": net_name(net), **asdict(engine.settings)},
    }
    for table, entries in extra.items():
        config.setdefault(table, {}).update(entries)
    return config


def net_name(net: object) -> str:
    """How to find the net again; empty means: chosen by the input's shape."""
    if net is None or isinstance(net, str):
        return net or ""
    kind = type(net) if isinstance(net, nn.Module) else net
    return f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', repr(kind))}"


def _method_fields(method: object) -> dict[str, Any]:
    if not is_dataclass(method):
        return {}
    return {f.name: getattr(method, f.name) for f in fields(method) if f.init}


def run_identity(engine: Engine) -> dict[str, Any]:
    """What must not differ between a run and its resumption."""
    settings = asdict(engine.settings)
    del settings["workers"]  # does not change the result
    return {
        "samples": _fingerprint(engine),
        "labels": hashlib.sha256(engine.job.labels.tobytes()).hexdigest(),
        "classes": engine.job.n_classes,
        "method": f"{engine.method.name} {_method_fields(engine.method)}",
        **settings,
    }


_LOOKED_AT = 256  # samples, spread evenly: all of a lazy source would cost an epoch


def _fingerprint(engine: Engine) -> str:
    """Tells replaced samples: all bytes of arrays up to a gigabyte, else some of the samples."""
    source = engine.job.feed.source
    held = getattr(source, "data", None)
    digest = hashlib.sha256()
    if held is not None and held.nbytes <= 1 << 30:
        digest.update(held.cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()
    n = len(source)
    rows = torch.from_numpy(np.unique(np.linspace(0, n - 1, min(n, _LOOKED_AT)).astype(np.int64)))
    for batch in source.batches([rows]):
        digest.update(batch.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _check_identity(saved: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if name == "samples" and name not in saved:  # of a version that did not look
            continue
        if name in ("samples", "labels") and saved.get(name) != value:
            raise InputError(f"resume: expected the run's own {name}, got others")
        if saved.get(name) != value:
            raise InputError(
                f"resume: expected the run's own {name}, {saved.get(name)}, got {value}"
            )

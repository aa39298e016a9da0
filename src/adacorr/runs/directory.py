"""A run directory on disk: names, atomic writes, checked reads. Needs no torch.

    config.toml        how to run it again: [run], [data], [method], ...
    metrics.jsonl      one line per epoch
    labels.parquet     a row per sample; :mod:`adacorr.runs.schema` says what its columns are
    pred_probs.npy     (N, K) float32
    features.npy       (N, D) float32, of `clean`
    model.safetensors  weights
    manifest.json      SHA-256 of all these, once the run is finished
    checkpoint/        what resume needs
    report.html, review.sqlite

Everything downstream of training (predict, report, review, theory, bench) reads only this.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.files import atomic, read_toml
from adacorr.runs.manifest import CheckedRows, check, seal, unseal
from adacorr.runs.schema import REQUIRED_COLUMNS
from adacorr.tables import parquet

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CLASSES = 100_000


def write_toml(path: Path, config: Mapping[str, Mapping[str, Any]]) -> None:
    """Write tables of plain values; ``tomllib`` reads back what went in, except None entries."""
    with atomic(path) as temporary:
        temporary.write_text(dump_toml(config), encoding="utf-8")


def dump_toml(config: Mapping[str, Mapping[str, Any]]) -> str:
    """One level of tables with strings, numbers, booleans and lists; None entries are left out.

    >>> print(dump_toml({"run": {"seed": 1, "names": ["a b", 'say "x"']}}), end="")
    [run]
    seed = 1
    names = ["a b", "say \\"x\\""]
    """
    blocks = []
    for table, entries in config.items():
        lines = [f"{_key(k)} = {_value(v)}" for k, v in entries.items() if v is not None]
        blocks.append("\n".join([f"[{_key(table)}]", *lines, ""]))
    return "\n".join(blocks)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "_").isidentifier()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):  # TOML writes inf and nan as Python does
        return repr(value)
    if isinstance(value, str | os.PathLike):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple | np.ndarray):
        return f"[{', '.join(_value(v) for v in value)}]"
    raise InputError(f"config: expected plain values, got {type(value).__name__}")


def write_labels(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write ``labels.parquet``; every column has one entry per sample."""
    import pyarrow as pa

    with atomic(path) as temporary:
        parquet.write(pa.table(dict(columns)), temporary)


def add_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Add columns to ``labels.parquet`` after training: the truth for scoring, the user's ids."""
    table = parquet.read(path)
    old = {name: table[name].to_numpy() for name in table.column_names}
    unseal(path.parent, [path.name])
    write_labels(path, {**old, **columns})
    seal(path.parent, [path.name])


@dataclass(frozen=True)
class Run:
    """Paths and checked reads of one run directory."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """An existing run directory, or one line that says what is missing."""
        run = cls(Path(path))
        if not run.path.is_dir():
            raise InputError(f"{path}: expected a run directory, got no such folder")
        for name in ("config.toml", "labels.parquet"):
            if not (run.path / name).is_file():
                raise InputError(f"{path}: expected a run directory with {name}, got none")
        return run

    def _repr_html_(self) -> str:
        """What a notebook shows: what the run says of itself, and its first suspects."""
        from adacorr.runs.shown import run_html

        return run_html(self)

    def file(self, name: str) -> Path:
        return self.path / name

    def config(self) -> dict[str, Any]:
        path = self.file("config.toml")
        check(path)
        return read_toml(path)

    def table(self, name: str) -> dict[str, Any]:
        """A table of config.toml; empty when there is none."""
        found = self.config().get(name, {})
        if not isinstance(found, dict):
            raise InputError(f"{self.file('config.toml')}: expected a table [{name}], got {found}")
        return found

    def class_names(self) -> list[str]:
        names = self.table("data").get("class_names", [])
        if not isinstance(names, list) or len(names) < 2:
            raise InputError(f"{self.file('config.toml')}: expected data.class_names, a list")
        return [str(name) for name in names]

    def metrics(self) -> list[dict[str, Any]]:
        """Per-epoch records; a last line cut short by a kill is ignored."""
        path = self.file("metrics.jsonl")
        if not path.is_file():
            return []
        check(path)
        records = []
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                records.append(json.loads(line))
        return [record for record in records if isinstance(record, dict)]

    def labels(self) -> pa.Table:
        """The label table, checked for its columns."""
        path = self.file("labels.parquet")
        check(path)
        table = parquet.read(path)
        missing = [name for name in REQUIRED_COLUMNS if name not in table.column_names]
        if missing:
            raise InputError(f"{path}: expected columns {REQUIRED_COLUMNS}, got none of {missing}")
        return table

    def pred_probs(self) -> CheckedRows | None:
        """(N, K) probabilities as a read-only memory map, or None when the run has none."""
        return self._rows("pred_probs.npy")

    def features(self) -> CheckedRows | None:
        """(N, D) what `clean` has encoded; None when the run has none."""
        return self._rows("features.npy")

    def _rows(self, name: str) -> CheckedRows | None:
        path = self.file(name)
        if path.is_symlink():
            raise InputError(f"{path}: expected a file inside the run directory, got a link")
        if not path.is_file():
            return None
        try:
            with warnings.catch_warnings():  # about headers written by Python 2
                warnings.simplefilter("ignore")
                array = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # a damaged header fails in numpy's parser in a dozen ways
            raise InputError(f"{path}: expected a plain .npy array, got {error}") from error
        if not isinstance(array, np.memmap):
            raise InputError(f"{path}: expected one .npy array, got something else")
        return CheckedRows(path, array)

"""A grid file (TOML) -> the list of cells to run.

name = "mnist-10k"
datasets = ["mnist"]
noise = ["uniform:0.4", "pair:0.4"]      # "none" keeps the labels as they are
methods = ["standard", "adacorr", "adacorr-released"]
seeds = [1, 2, 3]

[train]                                  # passed to adacorr.train.fit for every cell
epochs = 30
net = "cnn"

[dataset.mnist]                          # overrides for one dataset: subset, and [train] keys
subset = 10000

[method.adacorr-released]                # a name of your own: a method and its fields
method = "adacorr"
recipe = "released"

[[extra]]                                # further cells, same keys as above
noise = ["none"]
methods = ["standard"]
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from adacorr.core.validation import InputError

AXES = ("datasets", "noise", "methods", "seeds")
TABLES = ("train", "dataset", "method")
DATASET_KEYS = ("subset", "image_size")


@dataclass(frozen=True)
class Cell:
    """One training run of a grid; its key names it across sessions and machines."""

    dataset: str
    noise: str
    method: str  # the name in the table
    seed: int
    data: dict[str, Any] = field(default_factory=dict)  # how to load: subset, ...
    train: dict[str, Any] = field(default_factory=dict)  # arguments of adacorr.train.fit
    fields: dict[str, Any] = field(default_factory=dict)  # "method" and its fields

    @property
    def key(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Grid:
    name: str
    cells: tuple[Cell, ...]


def smoke(grid: Grid) -> Grid:
    """The same cells at a size that takes minutes: first seed and noise, one epoch, 64 samples."""
    seen: dict[tuple[str, str], Cell] = {}
    for cell in grid.cells:
        small = replace(cell, data=cell.data | {"subset": 64}, train=cell.train | {"epochs": 1})
        seen.setdefault((cell.dataset, cell.method), small)
    return Grid(f"{grid.name}-smoke", tuple(seen.values()))


def read_grid(path: str | Path) -> Grid:
    """Read and check a grid file; every mistake is one line that names the file and the key."""
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: expected a grid file, got no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: expected readable TOML, got {error}") from error
    return _parse(document, path)


def _parse(document: dict[str, Any], path: Path) -> Grid:
    try:
        json.dumps(document)
    except TypeError as error:  # TOML knows dates, a record does not
        raise InputError(f"{path}: expected texts, numbers and lists, got {error}") from error
    unknown = set(document) - {"name", "extra", *AXES, *TABLES}
    if unknown:
        raise InputError(f"{path}: expected keys {AXES + TABLES}, got {sorted(unknown)}")
    for table in TABLES:
        if not isinstance(document.get(table, {}), dict):
            raise InputError(f"{path}: expected a table [{table}], got {document[table]!r}")
    extras = document.get("extra", [])
    if not isinstance(extras, list) or not all(isinstance(extra, dict) for extra in extras):
        raise InputError(f"{path}: expected tables [[extra]], got {extras!r}")
    blocks = [document, *({**document, **extra} for extra in extras)]
    cells: dict[str, Cell] = {}
    for block in blocks:
        for cell in _block_cells(block, path):
            cells.setdefault(cell.key, cell)
    return Grid(str(document.get("name", path.stem)), tuple(cells.values()))


def _block_cells(block: dict[str, Any], path: Path) -> list[Cell]:
    for axis in AXES:
        values = block.get(axis)
        kind = int if axis == "seeds" else str
        if not isinstance(values, list) or not values:
            raise InputError(f"{path}: expected {axis}, a non-empty list, got {values!r}")
        if not all(isinstance(value, kind) for value in values):
            raise InputError(f"{path}: expected {axis} of type {kind.__name__}, got {values!r}")
    return [
        _cell(block, dataset, noise, method, seed, path)
        for seed in block["seeds"]  # seeds outermost: a stopped grid has whole tables
        for dataset in block["datasets"]
        for noise in block["noise"]
        for method in block["methods"]
    ]


def _cell(
    block: dict[str, Any], dataset: str, noise: str, method: str, seed: int, path: Path
) -> Cell:
    def table(parent: dict[str, Any], name: str, place: str) -> dict[str, Any]:
        found = parent.get(name, {})
        if not isinstance(found, dict):
            raise InputError(f"{path}: expected a table [{place}], got {found!r}")
        return dict(found)

    own = table(table(block, "dataset", "dataset"), dataset, f"dataset.{dataset}")
    data = {key: own.pop(key) for key in DATASET_KEYS if key in own}
    for key, value in data.items():
        if type(value) is not int:
            raise InputError(f"{path}: expected {key} of type int, got {value!r}")
    fields = table(table(block, "method", "method"), method, f"method.{method}")
    # A dataset may set the fields of a method as well: [dataset.mnist.method.adacorr]
    more = table(own, "method", f"dataset.{dataset}.method")
    own.pop("method", None)
    fields.update(table(more, method, f"dataset.{dataset}.method.{method}"))
    fields.setdefault("method", method)
    train = table(block, "train", "train")
    return Cell(dataset, noise, method, seed, data, {**train, **own}, fields)

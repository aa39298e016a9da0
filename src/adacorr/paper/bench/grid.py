"""A grid file (TOML) -> the list of cells to run.

name = "mnist-10k"
datasets = ["mnist"]
noise = ["uniform:0.4", "pair:0.4"]      # "none" keeps the labels as they are
methods = ["standard", "adacorr", "adacorr-released"]
seeds = [1, 2, 3]

[train]                                  # passed to adacorr.train.fit for every cell
epochs = 30
net = "cnn"

[dataset.mnist]                          # for one dataset: subset, paper_split, and [train] keys
subset = 10000

[dataset.mnist.noise.pair]               # for one kind of noise on it ("uniform:0.8": one rate)
lr = 5e-4

[method.adacorr-released]                # a name of your own: a method and its fields
method = "adacorr"
recipe = "released"
train = { optimizer = "radamw" }         # and [train] keys of its own

[[extra]]                                # further cells, same keys as above
noise = ["none"]
methods = ["standard"]
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from adacorr.core.validation import InputError
from adacorr.files import read_toml

AXES = ("datasets", "noise", "methods", "seeds")
TABLES = ("train", "dataset", "method")
DATASET_KEYS = {"subset": int, "image_size": int, "paper_split": bool, "test_subset": int}
SMOKE_SAMPLES, SMOKE_TEST, SMOKE_EPOCHS = 64, 32, 3
"""Three epochs: a method with two stages and a warm-up needs them."""


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
    """The same cells at a size that takes minutes: first seed and noise, few samples and epochs."""
    seen: dict[tuple[str, str], Cell] = {}
    for cell in grid.cells:
        data = cell.data | {"subset": SMOKE_SAMPLES, "test_subset": SMOKE_TEST}
        small = replace(cell, data=data, train=cell.train | {"epochs": SMOKE_EPOCHS})
        seen.setdefault((cell.dataset, cell.method), small)
    return Grid(f"{grid.name}-smoke", tuple(seen.values()))


def read_grid(path: str | Path) -> Grid:
    """Read and check a grid file; every mistake is one line that names the file and the key."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: expected a grid file, got no such file")
    return _parse(read_toml(path), path)


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
    """The cell's settings, from the general to the special: later tables win."""
    places = [(block, "")]
    if own := _table(block, ("dataset", dataset), path):
        places.append((own, f"dataset.{dataset}."))
        kinds = (noise.partition(":")[0], noise)  # the kind, then this rate of it
        above = f"dataset.{dataset}."
        places += [(_table(own, ("noise", n), path, above), f"{above}noise.{n}.") for n in kinds]
    train: dict[str, Any] = _table(block, ("train",), path)
    fields: dict[str, Any] = {}
    for table, place in places:
        if place:
            train |= {k: v for k, v in table.items() if k not in ("method", "noise")}
        fields |= _table(table, ("method", method), path, place)
    data = {key: train.pop(key) for key in DATASET_KEYS if key in train}
    for key, value in data.items():
        if type(value) is not DATASET_KEYS[key]:
            kind = DATASET_KEYS[key].__name__
            raise InputError(f"{path}: expected {key} of type {kind}, got {value!r}")
    train |= _table(fields, ("train",), path, f"method.{method}.")
    fields.pop("train", None)
    fields.setdefault("method", method)
    return Cell(dataset, noise, method, seed, data, train, fields)


def _table(
    parent: dict[str, Any], names: tuple[str, ...], path: Path, place: str = ""
) -> dict[str, Any]:
    """A copy of the table at `names` below `parent`; empty where there is none."""
    found: Any = parent
    for name in names:
        found, place = found.get(name, {}), f"{place}{name}."
        if not isinstance(found, dict):
            raise InputError(f"{path}: expected a table [{place[:-1]}], got {found!r}")
    return dict(found)

"""Smoke runs of the large grids, on made-up data in the true file formats."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

from adacorr.paper.bench.grid import Cell, read_grid, smoke
from adacorr.paper.bench.run import load_cell, run_cell

GRIDS = Path(__file__).parents[3] / "grids"
SMALL = {"preact34": "preact:depth=8,width=2", "resnet50-pretrained": "preact:depth=8,width=2"}


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """100 training and 40 test samples of every dataset of the paper."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    write_mnist(folder / "MNIST" / "raw", rng)
    write_cifar(folder / "cifar10", "cifar-10-batches-bin", 10, 20, rng)
    write_cifar(folder / "cifar100", "cifar-100-binary", 100, 100, rng)
    write_modelnet(folder / "modelnet40" / "modelnet40_ply_hdf5_2048", rng)
    write_clothing(folder / "clothing1m", rng)
    return folder


@pytest.fixture(autouse=True)
def only_these(root, tmp_path, monkeypatch):
    monkeypatch.setenv("ADACORR_DATA", str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.set_num_threads(1)


def write_mnist(folder: Path, rng) -> None:
    folder.mkdir(parents=True)
    for part, n in (("train", 100), ("t10k", 40)):
        arrays = {
            "images-idx3": rng.integers(0, 256, (n, 28, 28)),
            "labels-idx1": np.arange(n) % 10,
        }
        for name, array in arrays.items():
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            raw = gzip.compress(head + array.astype(np.uint8).tobytes())
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(raw)


def write_cifar(folder: Path, inner: str, k: int, batch: int, rng) -> None:
    """The binary release, packed."""
    folder.mkdir()
    if k == 10:
        names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
        files = {"batches.meta.txt": "\n".join(f"c{c}" for c in range(10))}
    else:
        names, files = (
            ["train", "test"],
            {"fine_label_names.txt": "\n".join(f"c{c:02}" for c in range(100))},
        )
    with tarfile.open(
        folder / f"{'cifar-10' if k == 10 else 'cifar-100'}-binary.tar.gz", "w:gz"
    ) as out:
        for name in names:
            n = 40 if "test" in name else batch
            labels = (np.arange(n) % k)[:, None]
            head = [labels] if k == 10 else [labels // 5, labels]
            pixels = rng.integers(0, 256, (n, 3072))
            files[f"{name}.bin"] = np.hstack([*head, pixels]).astype(np.uint8).tobytes()
        for name, content in files.items():
            raw = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(f"{inner}/{name}")
            info.size = len(raw)
            out.addfile(info, io.BytesIO(raw))


def write_modelnet(folder: Path, rng) -> None:
    folder.mkdir(parents=True)
    (folder / "shape_names.txt").write_text("\n".join(f"shape{i:02}" for i in range(40)))
    for name, n in (("ply_data_train0", 100), ("ply_data_test0", 40)):
        with h5py.File(folder / f"{name}.h5", "w") as handle:
            handle["data"] = rng.normal(size=(n, 2048, 3)).astype(np.float32)
            handle["label"] = (np.arange(n) % 40).astype(np.uint8)[:, None]


def write_clothing(folder: Path, rng) -> None:
    parts = {"noisy_train": 100, "clean_val": 40, "clean_test": 40}
    lines = {"noisy": [], "clean": []}
    for part, n in parts.items():
        keys = [f"images/{part}/{i}.jpg" for i in range(n)]
        for i, key in enumerate(keys):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / key)
            lines[part.partition("_")[0]].append(f"{key} {i % 14}")
        (folder / f"{part}_key_list.txt").write_text("\n".join(keys) + "\n")
    for kind, entries in lines.items():
        (folder / f"{kind}_label_kv.txt").write_text("\n".join(entries) + "\n")


def small(cell: Cell) -> Cell:
    """The same cell with a net that takes a test's time, not a minute."""
    net = SMALL.get(cell.train["net"], cell.train["net"])
    data = cell.data | ({"image_size": 16} if "image_size" in cell.data else {})
    if net == "pointnet":  # the slowest by far: few clouds, and the whole net for one method only
        data |= {"subset": 8, "test_subset": 4}
        net = net if cell.method == "coteaching" else "mlp:hidden=8"
    return replace(cell, data=data, train=cell.train | {"net": net})


@pytest.mark.parametrize("name", ["paper", "clothing1m"])
def test_a_smoke_run_tries_every_dataset_and_method(name):
    grid = read_grid(GRIDS / f"{name}.toml")
    cells = smoke(grid).cells
    wanted = {(cell.dataset, cell.method) for cell in grid.cells}
    assert {(cell.dataset, cell.method) for cell in cells} == wanted
    for cell in cells:
        record = run_cell(small(cell))
        assert len(record["curves"]["test_accuracy"]) == 3, (cell.dataset, cell.method)


def test_the_tiny_data_are_tiny_in_every_part():
    (cell,) = (
        c for c in smoke(read_grid(GRIDS / "paper.toml")).cells
        if (c.dataset, c.method) == ("mnist", "standard")
    )  # fmt: skip
    data = load_cell(cell)
    assert (len(data.train), len(data.validation[1]), len(data.test)) == (64, 10, 32)


def test_the_papers_validation_part_is_as_noisy_as_the_training_part():
    cell = Cell("mnist", "uniform:0.8", "standard", 1, {"paper_split": True})
    data = load_cell(cell)
    assert len(data.train) == 90  # 45,000 and 5,000 of 50,000, in small
    _, held_out = data.validation
    clean = load_cell(replace(cell, noise="none"))
    assert 0.6 < (data.train.labels != data.truth).mean() < 0.95
    assert (held_out != clean.validation[1]).any()


def test_labels_without_a_truth_are_not_scored():
    """Clothing1M: nobody knows its training labels; its clean list selects the epoch."""
    grid = smoke(read_grid(GRIDS / "clothing1m.toml"))
    (cell,) = (c for c in grid.cells if c.method == "standard")
    cell = small(cell)
    data = load_cell(cell)
    assert data.truth is None
    assert len(data.validation[1]) == 32
    record = run_cell(cell)
    for name in ("label_accuracy_before", "label_accuracy_after", "flip_precision", "flip_recall"):
        assert record[name] is None
    assert "label_accuracy" not in record["curves"]
    assert len(record["curves"]["val_accuracy"]) == 3

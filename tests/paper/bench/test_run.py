"""A grid end to end on real digits: records, resume, failures."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.paper.bench.grid import read_grid
from adacorr.paper.bench.records import RecordFile, read_records
from adacorr.paper.bench.run import check_cells, device_of, run_grid

GRIDS = Path(__file__).parents[3] / "grids"
GRID = """
name = "tiny"
datasets = ["digits"]
noise = ["uniform:0.4"]
methods = ["standard", "adacorr"]
seeds = [1]
[train]
epochs = 2
net = "mlp"
[dataset.digits]
subset = 300
"""


@pytest.fixture
def grid_file(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def test_records_hold_what_a_table_needs(grid_file, tmp_path):
    records = RecordFile(tmp_path / "r.jsonl")
    assert run_grid(read_grid(grid_file), records) == (2, [])
    standard, adacorr = read_records(records.path)
    assert (standard["method"], adacorr["method"]) == ("standard", "adacorr")
    assert len(standard["curves"]["test_accuracy"]) == 2
    assert standard["test_accuracy_last"] == standard["curves"]["test_accuracy"][-1]
    chosen = int(np.argmax(standard["curves"]["val_accuracy"][::-1]))  # the last of ties
    assert standard["selected_epoch"] == 2 - chosen
    assert 0.5 < standard["label_accuracy_before"] < 0.7
    assert standard["seconds"] > 0
    assert standard["peak_memory_mb"] > 10
    assert run_grid(read_grid(grid_file), records) == (0, [])  # nothing is run twice


def test_a_killed_grid_goes_on_where_it_was(grid_file, tmp_path):
    path = tmp_path / "r.jsonl"
    command = [sys.executable, "-m", "adacorr", "bench", "run", str(grid_file)]
    command += ["--output", str(path), "--quiet"]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = path.read_bytes()
    subprocess.run(command, check=True)
    assert path.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert sorted(keys) == sorted(cell.key for cell in read_grid(grid_file).cells)


def test_a_failing_cell_is_reported_and_has_no_record(grid_file, tmp_path):
    grid_file.write_text(GRID.replace('"mlp"', '"no_such_net"'))
    records = RecordFile(tmp_path / "r.jsonl")
    ran, failures = run_grid(read_grid(grid_file), records)
    assert ran == 0
    assert len(failures) == 2
    assert "no_such_net" in failures[0].reason
    assert records.finished() == set()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"adacorr"]', '"adacor"]', "expected a method of"),
        ('"uniform:0.4"', '"uniform:4"', "noise: expected"),
        ("[train]", "[method.adacorr]\ndeltta = 1\n[train]", "deltta"),
    ],
)
def test_mistakes_are_found_before_work_starts(grid_file, old, new, message):
    grid_file.write_text(GRID.replace(old, new))
    with pytest.raises(InputError, match=message):
        check_cells(read_grid(grid_file))


@pytest.mark.parametrize("path", sorted(GRIDS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_grids_of_the_repository_are_sound(path):
    check_cells(read_grid(path))


def test_the_paper_grid_is_the_papers_setting():
    grid = read_grid(GRIDS / "paper.toml")
    assert len(grid.cells) == 4 * 7 * 10 * 5
    cells = {(c.dataset, c.method, c.noise): c for c in grid.cells}
    assert cells["cifar10", "standard", "uniform:0.4"].train == {
        "epochs": 180, "batch_size": 128, "lr": 1e-3, "optimizer": "radamw", "net": "preact34"
    }  # fmt: skip
    assert all(cell.data == {"paper_split": True} for cell in grid.cells)
    assert cells["modelnet40", "adacorr", "pair:0.2"].train["net"] == "pointnet"
    assert cells["mnist", "adacorr", "pair:0.2"].fields["burn_in"] == 25
    assert cells["cifar100", "adacorr", "pair:0.2"].fields["burn_in"] == 30
    assert cells["cifar100", "adacorr-auto", "pair:0.2"].fields["burn_in"] == "auto"


@pytest.mark.parametrize(
    ("dataset", "start", "strong", "pair"),
    [("mnist", 10, 5, 5), ("cifar10", 25, 20, 20), ("cifar100", 25, 30, 25)],
)
def test_the_released_recipe_has_its_own_settings(dataset, start, strong, pair):
    cells = {
        (c.dataset, c.noise): c
        for c in read_grid(GRIDS / "paper.toml").cells
        if c.method == "adacorr-released"
    }
    found = [cells[dataset, n] for n in ("uniform:0.4", "uniform:0.8", "pair:0.3")]
    assert [cell.fields["burn_in"] for cell in found] == [start, strong, pair]
    assert {cell.train["batch_size"] for cell in found} == {64 if dataset == "mnist" else 128}
    clouds = cells["modelnet40", "uniform:0.4"]
    assert clouds.fields["burn_in"] == 10
    assert clouds.train["lr"] == 2e-3
    assert clouds.train["augment"] is True


def test_workers_have_a_gpu_each_in_turn():
    assert [device_of(slot, 2, None) for slot in range(4)] == ["0", "1", "0", "1"]
    assert [device_of(slot, 3, "5,GPU-a,2") for slot in range(4)] == ["5", "GPU-a", "2", "5"]

import errno
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from torch import nn

from adacorr.core.validation import InputError
from adacorr.train.state import (
    Checkpoint,
    flatten,
    load_checkpoint,
    load_optimizer,
    locked,
    optimizer_tensors,
    save_checkpoint,
    stream,
)


def saved(folder, epochs):
    for epoch in epochs:
        tensors = flatten(nets={"w": torch.arange(3.0) + epoch}, labels={"current": torch.ones(2)})
        save_checkpoint(folder, Checkpoint(epoch, tensors, {"history": [{"epoch": epoch}]}))


def never(line):
    pytest.fail(f"unexpected warning: {line}")


def test_round_trip_and_only_the_last_two_stay(tmp_path):
    saved(tmp_path, [1, 2, 3])
    found = load_checkpoint(tmp_path, never)
    assert found.epoch == 3
    assert found.values == {"history": [{"epoch": 3}]}
    assert found.group("nets")["w"].tolist() == [3, 4, 5]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["epoch-000002", "epoch-000003"]


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damage_is_refused_and_the_one_before_is_used(tmp_path, name, damage):
    saved(tmp_path, [4, 5])
    path = tmp_path / "epoch-000005" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    warnings = []
    assert load_checkpoint(tmp_path, warnings.append).epoch == 4
    assert len(warnings) == 1
    assert "epoch-000005: damaged checkpoint refused" in warnings[0]
    (tmp_path / "epoch-000004" / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="got no usable one"):
        load_checkpoint(tmp_path, warnings.append)


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    saved(tmp_path, [1])
    real = Path.write_bytes

    def full(path, data):
        if path.name == "state.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        saved(tmp_path, [2])
    assert [p.name for p in tmp_path.iterdir()] == ["epoch-000001"]
    assert load_checkpoint(tmp_path, never).epoch == 1


def test_tied_weights_are_saved(tmp_path):
    w = torch.ones(2)
    save_checkpoint(tmp_path, Checkpoint(1, flatten(nets={"a": w, "b": w}), {}))
    assert load_checkpoint(tmp_path, never).group("nets").keys() == {"a", "b"}


@pytest.mark.parametrize("make", [torch.optim.RAdam, torch.optim.SGD])
def test_the_optimizer_goes_on_as_if_never_stopped(make):
    def steps(net, optimizer, n):
        for _ in range(n):
            optimizer.zero_grad()
            net(torch.ones(2, 3, 4, 4)).square().sum().backward()
            optimizer.step()

    def build():
        torch.manual_seed(0)
        net = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        options = {"momentum": 0.9} if make is torch.optim.SGD else {}
        return net, make(net.parameters(), 1e-3, **options)

    net, optimizer = build()
    steps(net, optimizer, 7)
    again, fresh = build()
    other, stopped = build()
    steps(other, stopped, 3)
    again.load_state_dict(other.state_dict())
    load_optimizer(fresh, optimizer_tensors(stopped))
    steps(again, fresh, 4)
    assert all(a.equal(b) for a, b in zip(net.parameters(), again.parameters(), strict=True))


def test_streams_differ_by_every_part_of_their_key():
    draws = {tuple(torch.rand(2, generator=stream(*k)).tolist()) for k in [(0, 1), (1, 0), (0, 2)]}
    assert len(draws) == 3
    assert torch.rand(2, generator=stream(0, 1)).equal(torch.rand(2, generator=stream(0, 1)))


def test_the_second_process_is_told_who_holds_the_run(tmp_path):
    script = (
        "import sys; from pathlib import Path; from adacorr.train.state import locked\n"
        "with locked(Path(sys.argv[1])): print('locked')"
    )
    with locked(tmp_path):
        other = subprocess.run(
            [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
        )
    assert "held by process" in other.stderr
    assert "since" in other.stderr
    with locked(tmp_path):  # free again
        pass


@pytest.mark.parametrize("how", ["symlink", "hard link", "folder", "fifo", "large"])
def test_a_lock_file_that_is_none_is_not_written_to(how, tmp_path):
    """A run may come from anywhere: its .lock may point at a file of the user's."""
    precious, run = tmp_path / "precious", tmp_path / "run"
    run.mkdir()
    precious.write_text("do not lose " * 100)
    lock = run / ".lock"
    make = {
        "symlink": lambda: lock.symlink_to(precious),
        "hard link": lambda: os.link(precious, lock),
        "folder": lock.mkdir,
        "fifo": lambda: os.mkfifo(lock),
        "large": lambda: lock.write_text("do not lose " * 100),
    }
    make[how]()
    with pytest.raises(InputError, match=r"\.lock: expected a lock file"), locked(run):
        pytest.fail("it was locked")
    assert precious.read_text() == "do not lose " * 100
    if how == "large":
        assert lock.read_text() == "do not lose " * 100


def test_the_lock_goes_with_its_process_also_when_a_data_worker_outlives_it(tmp_path):
    script = (
        "import os, signal, sys, time; from pathlib import Path\n"
        "from adacorr.train.state import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    if os.fork() == 0:\n"
        "        os.close(1)\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    (child,) = psutil.Process(process.pid).children()
    try:
        with pytest.raises(InputError, match=f"held by process {process.pid} "), locked(tmp_path):
            pytest.fail("two hold it")
        process.kill()
        process.wait()
        with locked(tmp_path):
            assert child.is_running()
    finally:
        child.kill()


def test_checkpoints_behind_a_link_are_left_alone(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    saved(elsewhere, [1, 2])
    (tmp_path / "checkpoint").symlink_to(elsewhere)
    with pytest.raises(InputError, match="expected a folder inside the run directory"):
        load_checkpoint(tmp_path / "checkpoint", never)

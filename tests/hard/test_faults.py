"""Disk full, folder read-only, input gone, clock jumping, memory short, workers dying, two runs."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from adacorr.review.store import ACCEPT

ROWS = int(os.environ.get("ADACORR_HARD_ROWS", 20_000_000))
GIB = 1 << 30
PATIENCE = 900  # seconds: only a hang takes that long, on however busy a machine
FIT = ["digits", "--noise", "uniform:0.4", "--epochs", "6", "--subset", "500", "--net", "mlp"]
RESULTS = ("labels.parquet", "pred_probs.npy", "model.safetensors")
JUMPS = """
import datetime, importlib, random, sys, time
real, draw = time.time, random.Random(0)
def jumping():
    return draw.choice([0.0, 1e8, real(), real() - 86400 * draw.random(), 4e9])
time.time = jumping
time.time_ns = lambda: int(jumping() * 1e9)
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(jumping(), tz)
for name in ("correction.rundir", "review.store", "train.output", "train.state"):
    importlib.import_module(f"adacorr.{name}").datetime = Jumping  # all that ask for the date
from adacorr.cli import main
main(sys.argv[1:])
"""
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=sys.stderr)
sys.exit(code)
"""  # a process of its own, whose only child is the one to measure
LAZY = """
import sys, time
import adacorr.data.load
from PIL import Image
sys.modules["adacorr.data.load"].IN_MEMORY_BYTES = 0  # as if the pictures were too many to keep
read = Image.open
def slowly(*args, **options):
    time.sleep(0.005)  # so that a fault meets a reader at work, not one that has ended
    return read(*args, **options)
Image.open = slowly
from adacorr.cli import main
main(sys.argv[1:])
"""


def same(a: Path, b: Path) -> bool:
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in RESULTS)


def fill(disk: Path) -> Path:
    """Leave no room: one file that takes what there is."""
    filler = disk / "filler"
    try:
        with open(filler, "wb", buffering=0) as out:
            while True:
                out.write(bytes(1 << 12))
    except OSError:
        return filler


def limit_file_size(size: int) -> Callable[[], None]:
    """In place of a small disk where mounting is not allowed: files end at `size` bytes."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


def test_disk_full_while_correcting(adacorr, small_disk, make_table, digest, tmp_path, record):
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    table = make_table(inputs / "table.parquet", 200_000)
    before = digest(inputs)
    disk = small_disk("3m")
    options = {} if disk else {"preexec_fn": limit_file_size(3 << 20)}
    place = disk or tmp_path / "small"
    place.mkdir(exist_ok=True)
    for words in (["--output", "out.parquet"], ["--output", "out.csv"], ["--run-dir", "run"]):
        done = adacorr("correct", table, words[0], place / words[1], **options)
        assert words[1] in done.one_line()
        assert list(place.iterdir()) == []
    assert digest(inputs) == before
    record("faults", disk_full="a small file system" if disk else "a limit on file sizes")


def test_disk_full_while_training(adacorr, small_disk, tmp_path, record):
    assert adacorr("fit", *FIT, "--run-dir", tmp_path / "whole").code == 0
    disk = small_disk("4m")
    if disk is None:
        pytest.skip("expected the right to mount a small file system, got none")
    run = disk / "run"
    run.mkdir()
    (disk / "filler").write_bytes(bytes(int(3.3 * (1 << 20))))
    done = adacorr("fit", *FIT, "--run-dir", run, "--quiet")
    assert "No space left" in done.one_line()
    (disk / "filler").unlink()
    assert adacorr("fit", "--resume", run, "--quiet").code == 0
    assert same(run, tmp_path / "whole")
    record("faults", disk_full_fit="one line; resumed to the undisturbed result")


def test_disk_full_while_reviewing(small_disk, make_run, serve, open_store, record):
    from adacorr.runs.directory import Run

    disk = small_disk("4m")
    if disk is None:
        pytest.skip("expected the right to mount a small file system, got none")
    shutil.copytree(make_run(n=2000).path, disk / "run")
    run = Run.open(disk / "run")
    server = serve(run)
    confirmed, refused = [], 0
    with server.visitor(PATIENCE) as client:
        for flip in range(300):
            if flip == 20:
                filler = fill(disk)
            if flip == 280:
                filler.unlink()
            said = {"reviewer": "Ann", "decisions": [{"flip": flip, "choice": "accept"}]}
            answer = client.post(f"{client.api}/decide", json=said)
            assert answer.status_code in (200, 503), answer.text
            if answer.status_code == 200:
                confirmed.append(flip)
            else:
                refused += 1
                assert "not saved" in answer.json()["detail"]
    server.kill()
    store = open_store(run)
    assert refused > 0
    assert confirmed[-1] == 299  # it goes on when there is room again
    assert np.flatnonzero(store.state == ACCEPT).tolist() == confirmed
    store.close()
    record("faults", disk_full_review={"confirmed": len(confirmed), "refused": refused, "lost": 0})


def test_read_only_folder(adacorr, small_disk, make_table, make_run, tmp_path, record):
    """Root writes wherever modes forbid it, so for root the file system itself is read-only."""
    table = make_table(tmp_path / "table.parquet", 2000)
    if os.geteuid():
        place, how = tmp_path / "locked", "folder mode 555"
        shutil.copytree(make_run().path, place / "run")
        place.chmod(0o555)
        (place / "run").chmod(0o555)
    else:
        place, how = small_disk("4m"), "read-only file system"
        if place is None:
            pytest.skip("expected the right to mount a file system, got none")
        shutil.copytree(make_run().path, place / "run")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    commands = [
        ["correct", table, "--output", place / "out.parquet"],
        ["correct", table, "--run-dir", place / "new"],
        ["correct", table, "--report", place / "report.html"],
        ["fit", *FIT, "--run-dir", place / "new", "--quiet"],
        ["report", place / "run"],
        ["review", place / "run", "--no-browser"],
        ["export", place / "run", "--to", "cleanlab", "--output", place / "issues.csv"],
    ]
    for words in commands:
        assert str(place) in adacorr(*words).one_line()
    assert sorted(p.name for p in place.iterdir()) == ["run"]
    record("faults", read_only=how, read_only_commands=len(commands))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_input_removed_while_correcting(kind, make_table, tmp_path, record):
    table = make_table(tmp_path / f"table.{kind}", 300_000)
    code = (
        "import os, sys, threading\n"
        "import adacorr.correction.tables as c\n"
        "plan = c._plan\n"
        "def gone(*a):\n"
        "    os.unlink(sys.argv[2])\n"  # between the two passes over the file
        "    return plan(*a)\n"
        "c._plan = gone\n"
        "from adacorr.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "correct", str(table), "--delta", "0.5"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "out.parquet")], capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert str(table) in done.stderr
    assert list(tmp_path.iterdir()) == []
    record("faults", input_removed="one line that names the file; no output")


@pytest.fixture
def pictures(tmp_path) -> Path:
    from PIL import Image
    from sklearn.datasets import load_digits

    folder = tmp_path / "pictures"
    images, labels = load_digits(return_X_y=True)
    for i in range(300):
        place = folder / str(labels[i])
        place.mkdir(parents=True, exist_ok=True)
        picture = (images[i].reshape(8, 8) * 15.9).astype(np.uint8)
        Image.fromarray(picture).save(place / f"{i}.png")
    return folder


def lazy(*words: object) -> list[str]:
    """A fit that reads each picture when it is needed."""
    return [sys.executable, "-c", LAZY, "fit", *map(str, words), "--quiet"]


def test_pictures_removed_while_training(pictures, tmp_path, record):
    run = tmp_path / "run"
    process = subprocess.Popen(
        lazy(pictures, "--epochs", 400, "--run-dir", run), stderr=subprocess.PIPE, text=True
    )
    wait_for(run / "checkpoint" / "epoch-000002", process)
    for picture in sorted((pictures / "3").iterdir()):
        picture.unlink()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, err
    assert len(err.splitlines()) == 1, err
    assert str(pictures / "3") in err
    record("faults", pictures_removed="one line that names the picture")


def wait_for(epoch: Path, process: subprocess.Popen, seconds: float = PATIENCE) -> None:
    """Until this checkpoint or a later one is there: old ones go, and epochs may be short."""
    deadline = time.monotonic() + seconds
    while not any(path.name >= epoch.name for path in epoch.parent.glob("epoch-*")):
        assert process.poll() is None, f"ended with {process.returncode} before {epoch} was there"
        assert time.monotonic() < deadline, f"waited {seconds} s for {epoch}"
        time.sleep(0.02)


def test_clock_jumps(adacorr, make_table, make_run, open_store, tmp_path, record):
    """Wall-clock time goes back and forth by decades at every look; nothing depends on it."""
    jumping = [sys.executable, "-c", JUMPS]
    table = make_table(tmp_path / "table.parquet", 20_000)
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert adacorr("fit", *FIT, "--run-dir", whole).code == 0
    assert adacorr("correct", table, "--output", tmp_path / "calm.parquet").code == 0
    commands = [
        ["fit", *FIT, "--run-dir", str(run), "--quiet"],
        ["correct", str(table), "--output", str(tmp_path / "jumped.parquet"), "--quiet"],
        ["report", str(run)],
    ]
    for words in commands:
        done = subprocess.run([*jumping, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert same(whole, run)
    assert (tmp_path / "calm.parquet").read_bytes() == (tmp_path / "jumped.parquet").read_bytes()
    code = JUMPS.replace(
        "from adacorr.cli import main\nmain(sys.argv[1:])",
        "from pathlib import Path\n"
        "from adacorr.review.server import open_review\n"
        "from adacorr.review.store import SignOff\n"
        "from adacorr.runs.directory import Run\n"
        "_, store = open_review(Run.open(sys.argv[1]))\n"
        "for flip in range(20):\n"
        "    store.decide([SignOff(flip, 'skip')], 'Ann')\n"
        "    seen = int(store.latest[flip])\n"
        "    store.decide([SignOff(flip, 'accept', seen=seen)], 'Ann')\n"
        "store.undo('Ann')\n",
    )
    reviewed = make_run("reviewed")
    subprocess.run([sys.executable, "-c", code, str(reviewed.path)], check=True)
    store = open_store(reviewed)
    assert (store.state[:19] == ACCEPT).all()  # the order of the log counts, not its dates
    assert store.state[19] != ACCEPT
    store.close()
    record("faults", clock_jumps="fit, correct, report and review: the undisturbed result")


def memory_group(limit: int) -> Path | None:
    """A control group that may use `limit` bytes of memory, page cache included."""
    for parent, name in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = parent / f"adacorr-hard-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(str(limit))
        except OSError:
            if group.exists():
                group.rmdir()
            continue
        return group
    return None


def test_a_gibibyte_for_twenty_million_rows(make_table, tmp_path, record):
    table = make_table(tmp_path / "table.parquet", ROWS)
    output = tmp_path / "out.parquet"
    group = memory_group(GIB)

    def confine() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        else:
            resource.setrlimit(resource.RLIMIT_DATA, (GIB, GIB))

    correct = [sys.executable, "-m", "adacorr", "correct", str(table), "--output", str(output)]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURED, *correct, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=confine,
    )
    out, err = process.communicate(timeout=4 * PATIENCE)
    seconds = time.monotonic() - began
    if group is not None:
        group.rmdir()
    assert process.returncode == 0, err.decode()
    said = json.loads(out)
    with pq.ParquetFile(output) as file:
        assert file.metadata.num_rows == said["rows"] == ROWS
        flipped = 0
        for batch in file.iter_batches(columns=["adacorr_flipped"]):
            flipped += int(np.asarray(batch.column(0)).sum())
    assert flipped == said["flipped"] > 0
    record(
        "faults",
        memory_limit="1 GiB, a control group" if group else "1 GiB of data, a process limit",
        memory_rows=ROWS,
        memory_input_mb=round(table.stat().st_size / 1e6),
        memory_peak_mb=int(err.splitlines()[-1]),
        memory_seconds=round(seconds),
    )


def workers_of(process: subprocess.Popen) -> list[psutil.Process]:
    return [child for child in psutil.Process(process.pid).children() if child.is_running()]


def test_slow_and_dying_data_workers(pictures, tmp_path, record):
    words = (pictures, "--epochs", 4, "--workers", 2)
    whole, slow, dead = tmp_path / "whole", tmp_path / "slow", tmp_path / "dead"
    subprocess.run(lazy(*words, "--run-dir", whole), check=True)
    process = subprocess.Popen(lazy(*words, "--run-dir", slow))
    wait_for(slow / "checkpoint" / "epoch-000001", process)
    stopped = hit(process, signal.SIGSTOP)
    time.sleep(2)
    stopped.send_signal(signal.SIGCONT)
    assert process.wait(PATIENCE) == 0
    assert same(slow, whole)
    process = subprocess.Popen(lazy(*words, "--run-dir", dead), stderr=subprocess.PIPE, text=True)
    wait_for(dead / "checkpoint" / "epoch-000001", process)
    hit(process, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, err
    assert len(err.splitlines()) == 1, err
    assert "workers: expected" in err
    subprocess.run(lazy("--resume", dead), check=True)
    assert same(dead, whole)
    record("faults", data_workers="slow: same result; killed: one line, resumed to the same result")


def hit(process: subprocess.Popen, number: int) -> psutil.Process:
    """Send a signal to a process that loads data, as soon as there is one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for worker in workers_of(process):
            try:
                worker.send_signal(number)
            except psutil.Error:
                continue
            return worker
        time.sleep(0.002)
    raise AssertionError("no data worker was seen")


def test_two_runs_on_one_directory(adacorr, tmp_path, record):
    run = tmp_path / "run"
    long = [*FIT[:4], "2000", *FIT[5:], "--run-dir", str(run), "--quiet"]
    process = subprocess.Popen([sys.executable, "-m", "adacorr", "fit", *long])
    wait_for(run / "checkpoint" / "epoch-000001", process)
    for words in (["--resume", run], [*FIT, "--run-dir", run]):
        line = adacorr("fit", *words, "--quiet").one_line()
        assert f"held by process {process.pid} on " in line
    assert process.poll() is None
    process.kill()
    process.wait()
    line = adacorr("fit", *FIT, "--run-dir", run, "--quiet").one_line()
    assert "got one with a run in it" in line  # the lock went with its holder
    record("faults", two_runs="the second is told process, host and time of the first")

"""A hundred SIGKILLs at random moments, over everything that writes.

After each: no file half written, no input touched, no confirmed decision lost. After a restart the
result is the one that an undisturbed run gives, bit for bit.
"""

from __future__ import annotations

import json
import shlex
import shutil
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

from adacorr.review.server import DATABASE
from adacorr.review.store import ACCEPT, REJECT
from adacorr.runs import manifest
from adacorr.runs.directory import Run

KILLS = {"fit": 30, "bench run": 10, "correct": 35, "review": 25}
FIT = shlex.split("--noise uniform:0.4 --epochs 12 --net mlp --quiet")
PATIENCE = 300  # seconds for an answer: only a hang takes that long
GRID = """
name = "hard"
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


def shown(folder: Path) -> list[Path]:
    """The files that a user sees: hidden ones are work in progress."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return [f for f in files if not any(p.startswith(".") for p in f.relative_to(folder).parts)]


def assert_whole(file: Path) -> None:
    """A file that has its name is complete."""
    if file.suffix == ".parquet":
        pq.read_table(file)
    elif file.suffix == ".npy":
        np.load(file, allow_pickle=False)
    elif file.suffix == ".safetensors":
        load_file(file)
    elif file.suffix == ".jsonl":
        assert all(json.loads(line) for line in file.read_text().splitlines())
    elif file.suffix == ".json":
        json.loads(file.read_text())
    elif file.suffix == ".toml":
        Run(file.parent).config()
    elif file.suffix == ".html":
        assert file.read_text().rstrip().endswith("</html>")
    else:
        assert file.suffix == ".csv", f"unexpected file {file}"


def fit_result(run: Path) -> dict[str, object]:
    """What must not differ between an undisturbed and a killed run."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = ("labels.parquet", "pred_probs.npy", "model.safetensors")
    return {
        "metrics": [{k: v for k, v in record.items() if k != "seconds"} for record in records],
        **{name: (run / name).read_bytes() for name in names},
    }


def test_fit(nursery, digest, tmp_path, record):
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    X, y = load_digits(return_X_y=True)
    np.savez(inputs / "digits.npz", features=X[:600].astype(np.float32), labels=y[:600])
    before = digest(inputs)
    fit = ["fit", inputs / "digits.npz", *FIT, "--run-dir"]
    nursery.run(*fit, tmp_path / "warm")
    whole = tmp_path / "whole"
    seconds = nursery.run(*fit, whole)
    wanted = fit_result(whole)
    rng = np.random.default_rng(1)
    kills = runs = 0
    while kills < KILLS["fit"]:
        run, runs = tmp_path / f"run{runs}", runs + 1
        finished = False
        while not finished:
            begun = (run / "config.toml").exists()
            how = ["fit", "--resume", run, "--quiet"] if begun else [*fit, run]
            if kills == KILLS["fit"]:
                nursery.run(*how)
                finished = True
            elif nursery.killed(rng.uniform(0, seconds), *how):
                kills += 1
                for file in shown(run) if run.exists() else ():
                    assert_whole(file)
            else:
                finished = True
        assert fit_result(run) == wanted
        assert digest(inputs) == before
    record("kills", fit=kills, fit_runs=runs)


def test_bench_run(nursery, tmp_path, record):
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID)

    def records(path: Path) -> list[dict[str, object]]:
        measured = ("seconds", "peak_memory_mb")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [{k: v for k, v in line.items() if k not in measured} for line in lines]

    whole = tmp_path / "whole.jsonl"
    seconds = nursery.run("bench", "run", grid, "--output", whole, "--quiet")
    rng = np.random.default_rng(2)
    kills = runs = 0
    while kills < KILLS["bench run"]:
        path, runs = tmp_path / f"records{runs}.jsonl", runs + 1
        command = ["bench", "run", grid, "--output", path, "--quiet"]
        finished = False
        while not finished:
            if kills == KILLS["bench run"]:
                nursery.run(*command)
                finished = True
            elif nursery.killed(rng.uniform(0, seconds), *command):
                kills += 1
                if path.exists():
                    assert_whole(path)
            else:
                finished = True
        assert records(path) == records(whole)
    assert grid.read_text() == GRID
    record("kills", bench_run=kills, bench_run_runs=runs)


def test_correct(nursery, make_table, digest, tmp_path, record):
    inputs = tmp_path / "inputs"
    (inputs / "parts").mkdir(parents=True)
    make_table(inputs / "table.parquet", 150_000)
    make_table(inputs / "table.csv", 30_000)
    for part in range(3):
        make_table(inputs / "parts" / f"{part}.parquet", 40_000, seed=part)
    before = digest(inputs)
    commands = {
        "table.parquet": ["--output", "out.parquet", "--run-dir", "run"],
        "table.csv": ["--output", "out.csv", "--report", "report.html"],
        "parts": ["--output", "out"],
    }

    def words(name: str, folder: Path) -> list[object]:
        places = [w if w.startswith("--") else folder / w for w in commands[name]]
        return ["correct", inputs / name, *places, "--overwrite", "--quiet"]

    def result(folder: Path) -> dict[str, str]:
        dated = ("config.toml", "report.html", "manifest.json")  # with the digest of the first
        if (folder / "run").exists():
            for name in ("config.toml", "labels.parquet", "pred_probs.npy"):
                manifest.check(folder / "run" / name)
        assert not list(folder.rglob(".*"))  # nothing is left behind
        for file in shown(folder):
            assert_whole(file)
        return {name: of for name, of in digest(folder).items() if not name.endswith(dated)}

    wanted, seconds = {}, {}
    for name in commands:
        for turn in ("warm", "whole"):
            folder = tmp_path / f"{turn}-{name}"
            folder.mkdir()
            seconds[name] = nursery.run(*words(name, folder))
        wanted[name] = result(folder)
    rng = np.random.default_rng(3)
    kills = 0
    while kills < KILLS["correct"]:
        name = list(commands)[kills % 3]
        folder = tmp_path / "killed"
        folder.mkdir()
        if nursery.killed(rng.uniform(0, seconds[name]), *words(name, folder)):
            kills += 1
            for file in shown(folder):
                assert_whole(file)
            for complete in (folder / "run", folder / "out"):  # a second one is refused
                shutil.rmtree(complete, ignore_errors=True)
            nursery.run(*words(name, folder))
        assert result(folder) == wanted[name]
        assert digest(inputs) == before
        shutil.rmtree(folder)
    record("kills", correct=kills, correct_inputs_touched=0)


@pytest.fixture
def reviewers(serve):
    """Starts the server on a run and clients that decide until the server dies."""

    def start(run: Run, todo: list[int], confirmed: list[int]):
        server = serve(run)

        def work(mine: list[int]) -> None:
            try:
                with server.visitor(PATIENCE) as client:
                    for flip in mine:
                        choice = "accept" if flip % 3 else "reject"
                        said = {"flip": flip, "choice": choice}
                        body = {"reviewer": "Ann", "decisions": [said]}
                        answer = client.post(f"{client.api}/decide", json=body)
                        if answer.status_code == 200:
                            confirmed.append(flip)
            except httpx.HTTPError:
                return

        threads = [threading.Thread(target=work, args=(todo[i::2],)) for i in range(2)]
        for thread in threads:
            thread.start()
        return server, threads

    return start


def test_review(make_run, reviewers, adacorr, open_store, tmp_path, record):
    run, calm = make_run(n=20_000), make_run("calm", n=20_000)
    inputs = {name: run.file(name).read_bytes() for name in ("labels.parquet", "pred_probs.npy")}
    store = open_store(run)
    total = len(store.flips)
    store.close()
    rng = np.random.default_rng(4)
    confirmed: list[int] = []
    unconfirmed = kills = 0
    while kills < KILLS["review"]:
        store = open_store(run)
        assert (store.state[confirmed] != 0).all(), "a confirmed decision was lost"
        assert all(store.state[f] == (ACCEPT if f % 3 else REJECT) for f in confirmed)
        decided = int((store.state != 0).sum())
        unconfirmed = decided - len(confirmed)  # saved, but the answer died with the server
        assert 0 <= unconfirmed <= 2 * kills
        todo = np.flatnonzero(store.state == 0).tolist()
        store.close()
        server, threads = reviewers(run, todo, confirmed)
        time.sleep(rng.uniform(0, 1.5))
        server.kill()
        kills += 1
        for thread in threads:
            thread.join()
    store, other = open_store(run), open_store(calm)
    left = np.flatnonzero(store.state == 0).tolist()
    decide_all(store, left)
    decide_all(other, list(range(total)))
    (log,) = store._db.execute("SELECT COUNT(*) FROM log").fetchone()
    assert log == total  # each flip was decided once, and once only
    store.close()
    other.close()
    for name, folder in (("killed", run), ("calm", calm)):
        done = adacorr("review", folder.path, "--export", tmp_path / f"{name}.parquet")
        assert done.code == 0, done.err
    assert (tmp_path / "killed.parquet").read_bytes() == (tmp_path / "calm.parquet").read_bytes()
    assert {name: run.file(name).read_bytes() for name in inputs} == inputs
    assert run.file(DATABASE).exists()
    record(
        "kills", review=kills, review_confirmed=len(confirmed), review_saved_unconfirmed=unconfirmed
    )


def decide_all(store, flips: list[int]) -> None:
    from adacorr.review.store import SignOff

    said = [SignOff(flip, "accept" if flip % 3 else "reject") for flip in flips]
    assert store.decide(said, "Ann") == []

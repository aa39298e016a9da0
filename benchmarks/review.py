"""How quickly the review page shows changes and questions of a large run, in a real browser.

python benchmarks/review.py [--rows N]

Wall time, and beside it the processor time of server and browser: on a busy machine only the second
says something. Each first item is a new browser session on a server just started.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from playwright.sync_api import sync_playwright

from adacorr.runs.directory import write_labels, write_toml

SERVERS, NEXT = 3, 20
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PRESS = """async () => {
  const shown = () => document.querySelector('%s').textContent, out = [];
  for (let i = 0; i < %d; i += 1) {
    const old = shown(), began = performance.now();
    document.dispatchEvent(new KeyboardEvent('keydown', { key: '%s' }));
    while (shown() === old) await new Promise((done) => setTimeout(done, 1));
    out.push(performance.now() - began);
    await new Promise((done) => setTimeout(done, 100));
  }
  return out;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        run = Path(folder) / "run"
        flips = make_run(run, rows)
        program = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        browser.new_page().goto("about:blank")  # the browser itself is up
        print(f"{flips:,} proposed changes of {rows:,} rows")
        for _ in range(SERVERS):
            measure(run, browser)
        browser.close()


def make_run(path: Path, n: int, k: int = 10) -> int:
    """A run of n rows, about a fifth of them changed; returns how many."""
    rng = np.random.default_rng(0)
    path.mkdir()
    truth, rows = rng.integers(0, k, n), np.arange(n)
    given = np.where(rng.random(n) < 0.2, rng.integers(0, k, n), truth)
    f = rng.random((n, k), dtype=np.float32) / k
    f[rows, truth] += 0.5
    f /= f.sum(axis=1, keepdims=True)
    suggested = f.argmax(axis=1)
    columns = {
        "index": rows,
        "given": given,
        "corrected": suggested,
        "ratio": f[rows, given].astype(np.float64) / f.max(axis=1),
        "flipped": suggested != given,
        "suggested": suggested,
        "confidence": f.max(axis=1).astype(np.float64),
    }
    write_labels(path / "labels.parquet", columns)
    np.save(path / "pred_probs.npy", f)
    names = [f"class {i}" for i in range(k)]
    write_toml(path / "config.toml", {"data": {"class_names": names}, "method": {"delta": 0.9}})
    return int((suggested != given).sum())


def measure(run: Path, browser: Any) -> None:
    command = [sys.executable, "-m", "adacorr", "review", str(run), "--no-browser", "--port", "0"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            ready = time.perf_counter() - began
            context = browser.new_context()
            page = context.new_page()
            ours = [psutil.Process(server.pid)]
            others = [p for p in psutil.Process().children(recursive=True) if p.pid != server.pid]
            before, began = (spent(ours), spent(others)), time.perf_counter()
            page.goto(f"{found.group()}#changes", wait_until="commit")
            page.wait_for_selector("#single:not([hidden])")
            first = time.perf_counter() - began
            worked = spent(ours) - before[0], spent(others) - before[1]
            page.fill("#name", "Ann")
            page.press("#name", "Enter")
            each = sorted(page.evaluate(PRESS % ("#where", NEXT, "a")))
            page.click("#mode-questions")
            page.wait_for_function("() => !document.body.classList.contains('busy')")
            asked = sorted(page.evaluate(PRESS % ("#ask-where", NEXT, "1")))
            memory = psutil.Process(server.pid).memory_info().rss >> 20
            context.close()
        finally:
            server.kill()
    print(
        f"server ready {ready:.2f} s; first item {first:.2f} s (target 1 s; processor: server "
        f"{worked[0]:.2f} s, browser and driver {worked[1]:.2f} s); next item median "
        f"{statistics.median(each):.0f} ms, best {each[0]:.0f} ms, next question "
        f"median {statistics.median(asked):.0f} ms, worst {asked[-1]:.0f} ms (target 100 ms); "
        f"server {memory} MB",
        flush=True,
    )


def spent(processes: list[psutil.Process]) -> float:
    """Processor seconds of processes that are still there."""
    total = 0.0
    for process in processes:
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return total


if __name__ == "__main__":
    main()

"""Fixtures that several packages' tests share."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from adacorr.runs.directory import Run

# The same examples on every run: a failure belongs to the change that made it.
# `pytest --hypothesis-profile=default` draws new ones.
# No deadline: how long an example takes is the machine's affair.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A suite started in the background ignores Ctrl-C, and its children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """Builds a run directory by hand: truth, noisy labels, probabilities, LRT with delta 0.9."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def make(
        name: str = "run",
        *,
        n: int = 300,
        k: int = 4,
        class_names: list[str] | None = None,
        flips: bool = True,
        probs: bool = True,
        confidence: bool = True,
        withhold: float | None = None,
        epochs: int = 0,
        data: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> Run:
        rng = np.random.default_rng(seed)
        rows = np.arange(n)
        truth = rng.integers(0, k, n)
        given = np.where(rng.random(n) < 0.4, rng.integers(0, k, n), truth)
        f = 0.5 * rng.dirichlet(np.full(k, 0.5), n)
        f[rows, truth] += 0.5
        f = f.astype(np.float32)
        suggested = f.argmax(axis=1)
        if not flips:
            given = suggested
        ratio = f[rows, given].astype(float) / f[rows, suggested]
        flipped = ratio < 0.9
        corrected = np.where(flipped, suggested, given)
        columns: dict[str, Any] = {
            "index": rows,
            "given": given,
            "corrected": corrected,
            "ratio": ratio,
            "flipped": flipped,
            "suggested": suggested,
            "truth": truth,
        }
        if confidence:
            columns["confidence"] = np.clip(f[rows, corrected].astype(float), 0, 1)
        if withhold is not None:  # as `adacorr correct --max-flip-error`
            own, top = (f[rows, c].astype(float) for c in (given, suggested))
            review = flipped & (1 - top >= withhold)
            columns |= {
                "corrected": np.where(review, given, corrected),
                "flipped": flipped & ~review,
                "review": review,
                "confidence": np.where(review, own, columns["confidence"]),
            }
        path = tmp_path / name
        path.mkdir()
        pq.write_table(pa.table(columns), path / "labels.parquet")
        if probs:
            np.save(path / "pred_probs.npy", f)
        names = class_names or [f"class {c}" for c in range(k)]
        settings = {"class_names": names, **(data or {})}
        lines = [
            '[run]\ncommand = "adacorr fit things"\nseed = 7\n',
            "[method]\ndelta = 0.9\n",
            "[data]",
        ]
        lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        (path / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if epochs:
            records = [
                {"epoch": e + 1, "train_loss": 1 / (e + 1), "val_accuracy": 1 - 0.5 / (e + 1)}
                for e in range(epochs)
            ]
            text = "".join(json.dumps(record) + "\n" for record in records)
            (path / "metrics.jsonl").write_text(text, encoding="utf-8")
        return Run.open(path)

    return make


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on PATH: install it (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def problem():
    """Labels, probabilities and names, as arrays: 4 classes, 30% wrong labels, 3,000 rows."""
    from adacorr.core import noise

    rng = np.random.default_rng(0)
    n, names = 3000, np.array(["cat", "dog", "big bird", "fish"])
    T = noise.uniform(4, 0.3)
    true = rng.integers(0, 4, n)
    eta = 0.3 * rng.dirichlet(np.full(4, 0.3), n)
    eta[np.arange(n), true] += 0.7
    f = (eta @ T).astype(np.float32)
    return noise.inject(true, T, 1), f, names

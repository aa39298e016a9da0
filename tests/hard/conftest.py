"""What the hard tests share: one place for their figures, the command in several guises."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adacorr._version import __version__
from adacorr.cli import main, one_line_errors

RESULTS = Path(  # `make hard` names its own; a test that is run alone leaves that alone
    os.environ.get("ADACORR_HARD_RESULTS") or Path(tempfile.gettempdir()) / "adacorr-hard.json"
)
BEGAN = pytest.StashKey[float]()
NUMERICAL = "core/test_numerical.py"
PATIENCE = 1800  # seconds for a command: only a hang takes that long, on however busy a machine
PRELOAD = [
    "adacorr.cli.fit",
    "adacorr.cli.bench",
    "adacorr.cli.correct",
    "adacorr.train",
    "adacorr.paper.bench.run",
    "adacorr.report",
    "adacorr.correction",
    "adacorr.data.named.digits",
    "sklearn.datasets",
    "matplotlib.backends.backend_svg",
    "pyarrow.parquet",
]


def _fixtures_of(package: str) -> Any:
    """The fixtures of another package's tests: conftest files are not importable by name."""
    path = Path(__file__).parents[1] / package / "conftest.py"
    spec = importlib.util.spec_from_file_location(f"{package}_fixtures", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_review = _fixtures_of("review")
serve, open_store = _review.serve, _review.open_store


def add_result(subject: str, **figures: Any) -> None:
    """Add figures to the results that the page shows."""
    print(f"{subject}: {json.dumps(figures)}")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known.setdefault(subject, {}).update(figures)
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


@pytest.fixture
def record() -> Callable[..., None]:
    """``record("subject", what=figure)`` prints a figure and keeps it for the page."""
    return add_result


def pytest_sessionstart(session: pytest.Session) -> None:
    session.stash[BEGAN] = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # out of time: the figures stay


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """How long it took on which machine, and whether anything failed."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats  # pyright: ignore

    def ids(*outcomes: str) -> list[str]:
        return sorted({report.nodeid for outcome in outcomes for report in stats.get(outcome, [])})

    failed, skipped, passed = ids("failed", "error"), ids("skipped"), ids("passed")
    ended = len({*failed, *skipped, *passed})
    add_result(
        "run",
        date=datetime.now(UTC).date().isoformat(),
        adacorr=__version__,
        python=platform.python_version(),
        cores=os.cpu_count(),
        minutes=round((time.monotonic() - session.stash[BEGAN]) / 60),
        load=round(os.getloadavg()[2], 1),
        tests=session.testscollected,
        failed=failed,
        skipped=skipped,
        not_run=session.testscollected - ended,
    )
    if edge := [name for name in {*passed, *failed} if NUMERICAL in name]:
        bad = sum(name in failed for name in edge)
        add_result("numerical", passed=len(edge) - bad, failed=bad)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def one_line(self) -> str:
        """The message of a refusal: exit code 2, one line, no traceback."""
        assert self.code == 2, (self.code, self.err)
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("adacorr: "), self.err
        assert "Traceback" not in self.err
        return lines[0]


@pytest.fixture
def adacorr() -> Callable[..., Done]:
    """The command in a process of its own."""

    def run(*argv: object, timeout: float = PATIENCE, **options: Any) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "adacorr", *map(str, argv)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **options,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def in_process() -> Callable[..., Done]:
    """The command in this process: fast, and an exception that escapes it fails the test.

    A call in place of words skips the parser of the command line, which takes most of the time.
    """

    def run(*argv: object) -> Done:
        out, err = io.StringIO(), io.StringIO()
        code: Any = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            warnings.simplefilter("ignore")  # of others: deprecations and the like
            warnings.simplefilter("always", RuntimeWarning)  # each time: it is a second line
            warnings.simplefilter("always", UserWarning)
            try:
                if callable(argv[0]):
                    one_line_errors(argv[0])
                else:
                    main([str(word) for word in argv])
            except SystemExit as stop:
                code = stop.code or 0
        return Done(int(code), out.getvalue(), err.getvalue())

    return run


class Nursery:
    """Starts commands in processes that have imported everything, so that a kill meets work."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOAD)

    def start(self, *argv: object) -> Any:
        process = self.context.Process(target=main, args=([str(word) for word in argv],))
        process.start()
        return process

    def run(self, *argv: object) -> float:
        """Run to the end; the seconds that it took."""
        began = time.monotonic()
        process = self.start(*argv)
        process.join(PATIENCE)
        assert process.exitcode == 0, f"{argv}: exit code {process.exitcode}"
        return time.monotonic() - began

    def killed(self, seconds: float, *argv: object) -> bool:
        """Run and kill after `seconds`; False if the command had ended by itself before."""
        process = self.start(*argv)
        process.join(seconds)
        if process.exitcode is not None:
            assert process.exitcode == 0, f"{argv}: exit code {process.exitcode}"
            return False
        process.kill()
        process.join()
        return process.exitcode == -9


@pytest.fixture(scope="session")
def nursery() -> Nursery:
    return Nursery()


@pytest.fixture
def digest() -> Callable[[Path], dict[str, str]]:
    """SHA-256 of every file below a folder: two equal answers, nothing was touched."""

    def of(folder: Path) -> dict[str, str]:
        return {
            str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }

    return of


@pytest.fixture
def make_table() -> Callable[..., Path]:
    """A parquet or CSV table of labels, a text column and probabilities of `k` classes."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    def piece(rng: np.random.Generator, n: int, k: int, start: int) -> pa.Table:
        f = rng.random((n, k), dtype=np.float32) ** 3 + np.float32(1e-4)
        truth = rng.integers(0, k, n)
        f[np.arange(n), truth] += 2
        f /= f.sum(axis=1, keepdims=True)
        given = np.where(rng.random(n) < 0.3, rng.integers(0, k, n), truth)
        names = {f"p_{j}": np.ascontiguousarray(f[:, j]) for j in range(k)}
        return pa.table({"id": np.arange(start, start + n), "label": given, **names})

    def make(path: Path, n: int, k: int = 10, seed: int = 0) -> Path:
        rng = np.random.default_rng(seed)
        step = 250_000
        parts = (piece(rng, min(step, n - start), k, start) for start in range(0, n, step))
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(pa.concat_tables(parts), path)
            return path
        first = next(parts)
        with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
            writer.write_table(first)
            for part in parts:
                writer.write_table(part)
        return path

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path | None]]:
    """``small_disk("2m")`` mounts a file system of that size; None where that is not allowed."""
    mounted: list[Path] = []

    def mount(size: str) -> Path | None:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)

"""`adacorr correct` against the number of rows and classes; the arithmetic of docs/scaling.md.

    python benchmarks/scale.py run [--rows 1000000 10000000] [--case ...]   # append measurements
    python benchmarks/scale.py table                        # rewrite the tables in docs/scaling.md

A run generates a table in pieces, corrects it with a fixed delta in a fresh process that has its
imports and a million rows behind it (what a process does once, such as growing its memory, is
start-up, not rows), and records wall and CPU time and the peak memory of that process. 100,000,000
rows need 10 GB of disk and are run when asked for. Linearity is judged on CPU time, which other
work on the machine disturbs least. A record says on which machine, at which load and by which code
it was made; only records of the same machine and code are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from adacorr.core import kernel

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "scale" / "records.jsonl"
PAGE = ROOT / "docs" / "scaling.md"
TOP = 5
CHUNK = 250_000
WARM_UP = 1_000_000
DELTA = 0.9


@dataclass(frozen=True)
class Case:
    """A kind of table."""

    classes: int
    top_k: bool

    @property
    def name(self) -> str:
        return f"{self.classes:,} classes, " + (f"top {TOP}" if self.top_k else "dense")

    @property
    def bytes_per_row(self) -> int:
        return 8 + (8 * TOP if self.top_k else 4 * self.classes)

    def columns(self, rng: np.random.Generator, n: int) -> dict[str, pa.Array]:
        if not self.top_k:
            f = rng.random((n, self.classes), dtype=np.float32) ** 3 + 1e-4
            f /= f.sum(axis=1, keepdims=True)
            label, lists = self._labels(rng, f.argmax(axis=1)), {"probs": f}
        else:
            first = rng.integers(0, self.classes, (n, 1), dtype=np.int32)
            indices = (first + np.arange(TOP, dtype=np.int32)) % self.classes
            f = rng.random((n, TOP), dtype=np.float32) ** 3 + 0.05
            f *= 0.95 / f.sum(axis=1, keepdims=True)
            label = self._labels(rng, indices[np.arange(n), f.argmax(axis=1)])
            lists = {"indices": indices, "values": f}
        return {"label": pa.array(label)} | {
            name: pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
            for name, rows in lists.items()
        }

    def _labels(self, rng: np.random.Generator, best: np.ndarray) -> np.ndarray:
        """Four of five labels are the most probable class, the others any class."""
        wrong = rng.random(len(best)) < 0.2
        return np.where(wrong, rng.integers(0, self.classes, len(best)), best)


CASES = [Case(10, False), Case(1000, True), Case(20_000, True)]


def write(path: Path, n: int, case: Case) -> None:
    rng, writer = np.random.default_rng(0), None
    for start in range(0, n, CHUNK):
        batch = pa.table(case.columns(rng, min(CHUNK, n - start)))
        writer = writer or pq.ParquetWriter(path, batch.schema, compression="zstd")
        writer.write_table(batch)
    assert writer is not None
    writer.close()


def correct_once(source: str, output: str, case: Case) -> dict[str, float]:
    """In this process: a small correction for imports and memory, then the one measured."""
    from adacorr.correction import Request, TableSettings, correct_table

    columns, settings = Request(n_classes=case.classes), TableSettings(DELTA)
    small = Path(output).with_name("small.parquet")
    write(small, WARM_UP, case)
    correct_table(small, small.with_name("small-out.parquet"), columns=columns, settings=settings)
    kernel.load(case.classes)
    used, began = time.process_time(), time.perf_counter()
    result = correct_table(source, output, columns=columns, settings=settings)
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "wall": time.perf_counter() - began,
        "cpu": time.process_time() - used,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
        "flipped": result.stats.flipped,
    }


def measure(n: int, case: Case, folder: Path) -> dict[str, object] | None:
    """One record, or None with a word why not."""
    free, needed = shutil.disk_usage(folder).free, 3 * n * case.bytes_per_row
    if free < needed:
        print(
            f"skipped {n:,} rows, {case.name}: needs {needed / 1e9:.0f} GB, {free / 1e9:.0f} free"
        )
        return None
    source, output = folder / "in.parquet", folder / "out.parquet"
    output.unlink(missing_ok=True)
    write(source, n, case)
    load = os.getloadavg()[0]
    command = [sys.executable, __file__, "one", str(source), str(output), str(CASES.index(case))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = pq.read_metadata(output).num_rows
    assert rows == n, (rows, n)
    found = json.loads(done.stdout)
    sizes = {"in_bytes": source.stat().st_size, "out_bytes": output.stat().st_size}
    return {
        "rows": n,
        "classes": case.classes,
        "top_k": case.top_k,
        **found,
        **sizes,
        "python": platform.python_version(),
        "machine": machine(),
        "load": round(load, 1),
        "code": code(),
    }


def machine() -> str:
    """Processor and how many of its cores this process may use."""
    name, cpuinfo = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    return f"{name}, cores used: {kernel.threads()}"


def code() -> str:
    """A short hash of the sources that are measured."""
    digest = hashlib.sha256()
    for part in ("core", "tables"):
        for path in sorted((ROOT / "src" / "adacorr" / part).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def run(rows: list[int], cases: list[Case]) -> None:
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        for case in cases:
            for n in rows:
                record = measure(n, case, Path(name))
                if record is not None:
                    with RECORDS.open("a", encoding="utf-8") as handle:
                        handle.write(json.dumps(record) + "\n")
                    print(json.dumps(record), flush=True)


def _made_by(record: dict[str, Any]) -> tuple[str, str]:
    return record.get("machine", "an earlier machine"), record.get("code", "an earlier version")


def best() -> dict[tuple[int, bool, int], dict[str, Any]]:
    """Of each (classes, top_k, rows), by the newest machine and code: the least CPU time."""
    found: dict[tuple[int, bool, int], dict[str, Any]] = {}
    for line in RECORDS.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        key = record["classes"], record["top_k"], record["rows"]
        old = found.get(key)
        if old is None or _made_by(old) != _made_by(record):
            found[key] = {**record, "runs": 1}
        else:
            quicker = min(old, record, key=lambda r: r["cpu"])
            found[key] = {**quicker, "runs": old["runs"] + 1}
    return found


def measured_table() -> list[str]:
    lines = [
        "| table | rows | runs | CPU s | wall s | rows per CPU s | peak MB "
        "| CPU, ratio to a tenth |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found = best()
    for (classes, top_k, rows), r in sorted(found.items()):
        before = found.get((classes, top_k, rows // 10))
        comparable = before is not None and _made_by(before) == _made_by(r)
        ratio = f"{r['cpu'] / before['cpu']:.1f}" if before and comparable else ""
        lines.append(
            f"| {Case(classes, top_k).name} | {rows:,} | {r['runs']} | {r['cpu']:.2f} "
            f"| {r['wall']:.2f} | {rows / r['cpu']:,.0f} | {r['peak_mb']:.0f} | {ratio} |"
        )
    return [*lines, "", *_provenance(list(found.values()))]


def _provenance(records: list[dict[str, Any]]) -> list[str]:
    """Who made the lines of the table, one sentence per machine and code."""
    lines = []
    for name, version in sorted({_made_by(r) for r in records}):
        mine = [r for r in records if _made_by(r) == (name, version)]
        loads = [r["load"] for r in mine if "load" in r]
        busy = f", load {min(loads)} to {max(loads)}" if loads else ""
        what = "All" if len(mine) == len(records) else f"{len(mine)} lines"
        lines.append(f"{what} measured on {name}{busy}, code {version}.")
    return lines


def arithmetic() -> list[str]:
    """Three tables that do not fit on this machine, from the largest measured one of its kind."""
    found = best()

    def per_row(case: Case) -> dict[str, Any]:
        rows = max(n for k, top, n in found if (k, top) == (case.classes, case.top_k))
        return {**found[case.classes, case.top_k, rows], "rows": rows}

    plans = [
        ("Clothing1M", 10**6, Case(14, False), per_row(CASES[0]), 1.4),
        ("ImageNet-21k", 14 * 10**6, Case(21_000, True), per_row(CASES[2]), 1.0),
        ("a billion rows", 10**9, Case(10, False), per_row(CASES[0]), 1.0),
    ]
    lines = [
        "| table | dense, float32 | stored | CPU time, one core | 32 workers | read per worker "
        "| sent to the client | peak MB per process |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, n, case, base, factor in plans:
        seconds = base["cpu"] / base["rows"] * n * factor
        stored, dense = n * case.bytes_per_row, n * case.classes * 4
        sample = min(n, 204_472) * case.bytes_per_row
        lines.append(
            f"| {name}, {n:,} x {case.classes:,}{f' (top {TOP})' if case.top_k else ''} "
            f"| {_size(dense)} | {_size(stored)} | {_time(seconds)} | {_time(seconds / 32)} "
            f"| {_size(2 * stored / 32)} | {_size(sample)} | {base['peak_mb']:.0f} |"
        )
    return lines


def training() -> list[str]:
    """What a rank of a torchrun holds and sends, per epoch of batches of 128."""
    from adacorr.train.nets import make_factory

    plans = [
        ("Clothing1M, ResNet-34", 10**6, 14, "preact34"),
        ("ImageNet-21k, ResNet-34", 14 * 10**6, 21_000, "preact34"),
    ]
    lines = [
        "| run | parameters | weights, optimiser per rank | labels per rank | probabilities (N, K) "
        "per rank | sent per rank and epoch: gradients | probabilities |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, n, k, net in plans:
        size = sum(p.numel() for p in make_factory(net, (3, 32, 32))(k).parameters())
        steps, probs = -(-n // 128), n * k * 4
        lines.append(
            f"| {name} | {size / 1e6:.1f} M | {_size(size * 16)} | {_size(2 * 8 * n)} "
            f"| {_size(probs)} | {_size(steps * size * 4)} | {_size(probs)} |"
        )
    return lines


def _size(number: float) -> str:
    """
    >>> _size(1.2e12), _size(56e6)
    ('1.2 TB', '56 MB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return (
                f"{number / unit:.2g} {name}"
                if number < 10 * unit
                else f"{number / unit:.0f} {name}"
            )
    return f"{number / 1e3:.0f} kB"


def _time(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.1f} s"


def table() -> None:
    """Rewrite what stands between the marks of docs/scaling.md."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, make in (("rows", measured_table), ("plans", arithmetic), ("ranks", training)):
        start, end = f"<!-- {mark}: generated -->\n", f"<!-- end of {mark} -->"
        head, _, rest = text.partition(start)
        _, _, tail = rest.partition(end)
        lines = make()
        print("\n".join(lines), end="\n\n")
        text = head + start + "\n".join(lines) + "\n" + end + tail
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7])
    runs.add_argument("--case", type=int, nargs="+", default=range(len(CASES)), metavar="0|1|2")
    one = commands.add_parser("one")
    for name in ("source", "output"):
        one.add_argument(name)
    one.add_argument("case", type=int)
    commands.add_parser("table")
    options = parser.parse_args()
    if options.command == "run":
        run(options.rows, [CASES[i] for i in options.case])
    elif options.command == "one":
        print(json.dumps(correct_once(options.source, options.output, CASES[options.case])))
    else:
        table()


if __name__ == "__main__":
    main()

"""`adacorr correct` end to end beside a Polars expression for the same job; memory against rows.

    python benchmarks/table.py [--rows 2000000] [--big 20000000]

Both run as commands in fresh processes on the same zstd parquet file, start-up included, in turns.
Peak memory is that of the whole process, for the table and for one ten times as long.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

K = 10
DELTA = 0.9
CHUNK = 250_000
POLARS = """
import sys, polars as pl
source, output, layout = sys.argv[1:]
names = [f"p_{j}" for j in range(10)]
table = pl.scan_parquet(source)
probs = pl.concat_list(names) if layout == "columns" else pl.col("probs").cast(pl.List(pl.Float32))
table = table.with_columns(_best=probs.list.arg_max().cast(pl.Int64), _top=probs.list.max(),
                           _own=probs.list.get(pl.col("label")))
ratio = pl.col("_own").cast(pl.Float64) / pl.col("_top")
flipped = (ratio < 0.9) & (pl.col("_best") != pl.col("label"))
table = table.with_columns(
    adacorr_label=pl.when(flipped).then("_best").otherwise("label"),
    adacorr_ratio=ratio,
    adacorr_flipped=flipped,
).drop("_best", "_top", "_own")
table.sink_parquet(output, compression="zstd")
"""


def write(path: Path, n: int, layout: str) -> None:
    """Labels and probabilities of `n` rows, in pieces."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        f = rng.random((size, K), dtype=np.float32) ** 3 + 1e-4
        f /= f.sum(axis=1, keepdims=True)
        columns: dict[str, object] = {"label": rng.integers(0, K, size)}
        if layout == "columns":
            columns |= {f"p_{j}": np.ascontiguousarray(f[:, j]) for j in range(K)}
        else:
            columns["probs"] = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), K)
        batch = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, batch.schema, compression="zstd")
        writer.write_table(batch)
    assert writer is not None
    writer.close()


def adacorr(source: Path, output: Path) -> list[str]:
    flags = ["--delta", str(DELTA), "--quiet", "--overwrite"]
    return [
        sys.executable,
        "-m",
        "adacorr",
        "correct",
        str(source),
        "--output",
        str(output),
        *flags,
    ]


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - began


def peak(command: list[str]) -> float:
    """Peak resident memory in MB of a command, measured by a parent that does nothing else."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    return int(done.stdout) * unit / 1e6


def same(ours: Path, theirs: Path) -> bool:
    columns = ["adacorr_label", "adacorr_flipped"]
    return pq.read_table(ours, columns=columns).equals(pq.read_table(theirs, columns=columns))


def speed(folder: Path, n: int, layout: str, turns: int) -> None:
    source, ours, theirs = (folder / f"{name}.parquet" for name in (f"in-{layout}", "a", "b"))
    write(source, n, layout)
    polars = [sys.executable, "-c", POLARS, str(source), str(theirs), layout]
    best = {"adacorr correct": float("inf"), "polars": float("inf")}
    for _ in range(turns):
        best["adacorr correct"] = min(best["adacorr correct"], seconds(adacorr(source, ours)))
        best["polars"] = min(best["polars"], seconds(polars))
    ratio = best["adacorr correct"] / best["polars"]
    title = "one column per class" if layout == "columns" else "one list column"
    print(f"\n{n:,} x {K} zstd parquet, {title}; same labels: {same(ours, theirs)}")
    for name, value in best.items():
        print(f"  {name:<18}{value:>8.2f} s {n / value:>14,.0f} rows/s")
    print(f"  {'ratio':<18}{ratio:>8.2f}   target <= 2: {'ok' if ratio <= 2 else 'MISS'}")


def memory(folder: Path, n: int, big: int) -> None:
    peaks = {}
    for rows in (n, big):
        source = folder / "in-memory.parquet"
        write(source, rows, "list")
        peaks[rows] = peak(adacorr(source, folder / "a.parquet"))
    growth = peaks[big] / peaks[n]
    print("\npeak memory of adacorr correct")
    for rows, value in peaks.items():
        print(f"  {rows:>12,} rows {value:>8.0f} MB")
    print(f"  {'ratio':<17}{growth:>8.2f}   target <= 1.1: {'ok' if growth <= 1.1 else 'MISS'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--big", type=int, default=20_000_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for layout in ("list", "columns"):
            speed(folder, options.rows, layout, options.turns)
        memory(folder, options.rows, options.big)


if __name__ == "__main__":
    main()

"""`adacorr clean` against the number of rows and photos; the section of docs/scaling.md about it.

    python benchmarks/clean_scale.py run values 10000 50000   # append measurements
    python benchmarks/clean_scale.py table                    # the tables of docs/scaling.md

Needs the data folder ($ADACORR_DATA). Photos are those of CIFAR-10 with labels of people. Rows and
texts are mixed from two of one class of Optdigits and AG News: each cell of a row, or half the
words of a text, comes from one or the other; 15% of the labels are wrong. The command runs in a
process of its own on one thread, from reading the file to writing the report; CPU seconds and peak
memory are those of that process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import adacorr

RECORDS = Path(__file__).parents[1] / "results" / "clean" / "scale.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
DATA = Path(os.environ.get("ADACORR_DATA", "data"))
PLANS = {"values": 10**6, "text": 10**6, "images": 10**5}
PEOPLE = "aggre_label"


def table(kind: str, n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    if kind == "images":
        frames = [
            pd.read_parquet(path, columns=["img"])
            for path in sorted((DATA / "cifar10").glob("train-*.parquet"))
        ]
        labels = np.load(DATA / "cifar10n" / "cifar10n_train.npz")[PEOPLE][:n]
        cells = pd.concat(frames)["img"][:n]
        return pd.DataFrame({"image": [cell["bytes"] for cell in cells], "label": labels})
    if kind == "values":
        real = pd.read_csv(DATA / "tabular" / "optdigits.csv.gz", header=None)
        x, truth = real.iloc[:, :-1].to_numpy(), real.iloc[:, -1].to_numpy()
        first, second, truth = pairs(truth, n, rng)
        mixed = np.where(rng.random((n, x.shape[1])) < 0.5, x[first], x[second])
        frame = pd.DataFrame(mixed, columns=[f"pixel {j}" for j in range(x.shape[1])])
    else:
        real = pd.read_csv(DATA / "real" / "agnews-weak.csv.gz")
        words = [text.split() for text in real["text"]]
        first, second, truth = pairs(real["truth"].astype("category").cat.codes.to_numpy(), n, rng)
        texts = [
            " ".join(words[a][: len(words[a]) // 2] + words[b][len(words[b]) // 2 :])
            for a, b in zip(first, second, strict=True)
        ]
        frame = pd.DataFrame({"text": texts})
    k = int(truth.max()) + 1
    given = adacorr.noise.inject(truth.astype(int), adacorr.noise.uniform(k, 0.15), rng=0)
    return frame.assign(label=given)


def pairs(
    truth: NDArray[Any], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Two rows of one class for each new row, and that class."""
    first = rng.integers(0, len(truth), n)
    second = np.empty(n, np.int64)
    for c in np.unique(truth):
        mine = truth[first] == c
        second[mine] = rng.choice(np.flatnonzero(truth == c), int(mine.sum()))
    return first, second, truth[first]


def measure(kind: str, n: int) -> dict[str, Any]:
    """CPU seconds and peak memory of the command as it is called."""
    with tempfile.TemporaryDirectory() as name:
        source, run = Path(name) / "data.parquet", Path(name) / "run"
        table(kind, n).to_parquet(source)
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        code = "import sys; from adacorr.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "clean", str(source), "--run-dir", str(run)]
        done = subprocess.run(
            [*command, "--json"], check=True, capture_output=True, env={**os.environ, **threads}
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    found = json.loads(done.stdout)
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "kind": kind,
        "rows": n,
        "version": adacorr.__version__,
        "cpu": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss * unit / 1e6),
        "disk_mb": round(size / 1e6),
        "changed": found["labels_changed"],
    }


def records() -> dict[tuple[str, int], dict[str, Any]]:
    """The last of each kind and size."""
    lines = map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines())
    return {(record["kind"], record["rows"]): record for record in lines}


def measured() -> list[str]:
    found, lines = records(), []
    lines.append("| data | rows | CPU s | CPU ms per row | peak MB | run on disk, MB |")
    lines.append("|---|---|---|---|---|---|")
    for kind in PLANS:
        for n in sorted(n for of, n in found if of == kind):
            r = found[kind, n]
            lines.append(
                f"| {kind} | {n:,} | {r['cpu']:,.0f} | {1000 * r['cpu'] / n:.2f} "
                f"| {r['peak_mb']:,} | {r['disk_mb']:,} |"
            )
    return lines


def planned() -> list[str]:
    """Time, memory and disk along the line through the two largest measured sizes."""
    found = records()
    lines = [
        "| data | rows | CPU time, one core | peak GB | run on disk, GB |",
        "|---|---|---|---|---|",
    ]
    for kind, n in PLANS.items():
        sizes = sorted(n for of, n in found if of == kind)[-2:]
        if len(sizes) == 2 and sizes[-1] < n:
            cells = [along(n, sizes, [found[kind, m][key] for m in sizes]) for key in KEYS]
            hours = f"{cells[0] / 3600:.1f} h" if cells[0] >= 7200 else f"{cells[0] / 60:.0f} min"
            lines.append(
                f"| {kind} | {n:,} | {hours} | {cells[1] / 1000:.1f} | {cells[2] / 1000:.1f} |"
            )
    return lines


KEYS = ("cpu", "peak_mb", "disk_mb")


def along(n: int, sizes: list[int], values: list[float]) -> float:
    """The value at `n` on the line through two points.

    >>> along(30, [10, 20], [1.0, 2.0])
    3.0
    """
    slope = (values[1] - values[0]) / (sizes[1] - sizes[0])
    return values[1] + slope * (n - sizes[1])


def write_tables() -> None:
    """Rewrite what stands between the marks of docs/scaling.md."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, make in (("clean", measured), ("clean plans", planned)):
        start, end = f"<!-- {mark}: generated -->\n", f"<!-- end of {mark} -->"
        head, _, rest = text.partition(start)
        _, _, tail = rest.partition(end)
        text = head + start + "\n".join(make()) + "\n" + end + tail
    PAGE.write_text(text, encoding="utf-8")


def run(kind: str, sizes: list[int]) -> None:
    """A record per size, each made in a process of its own: the peak is that of all children."""
    for n in sizes:
        if len(sizes) > 1:
            subprocess.run([sys.executable, __file__, "run", kind, str(n)], check=True)
            continue
        line = json.dumps(measure(kind, n))
        RECORDS.parent.mkdir(parents=True, exist_ok=True)
        with RECORDS.open("a", encoding="utf-8") as handle:
            handle.write(line + "\n")
        print(line, flush=True)


def main() -> None:
    if sys.argv[1:2] == ["table"]:
        write_tables()
    else:
        run(sys.argv[2], [int(n) for n in sys.argv[3:]])


if __name__ == "__main__":
    main()

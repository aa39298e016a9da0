"""Does the stated number of wrong changes hold? Stated against true, on runs with injected noise.

python benchmarks/assess.py                     digits, a few minutes
python benchmarks/assess.py mnist fashion_mnist (5,000 samples of each)
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from adacorr.cli import main as adacorr
from adacorr.runs.directory import Run

NOISES = ("uniform:0.1", "uniform:0.2", "uniform:0.4", "uniform:0.6", "pair:0.2", "pair:0.3")
METHODS = ("adacorr", "posterior")


def main(names: list[str]) -> None:
    print(f"{'run':<36}{'changed':>8}{'wrong: stated':>14}{'true':>6}{'ratio':>7}", end="")
    print(f"{'kept wrong: stated':>20}{'true':>6}")
    ratios = [compare(*case) for case in product(names, NOISES, METHODS)]
    near = sum(0.5 <= r <= 2 for r in ratios)
    print(f"within a factor of 2: {near} of {len(ratios)}; too high: {sum(r > 1 for r in ratios)}")


def compare(name: str, noise: str, method: str) -> float:
    """Fit, print one line, return stated / true of the wrong changes."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = ["fit", name, "--noise", noise, "--method", method, "--run-dir", str(run)]
        command += [] if name == "digits" else ["--subset", "5000"]
        with contextlib.suppress(SystemExit):  # how every command ends
            adacorr([*command, "--quiet"])
        table = Run.open(run).labels()
    column = {c: table[c].to_numpy() for c in ("given", "corrected", "truth", "confidence")}
    doubt, changed = 1 - column["confidence"], column["given"] != column["corrected"]
    wrong = column["corrected"] != column["truth"]
    stated, true = (np.bincount(changed, x, minlength=2) for x in (doubt, wrong))
    ratio = stated[1] / max(true[1], 1)
    print(
        f"{f'{name} {noise} {method}':<36}{changed.sum():>8}{stated[1]:>14.0f}{true[1]:>6.0f}",
        end="",
    )
    print(f"{ratio:>7.2f}{stated[0]:>20.0f}{true[0]:>6.0f}", flush=True)
    return float(ratio)


if __name__ == "__main__":
    main(sys.argv[1:] or ["digits"])

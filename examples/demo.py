"""Corrects 40% wrong labels on real handwritten digits, beside standard training.

Runs in about a minute on two cores:  python examples/demo.py
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np

from adacorr.core import noise
from adacorr.data import load
from adacorr.report import write_report
from adacorr.runs.directory import add_columns
from adacorr.train import METHODS, fit

OUTPUT = Path("adacorr-demo")
NOISE = "uniform:0.4"


def main() -> None:
    parts = load("digits")
    train, test = parts.train, parts.test
    assert test is not None
    truth = train.labels
    given = noise.inject(truth, noise.parse(NOISE, train.n_classes), rng=np.random.default_rng(0))
    print(
        f"{len(train):,} handwritten digits; {(given != truth).mean():.0%} of the labels are made"
    )
    print("wrong at random. Neither method is told which, how many, or shown a clean label.\n")

    rows = []
    for name in ("standard", "adacorr"):
        began = time.monotonic()
        print(f"training: {name} ...", end=" ", flush=True)
        run_dir = OUTPUT / name
        shutil.rmtree(run_dir, ignore_errors=True)
        result = fit(
            None,
            train.features,
            given,
            method=METHODS[name](),
            class_names=train.codec,
            run_dir=run_dir,
            config={"data": {"source": "digits", "noise": NOISE, "seed": 0}},
            on_epoch=lambda end: {
                "test_accuracy": float(
                    (end.predict(test.features).argmax(axis=1) == test.labels).mean()
                )
            },
        )
        assert result.run is not None
        add_columns(result.run.file("labels.parquet"), {"truth": truth})
        write_report(result.run)
        print(f"{time.monotonic() - began:.0f} s")
        last, best = result.history[-1], result.history[result.selected_epoch - 1]
        rows.append(
            (name, last["test_accuracy"], best["test_accuracy"], (result.labels == truth).mean())
        )

    print(f"\n{'':10}{'test accuracy':^32}{'labels right':^28}")
    print(f"{'':10}{'last epoch':>14}{'selected epoch':>18}{'before':>14}{'after':>14}")
    for name, last, best, after in rows:
        print(f"{name:10}{last:14.1%}{best:18.1%}{(given == truth).mean():14.1%}{after:14.1%}")
    print("\nThe selected epoch is the best on held-out labels that are just as noisy.")
    print(f"Corrected labels: {OUTPUT}/adacorr/labels.parquet")
    print(f"Report:           {OUTPUT}/adacorr/report.html")
    print(f"Look at them:     adacorr review {OUTPUT}/adacorr")


if __name__ == "__main__":
    main()

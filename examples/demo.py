"""Real handwritten digits with wrong labels among them: found, corrected, and what to ask a person.

    python examples/demo.py

The photos (8 x 8 pixels) come with scikit-learn and the encoder's weights with a package, so
nothing is downloaded. About half a minute on one core.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import adacorr
from adacorr.cli.clean import summarise, summary_text
from adacorr.cli.progress import Steps
from adacorr.report import write_report

OUTPUT = Path("adacorr-demo")
RATE = 0.15
QUESTIONS = 5


def main() -> None:
    shutil.rmtree(OUTPUT, ignore_errors=True)  # of an earlier demo
    given, truth = write_photos(OUTPUT / "photos")
    print(
        f"{len(truth):,} photos of handwritten digits in {OUTPUT / 'photos'}, a folder per class;"
    )
    print(f"{(given != truth).mean():.0%} of them lie in a wrong folder. Which ones is not told.\n")
    print(f"$ adacorr clean {OUTPUT / 'photos'} --run-dir {OUTPUT / 'run'}")

    began = time.monotonic()
    steps = Steps(quiet=False)
    found = adacorr.clean(OUTPUT / "photos", run_dir=OUTPUT / "run", tick=steps)
    steps.close()
    assert found.run is not None
    write_report(found.run)
    print(summary_text(summarise(OUTPUT / "run", found, time.monotonic() - began)))

    right = truth.astype(str)
    before, after = (given == truth).mean(), (found.labels == right).mean()
    print(f"\nThe truth, which only this demo knows: {before:.1%} of the labels were right before,")
    print(
        f"{after:.1%} are now. The first {QUESTIONS} questions to a person, who settles the rest:"
    )
    assert found.samples.ids is not None
    for row in adacorr.ask(found.samples.labels, found.pred_probs, n=QUESTIONS):
        says = int(found.pred_probs[row].argmax())
        other = "" if says == given[row] else f" or a {says}"
        print(f"  is {found.samples.ids[row]} a {given[row]}{other}?")
    print(f"\nReport: {OUTPUT / 'run' / 'report.html'}. Look at the changes and answer:")
    print(f"{command()} review {OUTPUT / 'run'}")


def command() -> str:
    """How to call adacorr from this folder, whether or not its environment is active."""
    beside = Path(sys.executable).with_name("adacorr")
    if shutil.which("adacorr") or not beside.exists():
        return "adacorr"
    return os.path.relpath(beside)


def write_photos(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The digits as PNG files in the folder of their given class; (given, true) in file order."""
    pixels, truth = (np.asarray(part) for part in load_digits(return_X_y=True))
    given = adacorr.noise.inject(truth, adacorr.noise.uniform(10, RATE), rng=0)
    for digit in range(10):
        (folder / str(digit)).mkdir(parents=True)
    for number, row in enumerate(pixels):
        image = Image.fromarray((row.reshape(8, 8) * 255 / 16).astype(np.uint8))
        image.save(folder / str(given[number]) / f"{number:04}.png")
    order = np.lexsort((np.arange(len(truth)), given))  # as the folder is read
    return given[order], truth[order]


if __name__ == "__main__":
    main()

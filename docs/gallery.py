"""Makes the gallery of reports, one of each kind of run: python docs/gallery.py [--to FOLDER]

About half a minute on one core. Nothing is downloaded: the data come with scikit-learn and SciPy.
Open index.html in the folder, which must be new; by default it is ``gallery``. With `--pictures`,
which needs chromium, the first screen of each report goes to docs/images/gallery.
"""

from __future__ import annotations

import argparse
import csv
import html
import importlib
import inspect
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images

import adacorr
from adacorr.cli import main as command

IMAGES = Path(__file__).parent / "images" / "gallery"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
AREAS = ("stats", "signal", "linalg", "ndimage", "optimize", "interpolate")


@dataclass(frozen=True)
class Entry:
    """A report: its name, what the data are, and what writes them and gives the arguments."""

    name: str
    about: str
    make: Callable[[Path], list[str]]


def right_labels(folder: Path) -> list[str]:
    return [str(digits(folder / "right-labels", 0.0))]


def one_percent(folder: Path) -> list[str]:
    return [str(digits(folder / "one-percent", 0.01))]


def forty_percent(folder: Path) -> list[str]:
    return [str(digits(folder / "forty-percent", 0.4))]


def digits(folder: Path, rate: float) -> Path:
    """Handwritten digits as a folder of pictures, a share of them in a wrong folder."""
    pixels, truth = (np.asarray(part)[:1200] for part in load_digits(return_X_y=True))
    given = adacorr.noise.inject(truth, adacorr.noise.uniform(10, rate), rng=0) if rate else truth
    for number, row in enumerate(pixels):
        path = folder / str(given[number]) / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((row.reshape(8, 8) * 255 / 16).astype(np.uint8)).save(path)
    return folder


def photos(folder: Path) -> list[str]:
    """Parts of two photos, of a temple and of a flower, 5% of them in the wrong folder."""
    wrong = set(np.random.default_rng(0).choice(300, 15, replace=False).tolist())
    number = 0
    for k, photo in enumerate(cast("Any", load_sample_images()).images):
        for top in range(0, 379, 40):
            for left in range(0, 592, 40):
                name = ("temple", "flower")[k ^ (number in wrong)]
                path = folder / "photos" / name / f"{number:03}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(photo[top : top + 48, left : left + 48]).save(path)
                number += 1
    return [str(folder / "photos")]


def texts(folder: Path) -> list[str]:
    """The documentation of SciPy's functions and the module of each, 5% of them wrong."""
    found: dict[str, str] = {}
    for area in AREAS:
        module = importlib.import_module(f"scipy.{area}")
        for name in module.__all__:
            text = (inspect.getdoc(getattr(module, name)) or "").split("Parameters\n")[0].strip()
            if len(text) > 60:
                found.setdefault(text, area)
    codes = np.array([AREAS.index(area) for area in found.values()])
    given = adacorr.noise.inject(codes, adacorr.noise.uniform(len(AREAS), 0.05), rng=0)
    rows = [(text, AREAS[code]) for text, code in zip(found, given.tolist(), strict=True)]
    return [str(write(folder / "texts.csv", ("text", "label"), rows))]


def table(folder: Path) -> list[str]:
    """Measurements of cells with a diagnosis, six of 569 swapped."""
    cells: Any = load_breast_cancer()
    codes = cells.target.copy()
    codes[np.random.default_rng(1).choice(len(codes), 6, replace=False)] ^= 1
    rows = [(*x, cells.target_names[y]) for x, y in zip(cells.data, codes, strict=True)]
    path = write(folder / "patients.csv", (*cells.feature_names, "diagnosis"), rows)
    return [str(path), "--label-column", "diagnosis"]


def write(path: Path, header: tuple[str, ...], rows: list[tuple]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([header, *rows])
    return path


ENTRIES = (
    Entry("right-labels", "Handwritten digits, every label right", right_labels),
    Entry("one-percent", "Handwritten digits, 1% of the labels wrong", one_percent),
    Entry("forty-percent", "Handwritten digits, 40% of the labels wrong", forty_percent),
    Entry("photos", "Photos, 5% in the wrong folder", photos),
    Entry("texts", "Texts, 5% of the labels wrong", texts),
    Entry("table", "A table, 1% of the labels swapped", table),
)


def make(entry: Entry, folder: Path) -> Path:
    """Write the data, clean them, and leave the report as NAME.html."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    run = folder / "runs" / entry.name
    arguments = entry.make(folder / "data")
    try:
        command(["clean", *arguments, "--run-dir", str(run), "--quiet"])
    except SystemExit as stop:
        if stop.code:
            raise
    return Path(shutil.copy(run / "report.html", folder / f"{entry.name}.html"))


def index(folder: Path, entries: tuple[Entry, ...]) -> Path:
    lines = [f'<li><a href="{e.name}.html">{html.escape(e.about)}</a></li>\n' for e in entries]
    page = folder / "index.html"
    page.write_text(
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Reports</title>\n'
        f"<h1>Reports of adacorr</h1>\n<ul>\n{''.join(lines)}</ul>\n</html>\n",
        encoding="utf-8",
    )
    return page


def take_pictures(folder: Path) -> None:
    """The first screen of each report for the docs; whole and printed beside the report."""
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        for entry in ENTRIES:
            page.goto((folder / f"{entry.name}.html").resolve().as_uri())
            first = IMAGES / f"{entry.name}.png"
            page.screenshot(path=first)
            Image.open(first).quantize(128).save(first, optimize=True)  # a third of the size
            page.screenshot(path=folder / f"{entry.name}.png", full_page=True)
            page.pdf(path=folder / f"{entry.name}.pdf", format="A4")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("gallery"))
    parser.add_argument("--pictures", action="store_true")
    options = parser.parse_args()
    if options.to.exists():
        parser.error(f"--to: expected a new folder, got {options.to}")
    for entry in ENTRIES:
        print(make(entry, options.to))
    print(index(options.to, ENTRIES))
    if options.pictures:
        take_pictures(options.to)


if __name__ == "__main__":
    main()

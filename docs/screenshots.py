"""Takes the three screenshots of the documentation from real runs: python docs/screenshots.py

Needs chromium, and some minutes: the report of `adacorr clean` on 1,200 pictures of digits, 5% of
them in the wrong folder, with 150 answers that the truth gives in place of a person; and a review
of `adacorr fit digits` with 30% wrong labels. `--keep FOLDER` leaves the runs and the pages there:
light, dark and as printed. `--only report` takes the first picture alone.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from gallery import digits
from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

import adacorr

IMAGES = Path(__file__).parent / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
ADACORR = [sys.executable, "-m", "adacorr"]
REVIEWED = "aaraaaaaaaraaaaaaaaas"  # keys: accept, reject, skip
QUESTIONS = 50
ANSWERS = 150


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", choices=["report"])
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    cleaned, fitted = folder / "digits", folder / "digits-fit"
    if not cleaned.exists():
        clean(folder, cleaned)
    if not (options.only or fitted.exists()):
        command = [*ADACORR, "fit", "digits", "--noise", "uniform:0.3", "--run-dir", str(fitted)]
        subprocess.run(command, check=True)
    with sync_playwright() as driver:
        program = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        for scheme in ("light", "dark"):
            report(browser, cleaned, folder / f"report-{scheme}", scheme)
            if not options.only:
                review(browser, fitted, folder / f"review-{scheme}", scheme)
        browser.close()
    IMAGES.mkdir(exist_ok=True)
    for page in ("report",) if options.only else ("report", "review", "questions"):
        shutil.copy(folder / f"{page}-light.png", IMAGES / f"{page}.png")
    smaller(IMAGES / "report.png")


def clean(folder: Path, run: Path) -> None:
    """Pictures in folders, what `clean` says of them, answers of the truth, and `clean` again."""
    photos = digits(folder / "pictures", 0.05)
    first = adacorr.clean(photos, run_dir=folder / "first")
    digit: Any = load_digits()
    truth, names = digit.target, first.samples.ids
    assert names is not None
    rows = adacorr.ask(first.samples.labels, first.pred_probs, n=ANSWERS)
    answers = [f"{names[row]},{truth[int(Path(str(names[row])).stem)]}" for row in rows.tolist()]
    said = folder / "answers.csv"
    said.write_text("\n".join(["id,label", *answers]) + "\n", encoding="utf-8")
    command = [*ADACORR, "clean", str(photos), "--verified", str(said), "--run-dir", str(run)]
    subprocess.run(command, check=True)


def smaller(path: Path) -> None:
    """In 128 colours a picture takes a third of the space."""
    Image.open(path).quantize(128).save(path, optimize=True)


def report(browser: Any, run: Path, target: Path, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    page.goto(run.joinpath("report.html").resolve().as_uri())
    page.screenshot(path=target.with_suffix(".png"))
    page.screenshot(path=target.with_name(f"{target.name}-whole.png"), full_page=True)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 760, "height": 1075})  # A4 less its margins
    page.screenshot(path=target.with_name(f"{target.name}-print.png"), full_page=True)
    page.pdf(path=target.with_suffix(".pdf"), format="A4")
    context.close()


def review(browser: Any, run: Path, target: Path, scheme: str) -> None:
    """A review that has been going on for a while, begun anew for each picture."""
    for path in run.glob("review.sqlite*"):
        path.unlink()
    command = [*ADACORR, "review", str(run), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            context = browser.new_context(
                viewport={"width": 1280, "height": 800}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(found.group())
            page.fill("#name", "Ada")
            page.press("#name", "Enter")
            ask(page, run)
            page.screenshot(
                path=target.with_name(f"{target.name.replace('review', 'questions')}.png")
            )
            page.click("#mode-changes")
            page.select_option("#order", "audit")
            settle(page)
            for key in REVIEWED:
                page.keyboard.press(key)
                settle(page)
            page.wait_for_selector("#status:not(.shown)", state="attached")
            page.wait_for_timeout(500)  # it fades
            page.screenshot(path=target.with_suffix(".png"))
            page.keyboard.press("g")
            page.wait_for_selector(".card img")
            page.wait_for_timeout(500)
            page.screenshot(path=target.with_name(f"{target.name}-grid.png"))
            context.close()
        finally:
            server.kill()


def ask(page: Any, run: Path) -> None:
    """Questions answered with the truth, which this run knows; the keys are the digits."""
    truth = pq.read_table(run / "labels.parquet", columns=["index", "truth"]).to_pydict()
    right = dict(zip(truth["index"], truth["truth"], strict=True))
    for _ in range(QUESTIONS):
        settle(page)
        found = re.search(r"\d+", page.text_content("#ask-where"))
        assert found is not None
        page.keyboard.press(str(right[int(found.group())]))
    page.wait_for_function("() => document.querySelector('#outlook-age').hidden", timeout=120_000)
    settle(page)
    page.wait_for_timeout(4000)  # the last confirmation fades


def settle(page: Any) -> None:
    """Wait until what was asked for has been done and drawn."""
    page.wait_for_function("() => !document.body.classList.contains('busy')")
    page.wait_for_timeout(100)


if __name__ == "__main__":
    main()

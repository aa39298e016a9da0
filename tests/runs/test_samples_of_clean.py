"""What the review page and the report show of runs of `adacorr clean`."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import adacorr
from adacorr.report import write_report
from adacorr.runs.reader import RunData
from adacorr.runs.samples import Items


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("dark", "light"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(12):
            pixels = rng.integers(0, 100, (30, 20, 3)) + 150 * (name == "light")
            Image.fromarray(pixels.astype(np.uint8)).save(
                tmp_path / "photos" / name / f"{i:02}.png"
            )
    return tmp_path / "photos"


def items(run):
    return Items(RunData.open(run), np.arange(24), side=128)


def test_photos_of_a_folder(photos, tmp_path):
    (photos / "light" / "03.png").write_bytes(b"broken")
    run = adacorr.clean(photos, run_dir=tmp_path / "run").run
    shown = items(run)
    item = shown.get(13)
    assert item.fields == {"sample": "light/01.png"}
    with Image.open(io.BytesIO(item.image)) as picture:
        assert picture.size[0] / picture.size[1] == pytest.approx(20 / 30)
    assert shown.get(15).image is None
    page = write_report(run).read_text(encoding="utf-8")
    assert "What else is wrong with the data" in page
    assert "empty or unreadable, left as given: 1 row" in page


def test_photos_of_a_table(photos, tmp_path):
    files = sorted(photos.rglob("*.png"))
    columns = {"label": [f.parent.name for f in files], "file": [str(f) for f in files]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    run = adacorr.clean(tmp_path / "t.parquet", run_dir=tmp_path / "run").run
    assert items(run).get(0).image is not None


def test_rows_of_a_table_without_the_label(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    columns = {"label": np.array(["a", "b"])[y], "size": y + rng.random(60)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    run = adacorr.clean(tmp_path / "t.parquet", run_dir=tmp_path / "run").run
    assert set(items(run).get(3).fields) == {"size"}

import io
import json

import numpy as np
from PIL import Image

from adacorr.runs.reader import RunData
from adacorr.runs.samples import Items, thumbnail


def open_items(run, wanted=(0, 1)):
    return Items(RunData.open(run), np.array(wanted), 64)


def test_pictures_come_from_the_dataset(make_run):
    items = open_items(make_run(data={"source": "digits"}))
    item = items.get(1)
    assert item.image is not None
    assert max(Image.open(io.BytesIO(item.image)).size) <= 64
    assert items.note() is None
    assert items.get(10**9).image is None
    assert items.get(-1).image is None


def test_rows_come_from_the_table_of_a_correction(make_run, tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("label,p_a,text\n" + "".join(f"a,0.5,<i>{i}</i>\n" for i in range(300)))
    run = make_run()
    names = json.dumps([f"class {i}" for i in range(4)])
    run.file("config.toml").write_text(
        f'[correct]\ndelta = 0.9\n[data]\nsource = "{source}"\nlabel_column = "label"\n'
        f'probs_columns = ["p_a"]\nclass_names = {names}\n'
    )
    items = open_items(run, (0, 7))
    assert items.get(7).fields == {"text": "<i>7</i>"}
    source.unlink()
    assert "expected an existing file" in (open_items(run).note() or "")


def test_without_a_source(make_run):
    items = open_items(make_run())
    assert "does not name the data" in (items.note() or "")
    assert items.get(0).image is None
    gone = open_items(make_run("gone", data={"source": "/no/where.csv"}))
    assert "cannot be opened" in (gone.note() or "")
    odd = open_items(make_run("odd", data={"source": 3}))
    assert "does not name the data" in (odd.note() or "")


def test_thumbnail_shrinks_and_refuses_what_is_no_picture():
    out = io.BytesIO()
    Image.new("P", (900, 300)).save(out, "PNG")
    small = thumbnail(out.getvalue(), 100)
    assert small is not None
    assert Image.open(io.BytesIO(small)).size == (100, 33)
    assert thumbnail(b"not a picture", 100) is None
    assert thumbnail(out.getvalue()[:60], 100) is None

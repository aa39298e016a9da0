import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from adacorr.cli import main
from adacorr.core.validation import InputError
from adacorr.correction import TableSettings, correct_table
from adacorr.review.export import export
from adacorr.review.queue import load_flips
from adacorr.review.store import Store
from adacorr.runs.directory import Run, add_columns, write_toml
from adacorr.runs.reader import RunData
from adacorr.runs.samples import Items


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


def fold(path, names):
    for i, name in enumerate(names):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9, 9), 20 * i).save(path / name)


def shown(item):
    return None if item.image is None else int(np.asarray(Image.open(io.BytesIO(item.image)))[0, 0])


def fit_folder(source, run_dir, *options):
    argv = ["fit", str(source), "--run-dir", str(run_dir), "--epochs", "1", "--quiet", *options]
    with pytest.raises(SystemExit) as exit_:
        main([*argv, "--method", "standard"])
    assert not exit_.value.code
    return RunData.open(Run.open(run_dir))


@pytest.mark.parametrize("options", [("--subset", "30"), ("--skip-unreadable",)])
def test_rows_keep_their_number_and_name(tmp_path, options):
    """Whatever part of the source is taken: what the run says of a row is about that row."""
    source = tmp_path / "photos"
    names = [f"{kind}/{i:02d}.png" for kind in ("cat", "dog") for i in range(20)]
    fold(source, names)
    if options[0] == "--skip-unreadable":
        (source / names[3]).write_bytes(b"no picture")
    data = fit_folder(source, tmp_path / "run", *options)
    (batch,) = data.batches(texts=True)
    assert 20 < len(batch.index) < 40
    assert batch.id == tuple(names[i] for i in batch.index)
    assert [names[i].startswith("dog") for i in batch.index] == batch.given.astype(bool).tolist()
    items = Items(data, batch.index, 64)
    for i in batch.index[:12].tolist():
        assert items.get(i).fields["sample"] == names[i]
        assert shown(items.get(i)) == 20 * i % 256 or i > 12
    store = Store(data.run.file("review.sqlite"), load_flips(data), data.n_classes)
    export(data, store, tmp_path / "final.csv")
    with open(tmp_path / "final.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["adacorr_row"]), row["adacorr_id"]) for row in rows] == list(
        zip(batch.index.tolist(), batch.id, strict=True)
    )


def test_pictures_are_found_by_name_after_the_folder_changed(tmp_path):
    source = tmp_path / "photos"
    names = [f"{kind}/{i:02d}.png" for kind in ("cat", "dog") for i in range(1, 13)]
    fold(source, names)
    data = fit_folder(source, tmp_path / "run")
    fold(source, ["cat/00.png"])  # all others move on by one
    Image.new("L", (30, 20)).save(source / "cat/new.png")
    Image.new("L", (9, 9), 99).save(source / names[2])
    (source / names[4]).unlink()
    items = Items(data, np.arange(24), 64)
    assert items.get(0).fields["sample"] == names[0]
    assert [shown(items.get(i)) for i in (1, 3, 5)] == [20, 60, 100]
    assert shown(items.get(2)) is None
    assert items.get(2).fields == {"sample": names[2], "note": "changed since the run"}
    assert items.get(4).fields == {"sample": names[4], "note": "no longer in the source"}


@pytest.fixture
def corrected(tmp_path):
    """A table of three rows that `correct` has made a run of, with or without a column of ids."""

    def make(ids):
        lines = ["cat,0.9,0.1,purrs", "cat,0.1,0.9,barks", "dog,0.2,0.8,howls"]
        head = "label,p_cat,p_dog,text"
        if ids:
            head, lines = f"id,{head}", [f"r{i},{line}" for i, line in enumerate(lines)]
        source = tmp_path / "pets.csv"
        source.write_text("\n".join([head, *lines, ""]))
        correct_table(source, settings=TableSettings(0.9), run_dir=tmp_path / "run")
        return source, [head, *lines], RunData.open(Run.open(tmp_path / "run"))

    return make


def test_rows_of_a_table_are_found_by_id_after_it_was_sorted(corrected):
    source, (head, *lines), data = corrected(True)
    assert next(data.batches(texts=True)).id == ("r0", "r1", "r2")
    assert Items(data, np.arange(3), 64).get(1).fields == {"id": "r1", "text": "barks"}
    source.write_text("\n".join([head, lines[2], "r9,cat,1,0,meows", lines[1], lines[2], ""]))
    items = Items(data, np.arange(3), 64)
    assert "has changed since the run; rows are found by their ids" in (items.note() or "")
    assert items.get(1).fields == {"id": "r1", "text": "barks"}
    assert items.get(0).fields == {"id": "r0", "note": "no longer in the source"}
    assert items.get(2).fields == {"id": "r2", "note": "more than once in the source"}


def test_a_changed_table_without_ids_shows_nothing(corrected):
    source, (head, *lines), data = corrected(False)
    assert Items(data, np.arange(3), 64).get(1).fields == {"text": "barks"}
    source.write_text("\n".join([head, *reversed(lines), ""]))
    items = Items(data, np.arange(3), 64)
    assert "has changed since the run, and its rows have no column of ids" in (items.note() or "")
    assert items.get(1).fields == {}


def test_a_run_of_the_former_format_gives_the_rows_of_the_source(make_run):
    """There `index` counted within the subset, and `id` had the row number."""
    run = make_run(data={"source": "digits", "subset": 5})
    table = run.labels()
    rows = np.arange(table.num_rows) + 7
    add_columns(run.file("labels.parquet"), {"id": rows})
    data = RunData.open(Run.open(run.path))
    assert np.concatenate([batch.index for batch in data.batches()]).tolist() == rows.tolist()
    assert data.kind == "fit"
    assert data.sentence is None


def test_a_run_of_a_newer_format_is_refused(make_run):
    run = make_run()
    config = run.config()
    write_toml(run.file("config.toml"), {**config, "run": {**config.get("run", {}), "format": 9}})
    with pytest.raises(InputError, match="expected a run of format 1 to 2, got 9; update adacorr"):
        RunData.open(run)

"""Runs of `clean` predict new data of their kind."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adacorr
from adacorr.cleaning.predict import open_new, predictions
from adacorr.core.validation import InputError


def predicted(run, data):
    new = open_new(run, str(data))
    p = np.concatenate(list(predictions(run, new)))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    return new.ids, np.array(run.class_names())[p.argmax(axis=1)]


def test_text(texts, tmp_path):
    made, given, truth = texts
    pq.write_table(pa.table({"label": given[:240], "text": made[:240]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": made[240:]}), tmp_path / "b.parquet")
    run = adacorr.clean(tmp_path / "a.parquet", text_column="text", run_dir=tmp_path / "run").run
    assert (predicted(run, tmp_path / "b.parquet")[1] == truth[240:]).mean() > 0.95
    pq.write_table(pa.table({"label": given}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match="expected a column 'text', got label"):
        open_new(run, str(tmp_path / "c.parquet"))
    pq.write_table(pa.table({"label": given, "text": made}).slice(60), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="got others: it has changed since"):
        predicted(run, tmp_path / "b.parquet")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(InputError, match="expected its data in"):
        predicted(run, tmp_path / "b.parquet")


def test_values(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    columns = {"label": np.array(["a", "b"])[y], "size": 3 * y + rng.normal(size=300)}
    pq.write_table(pa.table(columns).slice(0, 200), tmp_path / "a.parquet")
    pq.write_table(pa.table(columns).slice(200).select(["size"]), tmp_path / "b.parquet")
    run = adacorr.clean(tmp_path / "a.parquet", run_dir=tmp_path / "run").run
    assert (predicted(run, tmp_path / "b.parquet")[1] == columns["label"][200:]).mean() > 0.85


def test_photos_without_those_of_the_run(photos, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    for name in ("plain", "striped"):
        (photos / name / "20.png").rename(new / f"{name}.png")
    (new / "zz.png").write_bytes(b"broken")
    run = adacorr.clean(photos, run_dir=tmp_path / "run").run
    photos.rename(tmp_path / "elsewhere")
    ids, said = predicted(run, new)
    assert ids.tolist() == ["plain.png", "striped.png", "zz.png"]
    assert said[:2].tolist() == ["plain", "striped"]
    features = run.file("features.npy")
    damaged = bytearray(features.read_bytes())
    damaged[9000] ^= 64
    features.write_bytes(damaged)
    with pytest.raises(InputError, match=r"features\.npy: expected the file as the run wrote it"):
        predicted(run, new)
    (run.path / "manifest.json").unlink()
    np.save(features, np.zeros((3, 3), np.float32))
    with pytest.raises(InputError, match=r"features\.npy: expected features of all rows"):
        predicted(run, new)

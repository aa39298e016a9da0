from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.data.table import load_table

REAL = os.environ.get("ADACORR_DATA")
CSV = "age,colour,height,kind\n30,red,1.5,yes\n40,blue,1.7,no\n50,red,1.9,yes\n"


def write(tmp_path: Path, text: str, name: str = "people.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.tsv", "people.parquet"])
def test_numbers_and_levels(tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        columns = {"age": [30, 40, 50], "colour": ["red", "blue", "red"]}
        table = pa.table({**columns, "height": [1.5, 1.7, 1.9], "kind": ["yes", "no", "yes"]})
        path = tmp_path / name
        pq.write_table(table, path)
    else:
        path = write(tmp_path, CSV.replace(",", "\t") if ".tsv" in name else CSV, name)
    data = load(path, label_column="kind").train
    assert data.feature_names == ("age", "colour=blue", "colour=red", "height")
    expected = np.array([[30, 0, 1, 1.5], [40, 1, 0, 1.7], [50, 0, 1, 1.9]], np.float32)
    assert np.array_equal(np.asarray(data.features), expected)
    assert data.class_names == ("no", "yes")
    assert data.labels.tolist() == [1, 0, 1]


def test_a_table_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path, "0.5,7,1\n0.25,8,0\n0.1,9,1\n")
    for column in ("2", "-1"):
        data = load(path, label_column=column).train
        assert data.feature_names == ("0", "1")
        assert data.labels.tolist() == [1, 0, 1]
        assert np.asarray(data.features)[:, 1].tolist() == [7, 8, 9]


def test_the_usual_label_names_and_truth(tmp_path: Path) -> None:
    data = load(write(tmp_path, "x,label,truth\n1,a,a\n2,b,a\n3,b,b\n")).train
    assert data.feature_names == ("x",)
    assert data.truth is not None
    assert data.truth.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (CSV, "size", r"people\.csv: expected a column 'size', got age, colour, height, kind"),
        (CSV, None, r"people\.csv: expected label_column, one of age, colour"),
        (CSV, "9", "expected a column '9'"),
        (CSV.replace("40", ""), "kind", "expected a value in column age, row 1, got none"),
        (CSV.replace("1.7", "nan"), "kind", "expected a value in column height, row 1, got none"),
        (CSV.replace("1.7", "inf"), "kind", "a finite number in column height, row 1, got inf"),
        (CSV.replace("no", "yes"), "kind", "column kind: labels: expected at least 2 classes"),
        ("x,label\n", "label", "expected at least one row, got none"),
        ("", "label", "expected a readable table"),
        ("x,label\n1,a\n2,b,c\n", "label", "expected a readable table, got .*Expected 2 columns"),
        ("label\na\nb\n", "label", "expected feature columns beside the labels, got none"),
        ("x,x,label\n1,2,a\n3,4,b\n", "label", "expected distinct column names, got x twice"),
        (
            "note,label\n" + "".join(f"name{i},{i % 2}\n" for i in range(40)),
            "label",
            "at most 32 levels in column note, got 40 different texts",
        ),
    ],
)
def test_bad_tables_are_explained(tmp_path: Path, text: str, column, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, text), label_column=column)


def test_bytes_that_are_no_table(tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00garbage\xff")
        with pytest.raises(InputError, match=f"{name}: expected"):
            load(tmp_path / name, label_column="label")
    path = write(tmp_path, CSV * 50, "cut.csv.gz")
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"cut\.csv\.gz: expected a readable table"):
        load(path, label_column="kind")


def test_a_column_of_paths(tmp_path: Path, image_folder: Path) -> None:
    rows = ["file,label"] + [f"photos/{c}/{i}.png,{c}" for c in ("dog", "cat") for i in range(3)]
    data = load(write(tmp_path, "\n".join(rows)), label_column="label").train
    folder = load(image_folder).train
    assert np.array_equal(np.asarray(data.features)[:3], np.asarray(folder.features)[3:])
    (image_folder / "cat" / "2.png").unlink()
    with pytest.raises(InputError, match=r"photos/cat/2\.png: expected a readable image"):
        load(tmp_path / "people.csv")
    data = load(tmp_path / "people.csv", skip_unreadable=True).train
    assert len(data) == 5
    assert data.skipped == (str(tmp_path / "photos/cat/2.png"),)


@pytest.mark.parametrize("struct", [True, False])
def test_a_column_of_bytes(tmp_path: Path, rng, encode_png, struct: bool) -> None:
    pixels = rng.integers(0, 256, (4, 8, 8), dtype=np.uint8)
    cells = [encode_png(p) for p in pixels]
    column = [{"bytes": c, "path": None} for c in cells] if struct else cells
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"img": column, "label": [0, 1, 0, 1], "note": list("abcd")}), path)
    for given in (None, "img"):
        data = load(path, label_column="label", image_column=given).train
        assert np.array_equal(np.asarray(data.features)[..., 0], pixels)
    with pytest.raises(InputError, match="expected a column 'picture'"):
        load(path, label_column="label", image_column="picture")
    pq.write_table(pa.table({"img": [*cells[:3], b"broken"], "label": [0, 1, 0, 1]}), path)
    with pytest.raises(
        InputError, match=r"t\.parquet: column img, row 3: expected a readable image"
    ):
        load(path, label_column="label")


@pytest.mark.skipif(not REAL, reason="ADACORR_DATA is not set: no real files to read")
def test_the_real_tables() -> None:
    data = load(Path(str(REAL)) / "tabular" / "spambase.csv.gz", label_column="57").train
    assert (len(data), data.input_shape) == (4601, (57,))
    assert np.bincount(data.labels).tolist() == [2788, 1813]


def test_a_headerless_table_with_a_byte_order_mark_keeps_its_first_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf1.5,0\n2.5,1\n3.5,0\n")
    data = load_table(path, "-1", None, None, False)
    assert data.features[:, 0].tolist() == [1.5, 2.5, 3.5]
    assert data.labels.tolist() == [0, 1, 0]


def test_label_is_not_chosen_over_noisy_label(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,label,noisy_label\n1,a,b\n2,b,b\n")
    with pytest.raises(InputError, match="got several columns that may be it: label, noisy_label"):
        load_table(path, None, None, None, False)

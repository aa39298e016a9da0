"""What the data is, found out from a path, a frame or an array."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from PIL import Image

import adacorr
from adacorr.cleaning.columns import telling_columns
from adacorr.cleaning.samples import Columns, digests, from_table, given_samples, open_samples
from adacorr.core.validation import InputError

N = 60
SIZES = np.random.default_rng(0).random(N)
LABELS = np.array(["no", "yes"])[np.arange(N) % 2]


def table(**columns):
    return pa.table({"label": LABELS, **columns})


def write(tmp_path, **columns):
    path = tmp_path / "data.parquet"
    pq.write_table(table(**columns), path)
    return path


def prose(i):
    return f"a sentence about things, the {i}th of many that were written"


def test_a_folder_is_images(photos):
    samples = open_samples(photos)
    assert (samples.kind, len(samples), samples.class_names) == ("images", 48, ("plain", "striped"))
    assert samples.ids is not None
    assert samples.ids[0] == "plain/00.png"


def test_folders_named_train_and_test_are_a_split(tmp_path, photos):
    for part in ("train", "test"):
        (tmp_path / "all" / part).parent.mkdir(exist_ok=True)
        (tmp_path / "all" / part).symlink_to(photos)
    samples = open_samples(tmp_path / "all")
    assert samples.class_names == ("plain", "striped")
    assert samples.split is not None
    assert np.bincount(samples.split).tolist() == [48, 48]


def test_text_is_told_from_values(tmp_path):
    text = [prose(i) for i in range(N)]
    assert open_samples(write(tmp_path, text=text)).kind == "text"
    assert open_samples(write(tmp_path, text=text, size=SIZES)).kind == "values"
    chosen = open_samples(write(tmp_path, text=text, size=SIZES), Columns(text_column="text"))
    assert chosen.kind == "text"
    assert chosen.content[1] == prose(1)


def test_text_without_spaces(tmp_path):
    text = [
        "这是一个没有空格的句子用来描述某一件事情的内容以及更多细节" + chr(0x4E00 + i)
        for i in range(N)
    ]
    assert open_samples(write(tmp_path, text=text)).kind == "text"


def test_columns_that_tell_nothing_or_everything_are_left_out():
    columns = table(
        id=np.arange(N),
        code=[f"x{i}" for i in range(N)],
        same=["a"] * N,
        label_name=np.where(LABELS == "yes", "positive", "negative"),
        size=SIZES,
    )
    codes = (LABELS == "yes").astype(np.int64)
    kept, notes = telling_columns(columns, columns.column_names[1:], codes)
    assert kept == ["size"]
    assert [note.split(":")[0] for note in notes] == [
        "left out id",
        "left out code",
        "left out same",
        "left out label_name",
    ]


def test_a_table_with_image_paths(tmp_path, photos):
    files = sorted(photos.rglob("*.png"))[:N]
    labels = [f.parent.name for f in files]
    pq.write_table(
        pa.table({"label": labels, "file": [str(f) for f in files]}), tmp_path / "t.parquet"
    )
    samples = open_samples(tmp_path / "t.parquet")
    assert samples.kind == "images"
    assert samples.content[0] == files[0]


def test_an_empty_cell_is_an_image_that_cannot_be_read(tmp_path, photos):
    files = [str(f) for f in sorted(photos.rglob("*.png"))]
    labels = [f.split("/")[-2] for f in files]
    raw = [Path(f).read_bytes() for f in files]
    for column in (files, raw, [{"bytes": b} for b in raw]):
        column[5] = {"bytes": None} if isinstance(column[5], dict) else None
        pq.write_table(pa.table({"label": labels, "picture": column}), tmp_path / "t.parquet")
        found = adacorr.clean(tmp_path / "t.parquet", "label")
        assert np.flatnonzero(found.issues.unreadable).tolist() == [5]


def test_columns_of_any_type_are_used_or_left_out():
    columns = table(
        size=SIZES,
        words=pa.array(["red", "green", "blue"] * 20, pa.string_view()),
        kind=pa.array(["a", "b", "c"] * 20).dictionary_encode(),
        price=pa.array([i // 7 for i in range(N)], pa.decimal128(9, 2)),
        when=pa.array([dt.time(i % 24) for i in range(N)]),
        flag=pa.array([None, True, False] * 20),
        blob=pa.array([bytes([i]) for i in range(N)]),
        blobs=pa.array([bytes([i]) for i in range(N)]).dictionary_encode(),
        runs=pc.run_end_encode(pa.array([i // 9 for i in range(N)])),
        fixed=pa.array([bytes([i]) for i in range(N)], pa.binary(1)),
        pairs=pa.array([[1, 2]] * N),
        span=pa.array([pa.MonthDayNano([i % 3, 1, 1]) for i in range(N)]),
    )
    samples = from_table(columns, Columns(), Path("t"))
    assert samples.content.column_names == ["size", "words", "kind", "price", "when", "flag"]
    assert sum("cannot be used" in note for note in samples.notes) == 6
    assert adacorr.clean(columns, "label").labels.tolist() == LABELS.tolist()


def test_group_and_split_columns(tmp_path):
    path = write(tmp_path, size=SIZES, who=np.arange(N) // 3, part=["a", None] * 30)
    samples = open_samples(path, Columns(group_column="who", split_column="part"))
    assert samples.groups is not None
    assert len(np.unique(samples.groups)) == N // 3
    assert samples.split is not None
    assert samples.content.column_names == ["size"]


def test_labels_come_back_as_they_were():
    for labels in (LABELS, np.arange(N) % 3, np.array([5, 7])[np.arange(N) % 2]):
        samples = given_samples(np.linspace(0, 1, 3 * N).reshape(N, 3), labels, Columns())
        assert samples.codec.decode(samples.labels).tolist() == labels.tolist()


def test_frames_bring_the_order_of_their_classes():
    pd = pytest.importorskip("pandas")
    labels = pd.Categorical(LABELS, categories=["yes", "no"])
    samples = given_samples(pd.DataFrame({"size": SIZES}), labels, Columns())
    assert samples.class_names == ("yes", "no")


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (np.zeros((4, 2)), None, "labels: expected one per sample"),
        (np.zeros((4, 2)), [0, 1], "labels: expected 4 of them"),
        (np.zeros((2, 2, 2, 2, 2)), [0, 1], "data: expected a path, a frame, texts"),
    ],
)
def test_bad_input_is_one_line(data, labels, message):
    with pytest.raises(InputError, match=message):
        given_samples(data, labels, Columns())


def test_nothing_left_to_judge_by(tmp_path):
    with pytest.raises(InputError, match="expected columns that tell of the label"):
        open_samples(write(tmp_path, same=["a"] * N))


def test_equal_contents_have_equal_digests(tmp_path):
    days = [dt.date(2020, 1, 1 + i % 3) for i in range(N)]
    samples = open_samples(write(tmp_path, day=days, size=np.arange(N) % 3))
    assert len(np.unique(digests(samples), axis=0)) == 3
    for name in ("a", "b"):
        (tmp_path / "f" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8), "red").save(tmp_path / "f" / name / "x.png")
    assert len(np.unique(digests(open_samples(tmp_path / "f")), axis=0)) == 1


def test_rows_of_a_table_are_told_apart_by_every_cell():
    import pyarrow as pa

    table = pa.table(
        {
            "size": [1.0, 1.0, 2.0, None, 0.0, 1.0],
            "count": [1, 1, 1, 1, 1, 2**60 + 1],
            "day": pa.array([1, 1, 1, 1, 1, 1], pa.date32()),
            "name": ["a", "a", "a", "a", "a", None],
        }
    )
    samples = given_samples(table, np.arange(6) % 2, Columns())
    found = digests(replace(samples, content=table))
    _, kind = np.unique(found, axis=0, return_inverse=True)
    assert len(np.unique(kind)) == 5
    assert kind.reshape(-1)[0] == kind.reshape(-1)[1]
    swapped = table.select(["count", "size", "day", "name"])
    assert not (digests(replace(samples, content=swapped)) == found).all(axis=1).any()


def test_an_empty_label_is_no_class(tmp_path):
    labels = np.array(["yes", "no"])[np.arange(N) % 2].astype(object)
    labels[3] = ""
    table = {"label": labels, "size": np.random.default_rng(0).normal(size=N)}
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="expected a label in each row, got none in row 3"):
        open_samples(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([f"{w} {i}" for i, w in enumerate(["red shoes", "blue hat", "green coat"] * 20)], "text"),
        (
            [w + "好吃天气"[i % 4] + chr(0x4E00 + i) for i, w in enumerate(["面条", "阳光"] * 30)],
            "text",
        ),
        (["red", "blue", "green"] * 20, "values"),
        ([f"2020-01-{i % 28 + 1:02} {i:04}" for i in range(60)], "values"),
    ],
)
def test_a_column_alone_is_text_if_its_strings_differ(tmp_path, texts, kind):
    labels = np.array(["a", "b"])[np.arange(60) * 7 % 3 % 2]
    pd.DataFrame({"title": texts, "label": labels}).to_csv(tmp_path / "t.csv", index=False)
    assert open_samples(tmp_path / "t.csv").kind == kind

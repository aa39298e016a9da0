from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load, load_new

RUN = {"class_names": ["cat", "dog"], "input_shape": [6, 5, 3]}


def test_a_flat_folder_one_image_and_known_classes(image_folder: Path) -> None:
    data = load_new(image_folder / "cat", RUN)
    assert data.labels.tolist() == [-1, -1, -1]
    assert data.ids is not None
    assert data.ids.tolist() == ["0.png", "1.png", "2.png"]
    assert len(load_new(image_folder / "cat" / "0.png", RUN)) == 1
    assert load_new(image_folder, RUN).labels.tolist() == [0, 0, 0, 1, 1, 1]
    resized = load_new(image_folder, {**RUN, "input_shape": [8, 8, 1]})
    assert resized.input_shape == (8, 8, 1)


def test_an_unreadable_new_image(image_folder: Path) -> None:
    (image_folder / "cat" / "1.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"cat/1\.png: expected a readable image"):
        load_new(image_folder, RUN)
    assert len(load_new(image_folder, RUN, skip_unreadable=True)) == 5


def test_a_table_is_encoded_as_the_training_table_was(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("age,colour,kind\n30,red,yes\n40,blue,no\n50,green,yes\n")
    train = load(tmp_path / "train.csv", label_column="kind").train
    run = {
        "class_names": list(train.class_names),
        "feature_names": list(train.feature_names or ()),
        "label_column": "kind",
        "input_shape": list(train.input_shape),
    }
    (tmp_path / "new.csv").write_text("colour,age\nred,1\nviolet,2\n")
    new = load_new(tmp_path / "new.csv", run)
    assert new.feature_names == ("age", "colour=blue", "colour=green", "colour=red")
    assert np.asarray(new.features).tolist() == [[1, 0, 0, 1], [2, 0, 0, 0]]
    assert new.labels.tolist() == [-1, -1]
    (tmp_path / "new.csv").write_text("colour,age,kind\nred,1,no\nblue,2,yes\n")
    assert load_new(tmp_path / "new.csv", run).labels.tolist() == [0, 1]
    (tmp_path / "new.csv").write_text("colour,age,kind\nred,1,maybe\n")
    with pytest.raises(InputError, match="expected labels among no, yes, got 'maybe' in row 0"):
        load_new(tmp_path / "new.csv", run)
    (tmp_path / "new.csv").write_text("colour\nred\n")
    with pytest.raises(InputError, match="expected a column 'age', got colour"):
        load_new(tmp_path / "new.csv", run)


def test_a_label_at_the_end_by_position(tmp_path: Path) -> None:
    run = {"class_names": ["0", "1"], "feature_names": ["0", "1"], "label_column": "-1"}
    (tmp_path / "new.csv").write_text("5,6,1\n7,8,0\n")
    assert load_new(tmp_path / "new.csv", run).labels.tolist() == [1, 0]
    (tmp_path / "new.csv").write_text("5,6\n7,8\n")
    new = load_new(tmp_path / "new.csv", run)
    assert new.labels.tolist() == [-1, -1]
    assert np.asarray(new.features).tolist() == [[5, 6], [7, 8]]


def test_a_table_of_images(tmp_path: Path, encode_png) -> None:
    cells = [encode_png(np.full((9, 9, 3), v, np.uint8)) for v in (10, 200)]
    pq.write_table(pa.table({"img": cells}), tmp_path / "new.parquet")
    data = load_new(tmp_path / "new.parquet", RUN)
    assert data.input_shape == (6, 5, 3)
    assert data.labels.tolist() == [-1, -1]


def test_arrays_with_and_without_labels(tmp_path: Path) -> None:
    run = {"class_names": ["cat", "dog"], "input_shape": [3]}
    np.savez(tmp_path / "new.npz", features=np.eye(3))
    assert load_new(tmp_path / "new.npz", run).labels.tolist() == [-1, -1, -1]
    np.savez(tmp_path / "new.npz", features=np.eye(3), labels=["dog", "cat", "dog"])
    assert load_new(tmp_path / "new.npz", run).labels.tolist() == [1, 0, 1]
    np.savez(tmp_path / "new.npz", features=np.eye(4))
    with pytest.raises(InputError, match=r"expected samples of shape \(3,\) as in training, got"):
        load_new(tmp_path / "new.npz", run)
    np.savez(tmp_path / "new.npz", features=np.eye(3), labels=["dog"])
    with pytest.raises(InputError, match="expected 3 labels, got 1"):
        load_new(tmp_path / "new.npz", run)


def test_a_named_dataset_gives_its_test_part() -> None:
    names = [str(i) for i in range(10)]
    data = load_new("digits", {"class_names": names, "input_shape": [8, 8, 1]})
    assert len(data) == 360
    assert data.labels.min() == 0
    other = load_new("digits", {"class_names": ["a", "b"]})
    assert set(other.labels.tolist()) == {-1}


def test_bad_new_sources(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file, a folder or a named dataset"):
        load_new(tmp_path / "gone", RUN)
    with pytest.raises(InputError, match="expected images, got none"):
        load_new(tmp_path, RUN)
    with pytest.raises(InputError, match=r"data\.class_names: expected"):
        load_new("digits", {})

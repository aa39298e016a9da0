"""What goes wrong on the way in says how to go on."""

import re

import numpy as np
import pytest
from PIL import Image

from adacorr.core.validation import InputError
from adacorr.data import load


def photo(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(path)


def test_parts_of_a_split_are_not_taken_for_classes(tmp_path):
    folder = tmp_path / "photos"
    for part in ("test", "train"):
        for name in ("cat", "dog"):
            photo(folder / part / name / "1.png")
    with pytest.raises(InputError, match=re.escape(f"pass {folder / 'train'}")):
        load(folder)
    assert load(folder / "train").train.class_names == ("cat", "dog")


def test_classes_called_train_and_test_are_classes(tmp_path):
    for name in ("train", "test"):
        photo(tmp_path / name / "1.png")
    assert load(tmp_path).train.class_names == ("test", "train")


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\nbroken"])
def test_an_unreadable_image_names_the_way_out(tmp_path, content):
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        photo(tmp_path / name)
    (tmp_path / "dog/2.png").write_bytes(content)
    with pytest.raises(InputError, match=r"dog/2\.png: expected a readable .*--skip-unreadable"):
        load(tmp_path)
    assert len(load(tmp_path, skip_unreadable=True).train) == 3


def test_columns_can_be_ignored(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"note {i},{i},{i % 2}" for i in range(40)]
    path.write_text("note,size,label\n" + "\n".join(rows))
    with pytest.raises(InputError, match="--ignore-columns note"):
        load(path)
    found = load(path, ignore_columns=["note"]).train
    assert found.feature_names == ("size",)
    with pytest.raises(InputError, match="expected ignore_columns among note, size, label, got"):
        load(path, ignore_columns=["notes"])

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.data import load as load_data
from adacorr.data.images import LazyImages


def test_classes_are_the_subfolders(image_folder: Path) -> None:
    data = load(image_folder).train
    assert data.class_names == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.input_shape == (6, 5, 3)
    assert data.ids is not None
    assert data.ids[4] == "dog/1.png"
    pixels = np.asarray(Image.open(image_folder / "dog" / "1.png"))
    assert np.array_equal(data.features[4], pixels)


def test_odd_files_are_passed_over(image_folder: Path) -> None:
    (image_folder / "readme.txt").write_text("hello")
    (image_folder / ".thumbnails").mkdir()
    (image_folder / ".thumbnails" / "x.png").write_bytes(b"no")
    (image_folder / "cat" / ".hidden.png").write_bytes(b"no")
    (image_folder / "cat" / "notes.md").write_text("no")
    (image_folder / "cat" / "trap.png").mkdir()
    (image_folder / "empty").mkdir()
    (image_folder / "dog" / "deeper").mkdir()
    (image_folder / "dog" / "0.png").rename(image_folder / "dog" / "deeper" / "0.PNG")
    data = load(image_folder).train
    assert data.class_names == ("cat", "dog")
    assert np.bincount(data.labels).tolist() == [3, 3]
    assert data.ids is not None
    assert "dog/deeper/0.PNG" in data.ids.tolist()


def test_different_sizes_become_one(image_folder: Path) -> None:
    Image.new("RGB", (100, 30)).save(image_folder / "cat" / "wide.png")
    assert load(image_folder).train.input_shape == (64, 64, 3)
    assert load(image_folder, image_size=16).train.input_shape == (16, 16, 3)


def test_an_unreadable_image_is_named_or_left_out(image_folder: Path) -> None:
    broken = image_folder / "cat" / "1.png"
    broken.write_bytes(b"broken")
    with pytest.raises(InputError, match=r"cat/1\.png: expected a readable image"):
        load(image_folder)
    data = load(image_folder, skip_unreadable=True).train
    assert data.skipped == (str(broken),)
    assert data.labels.tolist() == [0, 0, 1, 1, 1]
    assert data.ids is not None
    assert "cat/1.png" not in data.ids.tolist()


def test_a_class_that_cannot_be_read_at_all(image_folder: Path) -> None:
    for path in image_folder.rglob("*.png"):
        path.write_bytes(b"broken")
    with pytest.raises(InputError, match="expected readable images, got none"):
        load(image_folder, skip_unreadable=True)


def test_too_few_classes_are_explained(tmp_path: Path, image_folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"empty: expected at least 2 subfolders .* got no image in any"
    ):
        load(tmp_path / "empty")
    for path in (image_folder / "dog").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="got images only in cat"):
        load(image_folder)
    with pytest.raises(InputError, match="got images without a class folder"):
        load(image_folder / "cat")


def test_large_folders_stay_on_disk(image_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["adacorr.data.load"], "IN_MEMORY_BYTES", 10)
    data = load_data(image_folder).train
    assert isinstance(data.features, LazyImages)
    (image_folder / "cat" / "0.png").unlink()
    assert data.features[1].shape == (6, 5, 3)
    with pytest.raises(InputError, match=r"cat/0\.png: expected a readable image"):
        data.features[0]

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adacorr.core.validation import InputError
from adacorr.data import load, open_source
from adacorr.data.images import LazyImages


@pytest.fixture
def shop(root: Path) -> Path:
    """Four noisy, two validation and two test images in the official layout."""
    folder = root / "clothing1m"
    keys = [f"images/{i}/{i}{i}/{i},{i}.jpg" for i in range(8)]
    for i, key in enumerate(keys):
        (folder / key).parent.mkdir(parents=True)
        Image.new("RGB", (40 + i, 50), (10 * i, 0, 0)).save(folder / key)
    (folder / "noisy_train_key_list.txt").write_text("\n".join(keys[:4]) + "\n")
    (folder / "clean_val_key_list.txt").write_text("\n".join(keys[4:6]) + "\n")
    (folder / "clean_test_key_list.txt").write_text("\n".join(keys[6:]) + "\n")
    noisy = [f"{key} {i}" for i, key in enumerate(keys[:4])]
    clean = [f"{key} {i + 6}" for i, key in enumerate(keys) if i >= 3]
    (folder / "noisy_label_kv.txt").write_text("\n".join(noisy) + "\n")
    (folder / "clean_label_kv.txt").write_text("\n".join(clean) + "\n")
    return folder


def test_the_three_parts(shop: Path) -> None:
    parts = load("clothing1m", image_size=32)
    assert parts.train.labels.tolist() == [0, 1, 2, 3]
    assert parts.train.truth is None  # only one of the four has a clean label
    assert parts.validation is not None
    assert parts.validation.labels.tolist() == [10, 11]
    assert parts.test is not None
    assert parts.test.labels.tolist() == [12, 13]
    assert parts.test.truth is not None
    assert parts.train.n_classes == 14
    assert parts.train.class_names[13] == "Underwear"
    assert parts.train.ids is not None
    assert parts.train.ids[2] == "images/2/22/2,2.jpg"
    assert parts.test.features[1].shape == (32, 32, 3)
    assert abs(int(parts.test.features[1][16, 16, 0]) - 70) < 4


def test_images_are_read_when_needed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["adacorr.data.load"], "IN_MEMORY_BYTES", 10)
    (shop / "images/1/11/1,1.jpg").write_bytes(b"broken")
    train = load("clothing1m").train
    assert isinstance(train.features, LazyImages)
    assert train.features[0].shape == (224, 224, 3)
    with pytest.raises(InputError, match=r"images/1/11/1,1\.jpg: expected a readable image"):
        train.features[1]
    train = load("clothing1m", skip_unreadable=True).train
    assert train.labels.tolist() == [0, 2, 3]
    assert train.skipped == (str(shop / "images/1/11/1,1.jpg"),)


def test_a_report_reads_the_training_part_alone(shop: Path) -> None:
    (shop / "images/7/77/7,7.jpg").write_bytes(b"broken")
    data = open_source({"source": "clothing1m", "image_size": 16, "subset": 2, "seed": 0})
    assert data is not None
    assert data.features[0].shape == (16, 16, 3)
    with pytest.raises(InputError, match=r"images/7/77/7,7\.jpg: expected a readable image"):
        load("clothing1m", image_size=16)
    assert open_source({"source": "clothing1m", "image_size": "large"}) is None


def test_annotations_may_lie_in_their_own_folder(shop: Path) -> None:
    (shop / "annotations").mkdir()
    for path in shop.glob("*.txt"):
        path.rename(shop / "annotations" / path.name)
    assert np.array_equal(load("clothing1m", image_size=16).train.labels, [0, 1, 2, 3])


def test_what_is_missing_is_named(shop: Path) -> None:
    (shop / "noisy_label_kv.txt").unlink()
    with pytest.raises(
        InputError, match=r"clothing1m: expected noisy_label_kv\.txt in .*on request"
    ):
        load("clothing1m")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("noisy_label_kv.txt", "images/0/00/0,0.jpg 14\n", "a class in .0, 14., got .* in row 0"),
        ("noisy_label_kv.txt", "images/0/00/0,0.jpg\n", "expected a key and a class"),
        ("noisy_label_kv.txt", "images/0/00/0,0.jpg x\n", "expected a key and a class"),
        ("noisy_label_kv.txt", "images/0/00/0,0.jpg 1\n", "a label for images/1/.* in row 1"),
        ("noisy_train_key_list.txt", "\n", "expected image keys"),
        ("noisy_train_key_list.txt", "../../secret.png\n", "expected a path inside images/"),
        ("noisy_train_key_list.txt", "/etc/passwd\n", "expected a path inside images/"),
    ],
)
def test_bad_lists_are_explained(shop: Path, file: str, text: str, message: str) -> None:
    (shop / file).write_text(text)
    with pytest.raises(InputError, match=message):
        load("clothing1m")
    (shop / file).write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match=f"{file}: expected a text file"):
        load("clothing1m")

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load, open_source


def test_digits_are_always_there() -> None:
    parts = load("digits")
    assert parts.test is not None
    assert (len(parts.train), len(parts.test)) == (1437, 360)
    assert parts.train.ids is not None
    assert parts.test.ids is not None
    assert sorted([*parts.train.ids, *parts.test.ids]) == list(range(1797))
    assert np.asarray(parts.train.features).max() == 255
    assert np.array_equal(parts.train.labels, load("digits", seed=7).train.labels)


def test_subset_with_a_seed() -> None:
    one, same, other = (load("digits", subset=50, seed=s).train for s in (1, 1, 2))
    assert one.ids is not None
    assert other.ids is not None
    assert np.array_equal(one.ids, same.ids)  # pyright: ignore[reportArgumentType]
    assert not np.array_equal(one.ids, other.ids)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("imagenet", "data: expected a file, a folder or one of digits, mnist, .* got 'imagenet'"),
        ("/no/such/folder", "expected a file, a folder or one of"),
        ("digits:x", "expected a file, a folder or one of"),
        ("", "expected a file, a folder or one of .* got ''"),
    ],
)
def test_unknown_sources_are_explained(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(source)


def test_unknown_files_are_explained(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("hello")
    with pytest.raises(InputError, match=r"a\.docx: expected .csv, .*got a\.docx"):
        load(tmp_path / "a.docx")


def test_a_run_finds_its_data_again(image_folder: Path) -> None:
    config = {"source": str(image_folder), "image_size": 4, "subset": 3, "seed": 5, "noise": None}
    again = open_source(config)
    first = load(image_folder, image_size=4, subset=3, seed=5).train
    assert again is not None
    assert first.rows is not None
    assert len(again) > 3  # all of it: rows are found by the numbers that the run recorded
    for i, row in enumerate(first.rows.tolist()):
        assert np.array_equal(again.features[row], first.features[i])
        assert again.labels[row] == first.labels[i]
    for path in image_folder.rglob("*.png"):
        path.unlink()
    assert open_source(config) is None
    assert open_source({}) is None
    assert open_source({"source": 3}) is None


def test_data_needs_no_torch() -> None:
    code = (
        "import sys; from adacorr.data import load, preview; preview(load('digits').train, 0); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

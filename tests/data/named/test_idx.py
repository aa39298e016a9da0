from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data.named.idx import read_idx, read_pair


@pytest.mark.parametrize("name", ["a.gz", "a"])
def test_reads_back_what_was_written(tmp_path: Path, write_idx, rng, name: str) -> None:
    x = rng.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    write_idx(tmp_path / name, x)
    assert np.array_equal(read_idx(tmp_path / name, 3), x)


def test_pair(tmp_path: Path, write_idx, rng) -> None:
    x = rng.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    write_idx(tmp_path / "x.gz", x)
    write_idx(tmp_path / "y.gz", np.arange(5))
    images, labels = read_pair(tmp_path / "x.gz", tmp_path / "y.gz")
    assert images.shape == (5, 4, 3, 1)
    assert labels.tolist() == [0, 1, 2, 3, 4]
    write_idx(tmp_path / "y.gz", np.arange(4))
    with pytest.raises(InputError, match=r"y\.gz: expected 5 labels, one per image, got 4"):
        read_pair(tmp_path / "x.gz", tmp_path / "y.gz")
    write_idx(tmp_path / "y.gz", np.array([0, 1, 12, 3, 4]))
    with pytest.raises(InputError, match=r"y\.gz: expected labels in \[0, 10\), got 12 in row 2"):
        read_pair(tmp_path / "x.gz", tmp_path / "y.gz")


def test_truncated_gzip_is_named(tmp_path: Path, write_idx, rng) -> None:
    path = tmp_path / "x.gz"
    write_idx(path, rng.integers(0, 256, (50, 4, 3)))
    whole = path.read_bytes()
    for cut in (0, 5, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"x\.gz: expected"):
            read_idx(path, 3)
    path.write_bytes(b"not gzip at all")
    with pytest.raises(InputError, match=r"x\.gz: expected a complete gzip file"):
        read_idx(path, 3)


def test_wrong_magic_number_and_size_are_named(tmp_path: Path, write_idx) -> None:
    path = tmp_path / "x"
    write_idx(path, np.zeros(7))
    with pytest.raises(InputError, match="expected an idx file with magic number 00000803, got"):
        read_idx(path, 3)
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(InputError, match="expected 7 bytes of data, got 5"):
        read_idx(path, 1)


def test_a_header_that_claims_too_much_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(bytes((0, 0, 8, 3)) + b"\xff" * 12 + b"abc"))
    with pytest.raises(InputError, match=r"expected 4294967295 x .* bytes of data, got 3"):
        read_idx(path, 3)

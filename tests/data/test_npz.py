from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load


def test_features_labels_truth_and_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, features=np.eye(3), labels=[0, 1, 1], truth=[0, 0, 1], class_names=["no", "yes"])
    data = load(path).train
    assert (data.name, data.class_names) == ("mine", ("no", "yes"))
    assert data.labels.tolist() == [0, 1, 1]
    assert data.truth is not None
    assert data.truth.tolist() == [0, 0, 1]


def test_the_usual_train_and_test_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    x = np.zeros((4, 5, 5), np.uint8)
    np.savez(path, x_train=x, y_train=[0, 1, 2, 0], x_test=x[:2], y_test=[2, 2])
    parts = load(path)
    assert parts.train.input_shape == (5, 5, 1)
    assert parts.test is not None
    assert parts.test.labels.tolist() == [2, 2]


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, features=np.array([{}, []], object), labels=[0, 1])
    with pytest.raises(InputError, match=r"mine\.npz: expected .* plain arrays, got Object arrays"):
        load(path)


@pytest.mark.parametrize("keep", [0, 10, 200, -30])
def test_a_truncated_archive_is_named(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, features=np.random.default_rng(0).random((50, 3)), labels=np.arange(50) % 2)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"mine\.npz: expected"):
        load(path)


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez_compressed(
        path, features=np.random.default_rng(0).random((50, 3)), labels=np.arange(50)
    )
    raw = bytearray(path.read_bytes())
    raw[200:260] = bytes(60)
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"mine\.npz: expected"):
        load(path)


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, weights=np.eye(3))
    with pytest.raises(InputError, match=r"expected an array called features .*, got weights"):
        load(path)
    np.savez(path, X=np.eye(3))
    with pytest.raises(InputError, match=r"expected an array called labels .*, got X"):
        load(path)
    np.save(tmp_path / "one.npy", np.eye(3))
    (tmp_path / "one.npy").rename(path)
    with pytest.raises(InputError, match="got a single array"):
        load(path)

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data.named.unpickle import read_pickle, read_torch


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, ">i4"])
def test_arrays_come_back(protocol: int, dtype) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    raw = pickle.dumps({b"data": array, "labels": [1, 2], "columns": array.T}, protocol=protocol)
    found = read_pickle(raw, "batch")
    assert np.array_equal(found["data"], array)
    assert np.array_equal(found["columns"], array.T)
    assert found["data"].dtype == np.dtype(dtype)
    assert found["labels"] == [1, 2]


def python2_pickle(array: np.ndarray, labels: list[int]) -> bytes:
    """What Python 2's cPickle wrote for the official CIFAR batches, opcode by opcode."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(value)) + value

    def small(value: int) -> bytes:
        return b"K" + bytes((value,))

    out = b"\x80\x02}(" + text(b"data")
    out += b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n"
    out += small(0) + b"\x85" + text(b"b") + b"\x87R"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + small(0) + small(1) + b"\x87R"
    dtype += (
        b"(" + small(3) + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff" + small(0) + b"tb"
    )
    shape = small(array.shape[0]) + b"M" + struct.pack("<H", array.shape[1]) + b"\x86"
    out += b"(" + small(1) + shape + dtype + b"\x89" + text(array.tobytes()) + b"tb"
    out += text(b"labels") + b"](" + b"".join(small(v) for v in labels) + b"e"
    return out + b"u."


def test_python_2_pickles_are_read(rng) -> None:
    array = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
    raw = python2_pickle(array, [7, 3])
    assert np.array_equal(pickle.loads(raw, encoding="latin1")["data"], array)  # the oracle
    found = read_pickle(raw, "data_batch_1")
    assert np.array_equal(found["data"], array)
    assert found["labels"] == [7, 3]


class Hostile:
    def __init__(self, function, *arguments) -> None:
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def test_nothing_that_a_pickle_names_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for call in (
        Hostile(os.system, f"touch {mark}"),
        Hostile(open, str(mark), "w"),
        Hostile(eval, f"open({str(mark)!r}, 'w')"),
        Hostile(getattr, "x", "upper"),
        Hostile(np.load, str(mark)),
    ):
        with pytest.raises(InputError, match=r"nothing else is loaded\), got the name"):
            read_pickle(pickle.dumps({"data": call}), "batch")
    assert not mark.exists()


def test_object_arrays_and_odd_types_are_refused() -> None:
    for array in (np.array([{}, 1], object), np.array(["2020-01-01"], "M8[D]"), np.zeros(1, "V8")):
        with pytest.raises(InputError, match="batch: expected a pickle of plain arrays"):
            read_pickle(pickle.dumps({"data": array}), "batch")


def test_damaged_pickles_are_named(rng) -> None:
    raw = python2_pickle(rng.integers(0, 256, (2, 3072), dtype=np.uint8), [7, 3])
    for bad in (b"", raw[:100], raw[:-3], b"\x80\x02K\x01.", b"garbage", raw.replace(b"u1", b"O8")):
        with pytest.raises(InputError, match=r"^batch: expected"):
            read_pickle(bad, "batch")


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_of_arrays(tmp_path: Path, zipped: bool) -> None:
    import torch

    path = tmp_path / "labels.pt"
    arrays = {"clean_label": np.arange(5), "worse_label": np.arange(5)[::-1].copy()}
    torch.save(arrays, path, _use_new_zipfile_serialization=zipped)
    found = read_torch(path)
    assert {key: value.tolist() for key, value in found.items()} == {
        "clean_label": [0, 1, 2, 3, 4],
        "worse_label": [4, 3, 2, 1, 0],
    }
    torch.save({"x": torch.zeros(3)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"labels\.pt: expected a pickle of plain arrays"):
        read_torch(path)
    torch.save({"x": Hostile(os.system, "true")}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"labels\.pt: .* got the name posix\.system"):
        read_torch(path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match=r"labels\.pt: expected a pickle"):
        read_torch(path)

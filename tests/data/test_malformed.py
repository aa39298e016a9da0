"""Whatever is done to a file, reading it works or ends in one InputError line."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.data.images import decode
from adacorr.data.named.idx import read_idx
from adacorr.data.named.modelnet import parse_off
from adacorr.data.named.unpickle import read_pickle

OFF = b"OFF4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
CSV = b"a,b,label\n1,x,u\n2,y,v\n3,x,u\n"


def npz_bytes() -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, features=np.random.default_rng(0).random((20, 3)), y=np.arange(20) % 2)
    return out.getvalue()


def parquet_bytes() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2, 3], "c": list("aba"), "label": list("uvu")}), out)
    return out.getvalue()


def idx_bytes() -> bytes:
    return gzip.compress(bytes((0, 0, 8, 3)) + struct.pack(">3I", 5, 4, 3) + bytes(60))


READERS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "a.csv": (CSV, lambda path: load(path, label_column="label")),
    "a.csv.gz": (gzip.compress(CSV), lambda path: load(path, label_column="label")),
    "a.npz": (npz_bytes(), load),
    "a.parquet": (parquet_bytes(), lambda path: load(path, label_column="label")),
    "a.gz": (idx_bytes(), lambda path: read_idx(path, 3)),
    "a.off": (OFF, lambda path: parse_off(path.read_bytes(), "a.off")),
    "a.pkl": (
        pickle.dumps({"data": np.arange(6), "labels": [1]}, protocol=2),
        lambda path: read_pickle(path.read_bytes(), "a.pkl"),
    ),
}


def mutate(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, insert or remove bytes, once or several times."""
    out = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at, kind = int(rng.integers(len(out) + 1)), rng.integers(10)
        if kind < 6 and at < len(out):
            out[at] = int(rng.integers(256))
        elif kind < 7:
            del out[at:]
        elif kind < 9:
            out[at:at] = rng.bytes(int(rng.choice([1, 4, 50])))
        else:
            del out[at : at + int(rng.choice([1, 4, 50]))]
    return bytes(out)


def survives(path: Path, raw: bytes, read: Callable[[Path], object]) -> None:
    path.write_bytes(raw)
    told = path.name
    try:
        read(path)
    except InputError as error:
        told = str(error)
    assert path.name in told
    assert "\n" not in told


@pytest.mark.parametrize("name", READERS)
def test_mutated_files(tmp_path: Path, name: str) -> None:
    raw, read = READERS[name]
    rng = np.random.default_rng(0)
    read_ok = tmp_path / name
    read_ok.write_bytes(raw)
    read(read_ok)
    for _ in range(120):
        survives(tmp_path / name, mutate(raw, rng), read)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_mutated_images(tmp_path: Path, form: str) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(out, form)
    for _ in range(80):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            survives(tmp_path / "a.img", mutate(out.getvalue(), rng), lambda p: decode(p, p.name))

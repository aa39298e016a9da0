"""Small files that unpack to too much are refused; ordinary compression is not."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.tables import unpacked

ROWS = 40_000


def write(path, constant):
    x = np.zeros(ROWS, np.int8) if constant else np.random.default_rng(0).integers(0, 99, ROWS)
    y = np.arange(ROWS) // (ROWS // 2)
    if path.suffix == ".npz":
        np.savez_compressed(path, features=x[:, None], labels=y)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"x": x, "label": y}), path)
    else:
        lines = "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True))
        path.write_bytes(gzip.compress(f"x,label\n{lines}".encode()))


@pytest.mark.parametrize("name", ["a.npz", "a.parquet", "a.csv.gz"])
def test_bombs_are_refused_and_data_is_not(tmp_path, monkeypatch, name):
    monkeypatch.setattr(unpacked, "HARMLESS_BYTES", 1 << 14)
    monkeypatch.setattr(unpacked, "MAX_RATIO", 20)
    write(tmp_path / name, constant=False)
    assert len(load(tmp_path / name).train) == ROWS
    write(tmp_path / name, constant=True)
    with pytest.raises(InputError, match="expected data packed at most 20 to 1"):
        load(tmp_path / name)


def test_a_first_line_without_an_end(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"0" * (1 << 25)))
    with pytest.raises(InputError, match="one without an end"):
        load(path, label_column="0")

"""Checksums in every page, and small files that unpack to gigabytes, read in little memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.tables import parquet, unpacked

MB = 1 << 20


def in_batches(path, columns=None, rows=1 << 16):
    """Rows, the longest batch in bytes, and by how much Arrow's memory grew."""
    pool = pa.default_memory_pool()
    before, n, largest, peak = pool.bytes_allocated(), 0, 0, 0
    for batch in parquet.batches(path, path, columns, rows):
        n, largest = n + batch.num_rows, max(largest, batch.nbytes)
        peak = max(peak, pool.bytes_allocated() - before)
    return n, largest, peak


def test_batches_are_what_the_file_holds(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "id": [f"row {i}" for i in range(5000)],
            "x": rng.random(5000),
            "probs": [row.tolist() for row in rng.random((5000, 3))],
            "few": pa.array(["a", "b"] * 2500).dictionary_encode(),
            "tags": [["x", "y"][: i % 3] for i in range(5000)],
            "pair": [{"a": i, "b": str(i)} for i in range(5000)],
            "map": pa.array([[("k", str(i))] for i in range(5000)], pa.map_("string", "string")),
            "when": pa.array(np.arange(5000), pa.timestamp("s")),
            "dec": pa.array([None, "1.5"] * 2500).cast(pa.decimal128(5, 2)),
            "none": pa.nulls(5000),
            "dot.ted": ["t"] * 5000,
        }
    )
    path = tmp_path / "a.parquet"
    parquet.write(table, path)
    table = pq.read_table(path)  # parquet has its own names for the parts of lists
    parts = list(parquet.batches(path, path, None, 700))
    assert max(part.num_rows for part in parts) == 700
    assert pa.Table.from_batches(parts).equals(table)
    assert parquet.read(path).equals(table)
    some = ["tags", "x", "dot.ted"]
    assert pa.Table.from_batches(parquet.batches(path, path, some, 999)).equals(table.select(some))


def test_a_flipped_bit_in_a_page_is_noticed(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"x": np.random.default_rng(0).random(1000)})
    with parquet.writer(path, table.schema, compression="NONE", use_dictionary=False) as file:
        file.write_table(table)
    data = bytearray(path.read_bytes())
    data[4000] ^= 1
    path.write_bytes(data)
    assert not pq.read_table(path).equals(table)  # what a reader that does not look would take
    with pytest.raises(
        InputError, match=r"a\.parquet: expected a complete parquet file, got .*CRC"
    ):
        parquet.read(path)


@pytest.mark.parametrize("kind", ["string", "binary", "dictionary", "struct"])
def test_runs_of_one_long_text_come_a_few_rows_at_a_time(kind, tmp_path):
    """200 MB in 50 kB: the text once in a dictionary, and references to it."""
    indices = pa.array(np.zeros(200, np.int32))
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * MB]))
    if kind == "binary":
        texts = pa.DictionaryArray.from_arrays(indices, pa.array([b"x" * MB]))
    column = texts if kind == "dictionary" else texts.dictionary_decode()
    if kind == "struct":
        column = pa.StructArray.from_arrays([column], ["bytes"])
    path = tmp_path / "a.parquet"
    table = pa.table({"text": column, "label": np.zeros(200, np.int64)})
    parquet.write(table, path)
    assert path.stat().st_size < 60_000
    del table, column, texts
    n, largest, peak = in_batches(path)
    assert n == 200
    assert largest <= parquet.BATCH_BYTES + MB
    assert peak < 120 * MB
    assert len(list(parquet.batches(path, path, ["label"], 1 << 16))) == 1  # nothing long in it


def test_texts_that_add_up_to_more_than_an_honest_file_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 128 * MB)
    path = tmp_path / "a.parquet"
    with parquet.writer(path, pa.schema({"text": pa.string()})) as file:
        for _ in range(3):
            file.write_table(pa.table({"text": pa.array(["x" * MB] * 100)}))
    with pytest.raises(InputError, match="expected data packed at most 200 to 1"):
        in_batches(path)
    with pytest.raises(InputError, match="expected data packed at most 200 to 1"):
        parquet.read(path)


def test_honest_long_rows_take_as_much_memory_as_short_ones(tmp_path):
    path, rng = tmp_path / "a.parquet", np.random.default_rng(0)
    texts = [rng.bytes(30_000).hex() for _ in range(3000)]
    parquet.write(pa.table({"text": texts}), path)
    n, largest, _ = in_batches(path)
    assert n == 3000
    assert largest < 1.5 * parquet.BATCH_BYTES


def test_a_row_that_is_one_huge_list_is_refused(tmp_path):
    """One row of a hundred million numbers after a short one, in a few hundred bytes."""
    path, n = tmp_path / "a.parquet", 100_000_000
    flat = pa.array(np.zeros(n, np.float32))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, n], pa.int32()), flat)
    parquet.write(pa.table({"probs": lists}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="expected data packed at most 200 to 1"):
        in_batches(path)


def test_more_cells_than_bytes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacked, "HARMLESS_BYTES", MB)
    path = tmp_path / "a.parquet"
    parquet.write(pa.table({"x": np.zeros(2 * MB, np.int8)}), path)
    with pytest.raises(InputError, match="expected data packed at most 200 to 1"):
        parquet.read(path)

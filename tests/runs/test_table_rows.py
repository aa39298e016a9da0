import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.runs.table_rows import MAX_COLUMNS, SHORT_TEXT_LENGTH, TEXT_LENGTH, TableRows


def table(n):
    return pa.table(
        {
            "label": ["x"] * n,
            "text": [f'row {i}, "quoted"\n<b>' for i in range(n)],
            "number": np.arange(n) / 2,
            "empty": pa.array([None] * n, pa.string()),
            "probs": pa.array([[0.5, 0.5]] * n),
            "blob": pa.array([b"\x00"] * n),
        }
    )


def test_parquet_rows_by_number(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(table(1000), path, row_group_size=100)
    rows = TableRows(path, np.array([999, 3, 500, 3]), {"label"})
    for i in (500, 3, 999):
        assert rows.get(i) == {
            "text": f'row {i}, "quoted"\n<b>',
            "number": str(i / 2),
            "empty": "",
        }
    assert rows.get(4) == {}  # not asked for at the start
    assert rows.get(10**9) == {}


def test_csv_rows_by_number(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,text\n" + "".join(f'a,"line {i}\nmore"\n' for i in range(500)))
    rows = TableRows(path, np.array([0, 499]), {"label"})
    assert rows.get(499) == {"text": "line 499\nmore"}
    assert rows.get(0) == {"text": "line 0\nmore"}


def test_wide_and_long_are_cut(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({f"c{i}": ["y" * 5000] for i in range(40)}), path)
    found = TableRows(path, np.array([0])).get(0)
    assert len(found) == MAX_COLUMNS
    assert {len(value) for value in found.values()} == {TEXT_LENGTH}
    many = pa.table({"c": ["y" * 5000] * 30_000})
    pq.write_table(many, path)
    assert len(TableRows(path, np.arange(30_000)).get(29_999)["c"]) == SHORT_TEXT_LENGTH


def test_rows_beyond_the_end_and_a_broken_end_do_not_hang(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 10 + "1,2,3,4\n")
    rows = TableRows(path, np.array([0, 50]))
    assert rows.get(50) == {}
    with pytest.raises(InputError):
        TableRows(tmp_path / "none.csv", np.array([0]))

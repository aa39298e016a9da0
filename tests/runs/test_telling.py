"""The columns that tell most about the class come first; one that repeats it is not shown."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from adacorr.runs.table_rows import MAX_COLUMNS, TableRows
from adacorr.runs.telling import LOOKED_AT, WITHIN, Known, information, telling_features

NAMES = np.array(["cat", "dog", "owl"])


def table(n, rng):
    """Columns in the least helpful order: what tells most is last."""
    labels = rng.integers(0, 3, n)
    noise = {f"noise {i}": rng.normal(size=n) for i in range(30)}
    helpful = {
        "name": [f"row-{i}" for i in range(n)],
        "some": labels + rng.normal(size=n) * 3,
        "gaps": [float(x) if x == 1 else None for x in labels],
        "colour": np.where(rng.random(n) < 0.9, NAMES[labels], "grey"),
        "much": labels + rng.normal(size=n) * 0.1,
        "same": NAMES[labels],
        "story": [f"once upon a time there was a number {i}, and it was alone" for i in range(n)],
    }
    return labels, pa.table({**noise, **helpful})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_telling_columns_come_first_and_copies_of_the_label_not_at_all(tmp_path, suffix):
    labels, made = table(6000, np.random.default_rng(0))
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        pc.write_csv(made, path)
    else:
        pq.write_table(made, path, row_group_size=1000)
    known = Known.some(np.arange(6000), labels)
    shown = list(TableRows(path, np.array([5999]), known=known).get(5999))
    assert shown[0] == "story"
    assert set(shown[1:3]) == {"much", "colour"}
    assert shown[3:5] == ["gaps", "some"]
    assert len(shown) == MAX_COLUMNS
    assert "same" not in shown
    assert "name" not in shown[:5]
    by_name = TableRows(path, np.array([5999]), known=known, id_column="name").get(5999)
    assert list(by_name)[-1] == "name"


def test_rows_are_bounded_and_those_of_the_source_whatever_their_order():
    rng = np.random.default_rng(1)
    rows = rng.permutation(2 * WITHIN)
    known = Known.some(rows, rows % 7)
    assert len(known.rows) <= LOOKED_AT
    assert known.rows.max() < WITHIN
    assert (np.diff(known.rows) > 0).all()
    assert (known.labels == known.rows % 7).all()


def test_features_of_a_text_column_count_together():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 900)
    levels = np.eye(3)[np.where(rng.random(900) < 0.8, labels, 0)]
    values = np.column_stack([rng.normal(size=900), levels, labels + rng.normal(size=900)])
    names = ("noise", "kind=a", "kind=b", "kind=c", "number")
    known = Known(np.arange(900), labels)
    assert telling_features(names, values, known) == ["kind", "number", "noise"]


def test_chance_alone_and_names_of_rows_tell_nothing():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 3000)
    found = [information(rng.integers(0, 40, 3000), labels) for _ in range(50)]
    assert max(found) < 0.01
    assert information(np.arange(3000), labels) == 0
    assert information(labels, labels) > 0.6
    assert information(np.zeros(0, int), np.zeros(0, int)) == 0


def test_a_source_that_ends_early_or_has_no_known_rows_keeps_its_order(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table(
            {"a": np.arange(50.0), "b": (np.arange(50) + 2) % 4 // 2 + (np.arange(50) % 9 == 0)}
        ),
        path,
    )
    late = Known(np.arange(10, 60), np.arange(50) % 4 // 2)
    assert list(TableRows(path, np.array([1]), known=late).get(1)) == ["b", "a"]
    none = Known(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert list(TableRows(path, np.array([1]), known=none).get(1)) == ["a", "b"]

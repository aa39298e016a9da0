"""Top-k probabilities on disk: the same answers as dense rows with the rest spread evenly."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import adacorr
from adacorr.core.sparse import TopK
from adacorr.correction import Request, TableSettings, correct_table
from adacorr.runs.directory import Run


@pytest.fixture
def many():
    """Given labels, truth and the five largest of 5,000 probabilities; 20% of the labels wrong."""
    rng = np.random.default_rng(0)
    n, k, width = 6000, 5000, 5
    first = rng.integers(0, k, n)
    indices = (first[:, None] + np.arange(width)) % k
    top = rng.beta(6, 1, n)
    second = ((1 - top) * 0.9)[:, None] * rng.dirichlet(np.full(width - 1, 0.5), n)
    values = np.column_stack([top, second])
    pick = (rng.random(n)[:, None] > values.cumsum(axis=1)).sum(axis=1)
    truth = np.where(pick < width, indices[np.arange(n), np.minimum(pick, width - 1)], 0)
    wrong = rng.random(n) < 0.2
    given = np.where(wrong, (truth + rng.integers(1, k, n)) % k, truth)
    return given, truth, TopK(indices.astype(np.int32), values, k)


def table(given, f, kind=np.float64, **extra):
    def lists(entries):
        return pa.FixedSizeListArray.from_arrays(pa.array(entries.ravel()), f.width)

    values = lists(f.values.astype(kind))
    return pa.table({"label": given, "indices": lists(f.indices), "values": values, **extra})


@pytest.mark.parametrize("n_classes", [8, 300])
def test_a_threshold_decides_as_on_the_dense_rows(tmp_path, n_classes):
    rng = np.random.default_rng(1)
    dense = rng.dirichlet(np.full(n_classes, 0.2), 500)
    f = TopK(np.argsort(-dense, axis=1)[:, :4], -np.sort(-dense, axis=1)[:, :4], n_classes)
    given = rng.integers(0, n_classes, 500)
    pq.write_table(table(given, f), tmp_path / "in.parquet")
    result = correct_table(
        tmp_path / "in.parquet",
        tmp_path / "out.parquet",
        columns=Request(n_classes=n_classes),
        settings=TableSettings(0.7),
        batch_rows=100,
    )
    expected = adacorr.correct(given, f.dense(), 0.7)
    got = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(got["adacorr_label"].to_numpy(), expected.labels)
    np.testing.assert_allclose(got["adacorr_ratio"].to_numpy(), expected.ratio, rtol=1e-12)
    rate = adacorr.estimate_transition(given, f.dense()).noise_rate
    assert result.noise_rate == pytest.approx(rate, abs=0.02)


def test_few_classes_get_the_richer_rule(problem, tmp_path):
    y, f, _ = problem
    order = np.argsort(-f, axis=1)[:, :2]
    short = TopK(order, np.take_along_axis(f, order, axis=1), 4)
    pq.write_table(table(y, short, np.float32), tmp_path / "in.parquet")
    correct_table(tmp_path / "in.parquet", tmp_path / "out.parquet")
    expected = adacorr.correct(y, short.dense())
    got = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(got["adacorr_label"].to_numpy(), expected.labels)
    np.testing.assert_array_equal(got["adacorr_confidence"].to_numpy(), expected.confidence)


def test_the_automatic_rule_with_many_classes(many, tmp_path):
    given, truth, f = many
    pq.write_table(table(given, f, np.float32), tmp_path / "in.parquet", row_group_size=999)
    outputs = []
    for batch_rows in (1, 777, 100_000):
        rows = 200 if batch_rows == 1 else len(given)
        pq.write_table(table(given, f, np.float32)[:rows], tmp_path / "part.parquet")
        source = "in.parquet" if rows == len(given) else "part.parquet"
        result = correct_table(
            tmp_path / source,
            tmp_path / "out.parquet",
            columns=Request(n_classes=5000),
            batch_rows=batch_rows,
        )
        outputs.append((result, pq.read_table(tmp_path / "out.parquet")))
    (_, tiny), (result, first), (_, second) = outputs
    assert first.equals(second)
    assert tiny.num_rows == 200
    new = first["adacorr_label"].to_numpy()
    assert (given == truth).mean() < 0.82
    assert (new == truth).mean() > 0.92
    assert result.noise_rate == pytest.approx((given != truth).mean(), abs=0.03)
    wrong = (new != truth)[first["adacorr_flipped"].to_numpy()].sum()
    assert result.stats.expected_wrong_flips == pytest.approx(wrong, rel=0.6)
    limited = correct_table(tmp_path / "in.parquet", settings=TableSettings(max_flip_error=0.05))
    assert 0 < limited.stats.review < result.stats.flipped
    assert limited.stats.flipped + limited.stats.review == result.stats.flipped


def test_lists_of_different_lengths_and_text(many, tmp_path):
    given, _, f = many
    rows = range(300)
    lengths = [1 + i % f.width for i in rows]
    columns = {
        "label": [str(g) for g in given[:300]],
        "indices": [f.indices[i, : lengths[i]].tolist() for i in rows],
        "values": [f.values[i, : lengths[i]].tolist() for i in rows],
    }
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    text = {name: [str(entry) for entry in column] for name, column in columns.items()}
    pa.csv.write_csv(pa.table(text), tmp_path / "in.csv")
    got = []
    for source, batch_rows in (("in.parquet", 13), ("in.parquet", 300), ("in.csv", 50)):
        correct_table(
            tmp_path / source,
            tmp_path / "out.parquet",
            columns=Request(n_classes=5000),
            settings=TableSettings(0.5),
            batch_rows=batch_rows,
        )
        got.append(pq.read_table(tmp_path / "out.parquet"))
    assert got[0].equals(got[1])
    assert got[2]["indices"].to_pylist() == columns["indices"]
    assert got[2]["values"].to_pylist() == columns["values"]
    assert got[2]["adacorr_label"].to_pylist() == [
        int(label) for label in got[0]["adacorr_label"].to_pylist()
    ]


def test_the_largest_index_tells_how_many_classes_there_are(tmp_path):
    columns = {"label": [3, 0], "indices": [[1], [2]], "values": [[0.9], [0.8]]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    result = correct_table(tmp_path / "in.parquet", settings=TableSettings(0.5))
    assert result.class_names == ("0", "1", "2", "3")
    assert result.stats.flipped == 2


def test_a_run_directory_without_dense_probabilities(many, tmp_path):
    given, _, f = many
    pq.write_table(table(given, f), tmp_path / "in.parquet")
    correct_table(tmp_path / "in.parquet", run_dir=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.pred_probs() is None
    assert run.labels().num_rows == len(given)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"indices": [[0, 1], [1, 9]]}, "class indices from 0 to 4, got 9 in row 1"),
        ({"indices": [[0, 1], [1, -1]]}, "class indices from 0 to 4, got -1 in row 1"),
        ({"indices": [[0, 1], [1, 1]]}, "distinct classes, got class 1 twice in row 1"),
        ({"indices": [[0, 1], [1]]}, r"class indices \(1\), got 2 in row 1"),
        ({"indices": [[0, 1], None]}, "a list of class indices, got null in row 1"),
        ({"indices": [[0, 1], [1, None]]}, "numbers, got null in row 1"),
        ({"indices": [0, 1]}, "lists of class indices, got type int64"),
        ({"values": [[0.9, 0.1], [0.9, 0.3]]}, "at most 1 .*, got 1.2 in row 1"),
        ({"values": [[0.9, 0.1], [0.9, -0.1]]}, "got -0.1 at position 1 in row 1"),
        ({"values": [[0.9, 0.1], [np.nan, 0.1]]}, "got nan at position 0 in row 1"),
        ({"values": [[0.9, 0.1], [0.0, 0.0]]}, "a positive sum .*, got 0 in row 1"),
        ({"values": [[0.9, 0.1], [0.1, 0.1]]}, "the largest of 5 probabilities, got a sum of 0.2"),
        ({"indices": [[0, 1], []], "values": [[0.9, 0.1], []]}, "at least one class, got an empty"),
        ({"label": [0, 7]}, "class index from 0 to 4, got 7 in row 1"),
        ({"label": ["a", "b"]}, "5 distinct labels, one per probability, got 2"),
    ],
)
def test_bad_input_is_named(tmp_path, columns, message):
    good = {"label": [0, 1], "indices": [[0, 1], [1, 2]], "values": [[0.9, 0.1], [0.8, 0.2]]}
    pq.write_table(pa.table({**good, **columns}), tmp_path / "in.parquet")
    with pytest.raises(adacorr.InputError, match=message) as caught:
        correct_table(
            tmp_path / "in.parquet", tmp_path / "out.parquet", columns=Request(n_classes=5)
        )
    assert str(tmp_path / "in.parquet") in str(caught.value)
    assert not (tmp_path / "out.parquet").exists()


def test_normalize_divides_what_sums_to_more_than_one(tmp_path):
    columns = {"label": [0], "indices": [[1, 0]], "values": [[3.0, 1.0]]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    correct_table(
        tmp_path / "in.parquet",
        tmp_path / "out.parquet",
        settings=TableSettings(0.5, normalize=True),
    )
    got = pq.read_table(tmp_path / "out.parquet")
    assert got["adacorr_ratio"].to_pylist() == [pytest.approx(1 / 3)]


def test_memory_does_not_grow_with_the_classes(tmp_path):
    import tracemalloc

    rng = np.random.default_rng(0)
    n, k = 20_000, 20_000
    indices = (rng.integers(0, k, n)[:, None] + np.arange(5)) % k
    f = TopK(indices.astype(np.int32), np.tile([0.8, 0.1, 0.04, 0.03, 0.02], (n, 1)), k)
    pq.write_table(table(rng.integers(0, k, n), f), tmp_path / "in.parquet")
    tracemalloc.start()
    correct_table(tmp_path / "in.parquet", tmp_path / "out.parquet")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6  # dense rows would be 1,600 MB as float32, T 3,200 MB

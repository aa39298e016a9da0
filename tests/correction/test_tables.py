"""The streamed correction equals the one in memory, bit for bit, for every format and batch."""

import gzip
import itertools
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import adacorr
from adacorr.core import sampling
from adacorr.correction import Request, TableSettings, correct_table, sinks
from adacorr.correction.process import Stats
from adacorr.runs.directory import Run


def list_table(y, f, names, **extra):
    probs = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), f.shape[1])
    return pa.table({"label": names[y], "pred_probs": probs, **extra})


def column_table(y, f, names, **extra):
    return pa.table({"label": y, **{f"p_{c}": f[:, j] for j, c in enumerate(names)}, **extra})


def assert_same(table, expected, names):
    """`table` holds what the correction in memory says."""
    np.testing.assert_array_equal(table["adacorr_flipped"].to_numpy(), expected.flipped)
    np.testing.assert_array_equal(table["adacorr_ratio"].to_numpy(), expected.ratio)
    new = table["adacorr_label"].to_numpy()
    np.testing.assert_array_equal(
        new, names[expected.labels] if new.dtype == object else expected.labels
    )
    if expected.confidence is not None:
        np.testing.assert_array_equal(table["adacorr_confidence"].to_numpy(), expected.confidence)


@pytest.mark.parametrize("delta", [0.9, "auto"])
@pytest.mark.parametrize("batch_rows", [1, 7, 1000, 100_000])
def test_streaming_equals_memory_at_any_batch_size(problem, tmp_path, delta, batch_rows):
    y, f, names = problem
    if batch_rows < 10:
        y, f = y[:300], f[:300]
    pq.write_table(list_table(y, f, names), tmp_path / "in.parquet", row_group_size=77)
    correct_table(
        tmp_path / "in.parquet",
        tmp_path / "out.parquet",
        columns=Request(classes=names.tolist()),
        settings=TableSettings(delta),
        batch_rows=batch_rows,
    )
    assert_same(pq.read_table(tmp_path / "out.parquet"), adacorr.correct(y, f, delta), names)


@pytest.mark.parametrize("batch_rows", [64, 1000])
def test_streaming_equals_memory_when_only_a_sample_is_fitted(
    problem, tmp_path, monkeypatch, batch_rows
):
    monkeypatch.setattr(sampling, "MAX_ROWS", 1000)
    y, f, names = problem
    pq.write_table(column_table(y, f, names), tmp_path / "in.parquet")
    correct_table(tmp_path / "in.parquet", tmp_path / "out.parquet", batch_rows=batch_rows)
    assert_same(pq.read_table(tmp_path / "out.parquet"), adacorr.correct(y, f), names)


def test_every_layout_gives_the_same(problem, tmp_path):
    y, f, names = problem
    expected = adacorr.correct(y, f, 0.8)
    flat = pa.array(f.ravel())
    offsets = pa.array(np.arange(len(y) + 1) * 4, pa.int32())
    lists = {
        "fixed": pa.FixedSizeListArray.from_arrays(flat, 4),
        "list": pa.ListArray.from_arrays(offsets, flat),
        "large": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), flat),
    }
    labels = {
        "names": pa.array(names[y]),
        "large names": pa.array(names[y]).cast(pa.large_string()),
        "dictionary": pa.array(names[y]).dictionary_encode(),
        "int8": pa.array(y.astype(np.int8)),
        "uint64": pa.array(y.astype(np.uint64)),
        "text indices": pa.array(y.astype(str)),
    }
    for kind, probs in lists.items():
        for how, given in labels.items():
            path = tmp_path / f"{kind} {how}.parquet"
            pq.write_table(pa.table({"y": given, "probs": probs}), path)
            out = tmp_path / "out.parquet"
            columns = Request(classes=names.tolist())
            correct_table(path, out, columns=columns, settings=TableSettings(0.8))
            table = pq.read_table(out)
            np.testing.assert_array_equal(table["adacorr_ratio"].to_numpy(), expected.ratio)
            values = table["adacorr_label"].to_pylist()
            named = how in ("names", "large names", "dictionary")
            spelled = [str(v) for v in (names[expected.labels] if named else expected.labels)]
            assert [str(v) for v in values] == spelled, (kind, how)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv"])
def test_csv_keeps_every_other_cell_as_it_was(problem, tmp_path, suffix):
    y, f, names = problem
    y, f = y[:200], f[:200].astype(np.float64)
    odd = ["plain", "with, comma", 'with "quotes"', "two\nlines", "", "007", "tab\there"]
    rows = [
        {"id": f"{i:05d}", "text": odd[i % len(odd)], "label": names[c]}
        | {f"p_{n}": f"{v:.17g}" for n, v in zip(names, f[i], strict=True)}
        for i, c in enumerate(y)
    ]
    import csv

    def opened(path, mode):
        return (gzip.open if suffix.endswith("gz") else open)(
            path, mode, newline="", encoding="utf-8"
        )

    separator = "\t" if suffix == ".tsv" else ","
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    with opened(source, "wt") as handle:
        writer = csv.DictWriter(handle, rows[0], delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    correct_table(source, out, settings=TableSettings(0.9), batch_rows=37)
    with opened(out, "rt") as handle:
        got = list(csv.DictReader(handle, delimiter=separator))
    expected = adacorr.correct(y, f, 0.9)
    for i, (before, after) in enumerate(zip(rows, got, strict=True)):
        assert {key: after[key] for key in before} == before
        assert after["adacorr_label"] == names[expected.labels[i]]
        assert float(after["adacorr_ratio"]) == expected.ratio[i]
        assert after["adacorr_flipped"] == str(expected.flipped[i]).lower()


def test_csv_with_a_list_column_in_many_spellings(problem, tmp_path):
    y, f, _ = problem
    y, f = y[:50], f[:50].astype(np.float64)
    expected = adacorr.correct(y, f, 0.9)
    for spell in (
        lambda v: json.dumps(v.tolist()),
        lambda v: " ".join(map(repr, v.tolist())),
        lambda v: "(" + "; ".join(map(repr, v.tolist())) + ")",
        lambda v: "[" + "\n ".join(map(repr, v.tolist())) + "]",
    ):
        path = tmp_path / "in.csv"
        pa.csv.write_csv(pa.table({"label": y, "probs": [spell(v) for v in f]}), path)
        correct_table(path, tmp_path / "out.csv", settings=TableSettings(0.9))
        table = pa.csv.read_csv(
            tmp_path / "out.csv",
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        )
        np.testing.assert_array_equal(table["adacorr_flipped"].to_numpy(), expected.flipped)


def test_from_csv_to_parquet_and_back(problem, tmp_path):
    y, f, names = problem
    table = column_table(y, f.astype(np.float64), names)
    pa.csv.write_csv(table, tmp_path / "in.csv")
    correct_table(tmp_path / "in.csv", tmp_path / "out.parquet", settings=TableSettings(0.9))
    typed = pq.read_table(tmp_path / "out.parquet")
    assert typed.select(table.column_names).equals(table)
    assert_same(typed, adacorr.correct(y, f.astype(np.float64), 0.9), names)
    pq.write_table(list_table(y, f, names), tmp_path / "in.parquet")
    correct_table(tmp_path / "in.parquet", tmp_path / "out.csv", settings=TableSettings(0.9))
    text = pa.csv.read_csv(tmp_path / "out.csv")
    assert json.loads(text["pred_probs"][0].as_py()) == pytest.approx(f[0].tolist())


def test_a_folder_becomes_a_folder(problem, tmp_path):
    y, f, names = problem
    source = tmp_path / "in"
    source.mkdir()
    table = list_table(y, f, names, id=np.arange(len(y)))
    for i, start in enumerate((0, 1000, 1001, 2500)):
        stop = (1000, 1001, 2500, 3000)[i]
        pq.write_table(table.slice(start, stop - start), source / f"{i}.parquet")
    pq.write_table(table.slice(0, 0), source / "empty.parquet")
    columns = Request(classes=names.tolist())
    result = correct_table(source, tmp_path / "out", columns=columns)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(
        p.name for p in source.iterdir()
    )
    whole = pa.concat_tables([pq.read_table(tmp_path / "out" / f"{i}.parquet") for i in range(4)])
    assert_same(whole, adacorr.correct(y, f), names)
    assert pq.read_table(tmp_path / "out" / "empty.parquet").schema == whole.schema
    assert result.stats.rows == 3000


@pytest.mark.parametrize("kind", ["ints", "names"])
def test_arrays(problem, tmp_path, kind):
    y, f, names = problem
    given = y if kind == "ints" else names[y]
    np.save(tmp_path / "y.npy", given)
    np.save(tmp_path / "f.npy", f)
    sources = (tmp_path / "y.npy", tmp_path / "f.npy")
    columns = Request(classes=names.tolist())
    expected = adacorr.correct(given, f, 0.9, classes=names)
    correct_table(
        sources, tmp_path / "o.npy", columns=columns, settings=TableSettings(0.9), batch_rows=99
    )
    fixed = np.load(tmp_path / "o.npy")
    assert fixed.dtype.kind == given.dtype.kind
    np.testing.assert_array_equal(fixed, expected.labels)
    correct_table(sources, tmp_path / "o.parquet", columns=columns, settings=TableSettings(0.9))
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.column_names == [
        "label",
        "adacorr_label",
        "adacorr_ratio",
        "adacorr_flipped",
        "adacorr_decided_by",
    ]
    np.testing.assert_array_equal(table["adacorr_ratio"].to_numpy(), expected.ratio)


def test_integer_names_are_matched_by_value(tmp_path):
    f = np.array([[0.9, 0.1], [0.9, 0.1]])
    pq.write_table(
        pa.table({"label": [10, 20], "p_10": f[:, 0], "p_20": f[:, 1]}), tmp_path / "i.parquet"
    )
    correct_table(tmp_path / "i.parquet", tmp_path / "o.parquet", settings=TableSettings(0.5))
    assert pq.read_table(tmp_path / "o.parquet")["adacorr_label"].to_pylist() == [10, 10]


def test_labels_of_a_type_too_small_for_all_classes(tmp_path):
    f = np.full((2, 300), 0.5 / 299)
    f[:, 299] = 0.5
    probs = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), 300)
    table = pa.table({"label": pa.array([1, 2], pa.uint8()), "probs": probs})
    pq.write_table(table, tmp_path / "i.parquet")
    correct_table(tmp_path / "i.parquet", tmp_path / "o.parquet", settings=TableSettings(0.5))
    out = pq.read_table(tmp_path / "o.parquet")
    assert out["adacorr_label"].to_pylist() == [299, 299]
    assert out["label"].type == pa.uint8()


def test_decimal_probabilities(tmp_path):
    from decimal import Decimal

    columns = {"p_a": [Decimal("0.9"), Decimal("0.8")], "p_b": [Decimal("0.1"), Decimal("0.2")]}
    pq.write_table(pa.table({"label": ["a", "b"], **columns}), tmp_path / "i.parquet")
    result = correct_table(tmp_path / "i.parquet", settings=TableSettings(0.5))
    assert result.stats.flipped == 1


def test_an_input_that_changes_between_the_passes(problem, tmp_path):
    y, f, names = problem
    path = tmp_path / "in.parquet"
    pq.write_table(list_table(y, f, names), path)

    def shorten(stage, rows, total):
        if stage == "checking":
            pq.write_table(list_table(y[:100], f[:100], names), path)

    with pytest.raises(adacorr.InputError, match="expected 3000 rows as at first, got 100"):
        correct_table(
            path,
            tmp_path / "out.parquet",
            run_dir=tmp_path / "run",
            settings=TableSettings(0.9),
            progress=shorten,
        )
    assert list(tmp_path.iterdir()) == [path]


def test_an_input_that_is_replaced_by_one_of_as_many_rows(problem, tmp_path):
    y, f, names = problem
    path = tmp_path / "in.parquet"
    pq.write_table(list_table(y, f, names), path)
    done = []

    def shuffle(stage, rows, total):
        if stage == "checking" and not done:
            done.append(pq.write_table(list_table(y[::-1], f[::-1], names), path))

    with pytest.raises(adacorr.InputError, match="expected the same file in both passes, got anot"):
        correct_table(path, tmp_path / "out.parquet", settings=TableSettings(0.9), progress=shuffle)
    assert list(tmp_path.iterdir()) == [path]


def test_normalize_gives_the_ratios_of_the_normalised_rows(problem, tmp_path):
    y, f, names = problem
    raw = f * np.linspace(0.5, 3, len(f), dtype=np.float32)[:, None]
    pq.write_table(list_table(y, raw, names), tmp_path / "in.parquet")
    columns = Request(classes=names.tolist())
    for batch_rows in (50, 4000):
        correct_table(
            tmp_path / "in.parquet",
            tmp_path / "out.parquet",
            columns=columns,
            settings=TableSettings("auto", normalize=True),
            batch_rows=batch_rows,
        )
        expected = adacorr.correct(y, raw, normalize=True)
        assert_same(pq.read_table(tmp_path / "out.parquet"), expected, names)


def test_output_keeps_compression_metadata_and_types(problem, tmp_path):
    y, f, names = problem
    table = list_table(y, f, names, when=pa.array(np.arange(len(y)), pa.timestamp("s")))
    table = table.replace_schema_metadata({"owner": "me"})
    pq.write_table(table, tmp_path / "in.parquet", compression="gzip")
    correct_table(tmp_path / "in.parquet", tmp_path / "out.parquet", settings=TableSettings(0.9))
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.schema.metadata[b"owner"] == b"me"
    assert out.select(table.column_names).equals(pq.read_table(tmp_path / "in.parquet"))
    meta = pq.read_metadata(tmp_path / "out.parquet")
    assert meta.row_group(0).column(0).compression == "GZIP"


def test_counts_and_pairs(problem, tmp_path):
    y, f, names = problem
    pq.write_table(column_table(y, f, names), tmp_path / "in.parquet")
    result = correct_table(tmp_path / "in.parquet", settings=TableSettings(0.9), batch_rows=100)
    expected = adacorr.correct(y, f, 0.9)
    assert result.stats.flipped == expected.n_flipped
    table = pa.table({"a": y[expected.flipped], "b": expected.labels[expected.flipped]})
    counted = table.group_by(["a", "b"]).aggregate([([], "count_all")])
    assert result.top_pairs()[0][2] == pc.max(counted["count_all"]).as_py()
    assert result.stats.pairs.total == expected.n_flipped
    assert result.noise_rate == pytest.approx(0.3, abs=0.03)
    assert list(tmp_path.iterdir()) == [tmp_path / "in.parquet"]


def test_statistics_merge_in_any_order(problem):
    y, f, _ = problem
    rule = adacorr.correction.arrays.fit_rule(y, f, delta="auto")
    parts = [
        Stats.of(y[s], rule.decide(y[s], f[s]), 4, rule.summary)
        for s in (slice(0, 10), slice(10, 1500), slice(1500, 3000))
    ]
    whole = Stats.of(y, rule.decide(y, f), 4, rule.summary)
    for order in ((0, 1, 2), (2, 0, 1)):
        a, b, c = (parts[i] for i in order)
        merged = a.merge(b.merge(c))
        assert (merged.rows, merged.flipped, merged.pairs) == (
            whole.rows,
            whole.flipped,
            whole.pairs,
        )
        assert merged.expected_wrong_flips == pytest.approx(whole.expected_wrong_flips, abs=1e-9)


def test_a_run_directory_can_be_opened(problem, tmp_path):
    y, f, names = problem
    pq.write_table(list_table(y, f, names), tmp_path / "in.parquet")
    correct_table(
        tmp_path / "in.parquet",
        columns=Request(classes=names.tolist()),
        run_dir=tmp_path / "run",
        command="adacorr correct in.parquet",
        batch_rows=256,
    )
    run = Run.open(tmp_path / "run")
    table, expected = run.labels(), adacorr.correct(y, f)
    np.testing.assert_array_equal(table["index"].to_numpy(), np.arange(len(y)))
    np.testing.assert_array_equal(table["given"].to_numpy(), y)
    np.testing.assert_array_equal(table["corrected"].to_numpy(), expected.labels)
    np.testing.assert_array_equal(table["confidence"].to_numpy(), expected.confidence)
    np.testing.assert_array_equal(run.pred_probs(), f)
    assert run.class_names() == names.tolist()
    config = run.config()
    assert config["data"]["label_column"] == "label"
    assert config["run"]["command"] == "adacorr correct in.parquet"
    assert config["result"]["flipped"] == expected.n_flipped


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no such call on this system")
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_what_is_written_goes_to_the_disk_step_by_step(problem, tmp_path, monkeypatch, suffix):
    y, f, names = problem
    source = tmp_path / "in.parquet"
    pq.write_table(column_table(y, f, names), source)
    whole, paced = tmp_path / f"whole.{suffix}", tmp_path / f"paced.{suffix}"
    correct_table(source, whole, batch_rows=100)
    dropped = []
    monkeypatch.setattr(sinks, "PACE", 20_000)
    monkeypatch.setattr(
        os, "posix_fadvise", lambda fd, start, n, advice: dropped.append((start, n))
    )
    correct_table(source, paced, batch_rows=100)
    assert len(dropped) >= 2
    assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(dropped))  # no gap, none twice
    assert min(n for _, n in dropped) >= 20_000
    assert paced.read_bytes() == whole.read_bytes()


def test_memory_is_bounded_by_the_batch_and_the_sample(tmp_path):
    """The peak of arrow's pool stays far below the table, which is 25 MB."""
    rng = np.random.default_rng(0)
    peaks = []
    for n in (200_000, 800_000):
        f = rng.dirichlet(np.ones(8), n).astype(np.float32)
        path = tmp_path / f"{n}.parquet"
        pq.write_table(list_table(rng.integers(0, 8, n), f, np.array(list("abcdefgh"))), path)
        del f
        pool = pa.system_memory_pool()
        before = pa.default_memory_pool()
        pa.set_memory_pool(pool)
        try:
            start = pool.bytes_allocated()
            correct_table(
                path, tmp_path / "o.parquet", settings=TableSettings(0.9), batch_rows=4096
            )
            peaks.append(pool.max_memory() - start)
        finally:
            pa.set_memory_pool(before)
    assert max(peaks) < 10e6, peaks


@pytest.mark.parametrize("delta", [0.9, "auto"])
def test_a_tiny_table_gets_no_noise_rate(tmp_path, delta):
    columns = {"label": ["a", "b", "a", "b"], "p_a": [0.9, 0.8, 0.2, 0.1]}
    columns["p_b"] = [1 - p for p in columns["p_a"]]
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    result = correct_table(tmp_path / "in.parquet", settings=TableSettings(delta))
    assert result.noise_rate is None
    assert result.noise_rate_from.startswith("not estimated")
    assert result.stats.expected_missed_errors is None

"""Patterns and URLs: the same result as for a folder on this disk."""

import gzip

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import adacorr
from adacorr.correction import Request, TableSettings, correct_table
from adacorr.tables.sources import names_apart, open_sources


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.fixture
def parts(problem, tmp_path):
    """Four parquet files on disk, and the columns to read them."""
    y, f, names = problem
    probs = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), 4)
    table = pa.table({"label": names[y], "pred_probs": probs})
    (tmp_path / "in").mkdir()
    for i in range(4):
        pq.write_table(table.slice(i * 750, 750), tmp_path / "in" / f"part-{i}.parquet")
    return tmp_path / "in", Request(classes=names.tolist())


def read(paths):
    return pa.concat_tables([pq.read_table(path) for path in paths])


def test_a_pattern_is_the_folder(parts, tmp_path, problem):
    folder, columns = parts
    (folder / "other.txt").write_text("not a table")
    result = correct_table(f"{folder}/part-*.parquet", tmp_path / "out", columns=columns)
    y, f, names = problem
    got = read(sorted((tmp_path / "out").iterdir()))
    expected = adacorr.correct(y, f)
    np.testing.assert_array_equal(got["adacorr_label"].to_numpy(), names[expected.labels])
    assert result.stats.rows == 3000
    one = correct_table(f"{folder}/part-[01].parquet", settings=TableSettings(0.9), columns=columns)
    assert one.stats.rows == 1500


def test_a_pattern_over_folders_keeps_their_names(parts, tmp_path):
    folder, columns = parts
    for i in range(4):
        (tmp_path / "split" / f"day={i}").mkdir(parents=True)
        (folder / f"part-{i}.parquet").rename(tmp_path / "split" / f"day={i}" / "x.parquet")
    pattern = f"{tmp_path}/split/*/x.parquet"
    assert names_apart(open_sources(pattern)) == [f"day={i}/x.parquet" for i in range(4)]
    correct_table(pattern, tmp_path / "out", columns=columns, settings=TableSettings(0.9))
    assert (tmp_path / "out" / "day=2" / "x.parquet").is_file()


@pytest.mark.parametrize("spec", ["", "/*.parquet"])
def test_urls_in_and_out(parts, tmp_path, memory, spec):
    folder, columns = parts
    memory.put(f"{folder}/", "/bucket/in/", recursive=True)
    expected = correct_table(folder, tmp_path / "out", columns=columns)
    result = correct_table(f"memory://bucket/in{spec}", "memory://bucket/out", columns=columns)
    assert result.stats == expected.stats
    written = sorted(memory.find("/bucket/out"))
    assert [name.rpartition("/")[2] for name in written] == [f"part-{i}.parquet" for i in range(4)]
    with memory.open(written[3]) as handle:
        assert pq.read_table(handle).equals(pq.read_table(tmp_path / "out" / "part-3.parquet"))
    assert {name.split("/")[2] for name in memory.find("/bucket")} == {"in", "out"}
    with pytest.raises(adacorr.InputError, match="new or empty folder"):
        correct_table(f"memory://bucket/in{spec}", "memory://bucket/out", columns=columns)


def test_compressed_csv_behind_a_url(tmp_path, memory):
    text = "label,p_a,p_b\na,0.9,0.1\nb,0.9,0.1\n"
    memory.pipe("/t.csv.gz", gzip.compress(text.encode()))
    result = correct_table("memory://t.csv.gz", "memory://o.csv", settings=TableSettings(0.5))
    assert result.stats.flipped == 1
    assert memory.cat("/o.csv").decode().splitlines()[2].startswith("b,0.9,0.1,a,0.111")


def test_an_error_leaves_nothing_behind(parts, memory):
    folder, columns = parts
    memory.put(f"{folder}/", "/bucket/in/", recursive=True)
    bad = pq.read_table(folder / "part-3.parquet")
    bad = bad.set_column(0, "label", pa.array(["unheard of"] * 750))
    with memory.open("/bucket/in/part-3.parquet", "wb") as handle:
        pq.write_table(bad, handle)
    before = memory.find("/bucket")
    with pytest.raises(
        adacorr.InputError, match=r"memory://.*part-3.parquet: .*unheard of.* in row 0"
    ):
        correct_table("memory://bucket/in", "memory://bucket/out", columns=columns)
    assert memory.find("/bucket") == before


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("memory://nothing/*.parquet", "expected files behind a pattern, got none"),
        ("memory://nothing.parquet", "nothing.parquet"),
        ("nonsense://x/y.parquet", "expected a reachable file, got: Protocol not known"),
        ("no-such-folder/*.parquet", "expected files behind a pattern, got none"),
    ],
)
def test_nothing_there(place, message, memory):
    with pytest.raises(adacorr.InputError, match=message):
        correct_table(place, settings=TableSettings(0.9))

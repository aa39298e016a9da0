"""Several models and several annotators: arrays, frames and tables decide alike, bit for bit."""

from __future__ import annotations

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.core.test_annotators import people

import adacorr
from adacorr.core.annotators import GAP
from adacorr.core.validation import InputError
from adacorr.correction import Request, TableSettings, correct_frame, correct_table
from adacorr.correction.questions import ask_table
from adacorr.tables.layout import find_layout

NAMES = np.array(["ant", "bee", "cow", "dog"])
ANNOTATORS = ["said_ann", "said_bob", "said_cy"]


@pytest.fixture(scope="module")
def made():
    """True labels, codes with gaps of three people, and two models of 600 rows."""
    truth, codes, f = people(n=600, qualities=(0.9, 0.7, 0.5))
    rng = np.random.default_rng(5)
    other = 0.5 * f + 0.5 * rng.dirichlet(np.ones(4), len(f))
    return truth, codes, [f, other.astype(np.float32)]


def as_table(codes, models, *, integers=False, lists=False):
    values = codes if integers else np.where(codes == GAP, "", NAMES[codes])
    columns = {"id": np.arange(len(codes))}
    for j, name in enumerate(ANNOTATORS):
        columns[name] = pa.array(values[:, j], mask=codes[:, j] == GAP)
    for name, f in zip("uv", models, strict=True):
        if lists:
            columns[f"{name}_probs"] = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), 4)
        else:
            columns |= {f"{name}_{label}": f[:, j] for j, label in enumerate(NAMES)}
    return pa.table(columns)


WANTED = Request(label_column="said_*", class_columns=["u_*", "v_*"])


def assert_same(table, expected, names=NAMES):
    np.testing.assert_array_equal(table["adacorr_label"].to_pylist(), names[expected.labels])
    np.testing.assert_array_equal(table["adacorr_majority"].to_pylist(), names[expected.given])
    for name, values in (
        ("ratio", expected.ratio),
        ("flipped", expected.flipped),
        ("confidence", expected.confidence),
        ("suspicion", expected.suspicion),
    ):
        np.testing.assert_array_equal(table[f"adacorr_{name}"].to_numpy(), values)


@pytest.mark.parametrize("batch_rows", [1, 37, 600])
def test_batches_of_a_table_decide_as_arrays(made, tmp_path, batch_rows):
    _, codes, models = made
    expected = adacorr.correct(codes, models)
    assert 0 < expected.n_flipped < 600
    pq.write_table(as_table(codes, models), tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    result = correct_table(tmp_path / "in.parquet", out, columns=WANTED, batch_rows=batch_rows)
    assert_same(pq.read_table(out), expected)
    assert result.interval == expected.noise_rate_interval
    assert result.noise_rate == expected.noise_rate
    assert result.summary["note"] == expected.note
    for one, other in zip(result.annotators, expected.annotators, strict=True):
        assert (one.n_labels, one.quality) == (other.n_labels, pytest.approx(other.quality))
        np.testing.assert_array_equal(one.confusion, other.confusion)
    assert [person.name for person in result.annotators] == ANNOTATORS


def csv_of(table, path):
    pa.csv.write_csv(table, path)
    return path


def folder_of(table, path):
    path.mkdir()
    for i, start in enumerate(range(0, len(table), 250)):
        pq.write_table(table.slice(start, 250), path / f"{i}.parquet")
    return path


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("kind", ["csv", "folder", "typed"])
def test_every_kind_of_table_decides_as_arrays(made, tmp_path, kind, lists, integers):
    _, codes, models = made
    models = [f.astype(np.float64) for f in models]
    expected = adacorr.correct(codes, models)
    table = as_table(codes, models, integers=integers, lists=lists and kind == "folder")
    place = tmp_path / {"csv": "in.csv", "typed": "in.csv", "folder": "in"}[kind]
    source = folder_of(table, place) if kind == "folder" else csv_of(table, place)
    out = tmp_path / {"csv": "out.csv", "typed": "out.parquet", "folder": "out"}[kind]
    blocks = {"probs_column": "u_probs,v_probs"} if lists and kind == "folder" else {}
    columns = Request(label_column="said_*", **(blocks or {"class_columns": ["u_*", "v_*"]}))
    result = correct_table(source, out, columns=columns)
    assert result.stats.flipped == expected.n_flipped
    if kind == "csv":
        found = pa.csv.read_csv(out)
    elif kind == "typed":
        found = pq.read_table(out)
        assert found.schema.field("v_cow").type == pa.float64()
        assert found.schema.field("said_bob").type == (pa.int64() if integers else pa.string())
    else:
        found = pa.concat_tables(pq.read_table(path) for path in sorted(out.iterdir()))
    names = np.arange(4) if integers else NAMES
    np.testing.assert_array_equal(found["adacorr_label"].to_pylist(), names[expected.labels])
    np.testing.assert_array_equal(found["adacorr_flipped"].to_pylist(), expected.flipped)


def test_arrays_on_disk_hold_models_and_annotators(made, tmp_path):
    _, codes, models = made
    paths = [tmp_path / name for name in ("y.npy", "u.npy", "v.npy")]
    for path, array in zip(paths, (codes, *models), strict=True):
        np.save(path, array)
    expected = adacorr.correct(codes, models)
    correct_table(tuple(paths), tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected.labels)
    np.save(paths[2], models[1][:5])
    with pytest.raises(InputError, match=r"v\.npy: expected the same length, got 600 and 5"):
        correct_table(tuple(paths), tmp_path / "o.npy")
    bad = models[1].copy()
    bad[7, 2] = np.nan
    np.save(paths[2], bad)
    with pytest.raises(InputError, match=r"v\.npy: expected finite probabilities.* in row 7"):
        correct_table(tuple(paths), tmp_path / "o.npy")


def test_models_alone_decide_as_arrays(made, tmp_path):
    _, _, models = made
    truth = models[0].argmax(axis=1)  # what the models know well, or nothing is changed
    models = [f**3 / (f**3).sum(axis=1, keepdims=True) for f in models]
    given = adacorr.noise.inject(truth, adacorr.noise.uniform(4, 0.2), 2)
    expected = adacorr.correct(given, models)
    assert expected.n_flipped > 50
    table = as_table(np.column_stack([given] * 3), models)
    pq.write_table(table, tmp_path / "in.parquet")
    columns = Request(label_column="said_bob", class_columns=["u_*", "v_*"])
    correct_table(tmp_path / "in.parquet", tmp_path / "out.parquet", columns=columns)
    found = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(found["adacorr_label"].to_pylist(), NAMES[expected.labels])
    np.testing.assert_array_equal(found["adacorr_suspicion"].to_numpy(), expected.suspicion)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, datasets.Dataset.from_dict])
@pytest.mark.parametrize("how", ["arrays", "lists", "columns"])
def test_frames_decide_as_arrays(made, make, how):
    _, codes, models = made
    expected = adacorr.correct(codes, models)
    said = {
        name: [None if c == GAP else str(NAMES[c]) for c in codes[:, j]]
        for j, name in enumerate(ANNOTATORS)
    }
    if how == "arrays":
        probs = models
    elif how == "lists":
        said |= {"u": models[0].tolist(), "v": models[1].astype(float).tolist()}
        probs = ["u", "v"]
    else:
        probs = [[f"{m}{j}" for j in range(4)] for m in "uv"]
        for m, f in zip("uv", models, strict=True):
            said |= {f"{m}{j}": f[:, j].astype(float).tolist() for j in range(4)}
    out = correct_frame(make(said), probs, label=ANNOTATORS)
    column = out["adacorr_label"]
    np.testing.assert_array_equal(
        column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column),
        NAMES[expected.labels],
    )
    majority = out["adacorr_majority"]
    assert list(map(str, majority)) == NAMES[expected.given].tolist()


def test_answers_keep_their_rows_and_prove(made, tmp_path):
    truth, codes, models = made
    pq.write_table(as_table(codes, models), tmp_path / "in.parquet")
    rows = ask_table(tmp_path / "in.parquet", 40, columns=WANTED).rows
    said = {int(row): str(NAMES[truth[row]]) for row in rows}
    out = tmp_path / "out.parquet"
    settings = TableSettings(verified=said)
    result = correct_table(tmp_path / "in.parquet", out, columns=WANTED, settings=settings)
    labels = np.array(pq.read_table(out)["adacorr_label"].to_pylist())
    assert all(labels[row] == label for row, label in said.items())
    codes_said = {row: int(truth[row]) for row in said}
    expected = adacorr.correct(codes, models, verified=codes_said)
    np.testing.assert_array_equal(labels, NAMES[expected.labels])
    assert result.certificate == expected.certificate
    assert expected.certificate.counted == 40


def test_gaps_in_every_spelling(tmp_path):
    rows = "a,,0.9,0.1\n,b,0.2,0.8\na, ,0.7,0.3\n-1,b,0.4,0.6\n"
    (tmp_path / "in.csv").write_text("l1,l2,p_a,p_b\n" + rows)
    columns = Request(label_column=["l1", "l2"])
    correct_table(tmp_path / "in.csv", tmp_path / "out.csv", columns=columns)
    found = pa.csv.read_csv(tmp_path / "out.csv")
    assert found["adacorr_majority"].to_pylist() == ["a", "b", "a", "b"]
    floats = pa.table({"l1": [0.0, np.nan, 1.0], "l2": [None, 1.0, 1.0], "p": [[0.9, 0.1]] * 3})
    pq.write_table(floats, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    correct_table(tmp_path / "in.parquet", out, columns=Request("l1,l2", "p"))
    assert pq.read_table(out)["adacorr_majority"].to_pylist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,0.9,0.1\n,,0.5,0.5\n", "at least one label in each row, got none in row 1"),
        ("a,b,0.9,0.1\na,x,0.5,0.5\n", "'x' in row 1 (counted from 0), column 'l2'"),
        ("a,b,0.9,0.3\n", "in row 0"),
    ],
)
def test_errors_name_row_and_column(tmp_path, text, words):
    (tmp_path / "in.csv").write_text("l1,l2,p_a,p_b\n" + text)
    with pytest.raises(InputError) as caught:
        correct_table(tmp_path / "in.csv", columns=Request(label_column="l1,l2"))
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "in.csv"))


def test_what_does_not_go_together_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text("l1,l2,p_a,p_b\na,b,0.9,0.1\n")
    columns = Request(label_column="l1,l2")
    with pytest.raises(InputError, match="no T with several annotators"):
        correct_table(tmp_path / "in.csv", columns=columns, settings=TableSettings(0.9))
    kinds = dict.fromkeys(["y", "u_a", "u_b", "v_b", "v_a", "v_c"], pa.float64())
    for blocks in ([["u_a", "u_b"], ["v_b", "v_a"]], ["u_*", "v_*"]):
        with pytest.raises(InputError, match="in that order for each model"):
            find_layout(kinds, "t", Request("y", class_columns=blocks))
    mixed = pa.table({"l1": ["a", "b"], "l2": [0, 1], "p": [[0.9, 0.1]] * 2})
    pq.write_table(mixed, tmp_path / "in.parquet")
    with pytest.raises(InputError, match="expected labels of type string as of the annotators"):
        correct_table(tmp_path / "in.parquet", columns=Request("l1,l2", "p"))

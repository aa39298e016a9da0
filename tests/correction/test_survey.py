"""Surveys of parts merge into the survey of the whole."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core import sampling
from adacorr.correction.survey import NO_CUTOFF, Sample, Survey, sure_cutoff, survey_source
from adacorr.tables.layout import Layout
from adacorr.tables.sources import open_parquet

LAYOUT = Layout("label", ("probs",), True, None)


@pytest.fixture
def write(problem, tmp_path):
    y, f, names = problem

    def one(start, stop):
        flat = pa.array(f[start:stop].ravel())
        probs = pa.FixedSizeListArray.from_arrays(flat, 4)
        path = tmp_path / f"{start}.parquet"
        pq.write_table(pa.table({"label": names[y[start:stop]], "probs": probs}), path)
        return open_parquet(path)

    return one


def survey(source, first_row, batch_rows, cutoff=NO_CUTOFF):
    return survey_source(
        source, LAYOUT, first_row, batch_rows=batch_rows, normalize=False, cutoff=cutoff
    )


@pytest.mark.parametrize("size", [100, 700, 10_000])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_parts_in_any_order_equal_the_whole(problem, write, monkeypatch, size, order):
    monkeypatch.setattr(sampling, "MAX_ROWS", size)
    monkeypatch.setattr(sampling, "sample_size", lambda k: size)
    monkeypatch.setattr("adacorr.correction.survey.sample_size", lambda k: size)
    y, f, names = problem
    edges = [0, 50, 1700, 3000]
    parts = [survey(write(edges[i], edges[i + 1]), edges[i], 64) for i in range(3)]
    merged = Survey()
    for i in order:
        merged = merged.merge(parts[i])
    rows = sampling.sample_rows(3000, size)
    assert merged.rows == 3000
    assert merged.n_classes == 4
    assert set(merged.seen) == set(names.tolist())
    assert merged.sample is not None
    np.testing.assert_array_equal(merged.sample.index, rows)
    np.testing.assert_array_equal(merged.sample.pred_probs, f[rows])
    assert merged.sample.labels.to_pylist() == names[y[rows]].tolist()


def test_files_of_a_large_input_send_little_more_than_the_sample(write, monkeypatch):
    monkeypatch.setattr("adacorr.correction.survey.MAX_ROWS", 10)
    monkeypatch.setattr("adacorr.correction.survey.sample_size", lambda k: 10)
    cutoff, merged, sent = sure_cutoff(3000), Survey(), 0
    assert cutoff < NO_CUTOFF
    for start in range(0, 3000, 10):
        part = survey(write(start, start + 10), start, 10, cutoff)
        sent += 0 if part.sample is None else len(part.sample.index)
        merged = merged.merge(part)
    assert merged.sample is not None
    np.testing.assert_array_equal(merged.sample.index, sampling.sample_rows(3000, 10))
    assert sent < 80


def test_many_small_files_are_put_together_rarely_and_lose_no_row(problem, write, monkeypatch):
    """The sample is copied once per so many files; before, a thousand files copied it each."""
    monkeypatch.setattr("adacorr.correction.survey._MAX_PIECES", 8)
    whole, copies, of = Survey(), [], Sample.of
    monkeypatch.setattr(Sample, "of", lambda parts: copies.append(1) or of(parts))
    for start in range(0, 3000, 30):
        whole = whole.merge(survey(write(start, start + 30), start, 30))
    assert len(copies) < 100 / 7
    np.testing.assert_array_equal(whole.sample.index, np.arange(3000))
    np.testing.assert_array_equal(whole.sample.pred_probs, problem[1][:3000])


@pytest.mark.parametrize("pieces", [2, 1000])
def test_a_sample_put_together_before_it_is_full_still_takes_rows(write, monkeypatch, pieces):
    monkeypatch.setattr("adacorr.correction.survey._MAX_PIECES", pieces)
    monkeypatch.setattr("adacorr.correction.survey.sample_size", lambda k: 100)
    found = survey(write(0, 3000), 0, 10).sample
    assert found is not None
    np.testing.assert_array_equal(found.index, sampling.sample_rows(3000, 100))


def test_the_empty_survey_is_neutral(write):
    part = survey(write(0, 10), 0, 3)
    assert Survey().merge(part) is part
    assert part.merge(Survey()) is part


def test_class_names_come_from_the_labels_in_sorted_order(write):
    assert survey(write(0, 100), 0, 7).codec(LAYOUT).names == ("big bird", "cat", "dog", "fish")


def test_a_survey_travels_between_processes(write):
    """What an engine on several machines sends back and forth."""
    source = write(0, 100)
    there = pickle.loads(pickle.dumps(source))
    back = pickle.loads(pickle.dumps(survey(there, 0, 10)))
    assert back.rows == 100
    assert back.merge(survey(write(100, 200), 100, 10)).sample.index.tolist() == list(range(200))

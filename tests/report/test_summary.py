import numpy as np
import pyarrow.parquet as pq
import pytest

from adacorr.report.summary import GALLERY, RATIO_BINS, SUSPECTS, sample_rows, summarise
from adacorr.runs.reader import BATCH_ROWS, RunData


@pytest.mark.parametrize("n", [300, BATCH_ROWS + 4000])  # one batch and two
def test_counts_match_a_loop(make_run, n):
    run = make_run(n=n)
    rows = pq.read_table(run.file("labels.parquet")).to_pylist()
    summary = summarise(RunData.open(run))
    matrix = np.zeros((4, 4), dtype=int)
    for row in rows:
        matrix[row["given"], row["corrected"]] += 1
    np.testing.assert_array_equal(summary.matrix(), matrix)
    flips = [row for row in rows if row["given"] != row["corrected"]]
    assert summary.n == n
    assert summary.n_flipped == len(flips)
    assert summary.highest_flipped == max(row["ratio"] for row in flips)
    kept = [r for r in rows if r["given"] == r["corrected"] != r["suggested"]]
    assert summary.ratio_kept.sum() == len(kept)
    assert summary.ratio_kept.sum() + summary.ratio_flipped.sum() + summary.n_agreed == n
    low = sum(row["ratio"] < 1 / RATIO_BINS for row in flips)
    assert summary.ratio_flipped[0] == low
    assert summary.scores is not None
    assert summary.scores.flips_right == sum(r["corrected"] == r["truth"] for r in flips)
    assert summary.scores.right_before == sum(r["given"] == r["truth"] for r in rows)
    doubt = {r["index"]: r["confidence"] if r in flips else 1 - r["ratio"] for r in rows[:1000]}
    if n <= len(doubt):
        ordered = sorted(doubt, key=lambda index: (-doubt[index], index))
        assert [f.index for f in summary.suspects] == ordered[:SUSPECTS]
    ordered = sorted(flips, key=lambda r: (r["confidence"], r["index"]))
    assert [f.index for f in summary.doubtful] == [r["index"] for r in ordered[:GALLERY]]


def test_without_confidence_the_ratio_orders_and_nothing_is_expected(make_run):
    run = make_run(confidence=False)
    summary = summarise(RunData.open(run))
    ratios = [flip.ratio for flip in summary.suspects]
    assert ratios == sorted(ratios)
    assert summary.suspects[0].confidence is None


def test_zero_flips(make_run):
    summary = summarise(RunData.open(make_run(flips=False)))
    assert summary.n_flipped == 0
    assert summary.flow == {}
    assert summary.highest_flipped is None
    assert summary.suspects == summary.doubtful == ()
    np.testing.assert_array_equal(summary.matrix(), np.diag(summary.given))


def test_sample_is_uniform_aligned_and_bounded(make_run, monkeypatch):
    run = make_run(n=1000)
    data = RunData.open(run)
    whole = sample_rows(data)
    assert whole is not None
    assert whole.complete
    monkeypatch.setattr("adacorr.report.summary.SAMPLE_ELEMENTS", 400)
    part = sample_rows(data)
    assert part is not None
    assert not part.complete
    assert part.pred_probs.shape == (100, 4)
    table = pq.read_table(run.file("labels.parquet"))
    given = table["given"].to_numpy()
    f = np.load(run.file("pred_probs.npy"))
    for label, row in zip(part.labels, part.pred_probs, strict=True):
        (place,) = np.flatnonzero((f == row).all(axis=1))
        assert given[place] == label
    assert sample_rows(RunData.open(make_run("bare", probs=False))) is None

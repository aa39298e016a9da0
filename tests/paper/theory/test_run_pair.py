import json

import numpy as np
import pytest

from adacorr.core import noise
from adacorr.core.validation import InputError
from adacorr.paper.theory.run_pair import compare, fit_run, match_runs, single_run
from adacorr.paper.theory.tsybakov import fit_tsybakov, multiclass_margin
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData


def opened(path):
    return RunData.open(Run.open(path))


def test_rows_are_matched_by_index(pair):
    noisy, clean, truth = pair()
    result = match_runs(opened(noisy), opened(clean))
    assert np.array_equal(result.labels, truth["given"])
    assert np.allclose(result.pred_probs, truth["f"], atol=1e-6)
    assert np.allclose(result.eta, truth["eta"], atol=1e-6)


@pytest.mark.parametrize(
    ("with_truth", "recorded", "asked", "source"),
    [
        (True, None, None, "counts of truth and given labels"),
        (False, None, None, "least squares of the given labels on eta"),
        (True, "uniform:0.2", None, "uniform:0.2"),
        (True, "uniform:0.4", "uniform:0.2", "uniform:0.2"),
    ],
)
def test_T_comes_from_the_best_source(pair, with_truth, recorded, asked, source):
    noisy, clean, truth = pair(with_truth=with_truth, spec=recorded)
    result = match_runs(opened(noisy), opened(clean), asked)
    assert result.T_from == source
    assert np.allclose(result.T, truth["T"], atol=0.05)
    assert np.allclose(result.T.sum(axis=1), 1)


def test_compare_equals_plain_loops(pair):
    noisy, clean, truth = pair(spec="uniform:0.2")
    joined = match_runs(opened(noisy), opened(clean))
    result = compare(joined)
    T, n, k = truth["T"], len(truth["given"]), 3
    pointwise = np.empty((n, k))
    for i in range(n):
        runner_up = sorted(joined.eta[i])[-2]
        for c in range(k):
            others = sum(T[j, c] * joined.eta[i, j] for j in range(k) if j != c)
            pointwise[i, c] = T[c, c] * runner_up + others
    low = high = uniform = 0
    for i, y in enumerate(joined.labels):
        right = y == joined.eta[i].argmax()
        low += right and joined.pred_probs[i, y] < pointwise[i, y]
        high += right and joined.pred_probs[i, y] >= pointwise[i, y]
        uniform += right and joined.pred_probs[i, y] < pointwise[:, y].min()
    assert (result.low, result.high, result.low_uniform) == (low / n, high / n, uniform / n)
    off = np.abs(joined.pred_probs - joined.eta @ T).max(axis=1)
    assert result.error["max"] == pytest.approx(off.max())
    fit = fit_tsybakov(multiclass_margin(joined.eta))
    assert (result.fit.C, result.fit.lam) == (fit.C, fit.lam)
    assert result.bound[30] == pytest.approx(fit.C * (result.eps[30] / 0.8) ** fit.lam)
    assert fit.C * (result.implied_eps / 0.8) ** fit.lam == pytest.approx(result.low)
    numbers = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert numbers["C"] == fit.C
    assert numbers["lambda"] == fit.lam
    assert numbers["samples"] == n


@pytest.mark.parametrize(
    ("with_truth", "recorded", "source"),
    [
        (True, "uniform:0.2", "uniform:0.2"),
        (True, None, "counts of truth and given labels"),
        (False, None, "an estimate from the given labels and f"),
    ],
)
def test_a_single_run_gives_eta_back_from_f_and_T(pair, with_truth, recorded, source):
    noisy, clean, truth = pair(with_truth=with_truth, spec=recorded)
    result = single_run(opened(noisy), spec=None)
    assert (result.T_from, result.eta_from) == (source, None)
    assert np.allclose(result.eta.sum(axis=1), 1)
    exact = single_run(opened(noisy), "uniform:0.2")
    raw = np.maximum(exact.pred_probs @ np.linalg.inv(truth["T"]), 0)
    assert np.allclose(exact.eta, raw / raw.sum(axis=1, keepdims=True))
    floor = compare(exact).error["max"]
    joined = match_runs(opened(noisy), opened(clean), "uniform:0.2")
    assert 0 < floor <= compare(joined).error["max"] + 1e-6  # what must be off is less than what is


def test_split_keeps_only_that_part(write_run):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.5), 500)
    given = probs.argmax(axis=1)
    split = np.where(np.arange(500) < 400, "train", "validation").astype(object)
    path = write_run("run", np.arange(500), given, probs, split=split)
    fit, interval = fit_run(opened(path), "validation", 0)
    alone = fit_tsybakov(multiclass_margin(probs[400:].astype(np.float32)))
    assert abs(fit.C - alone.C) < 1e-9
    assert interval.C[0] <= fit.C <= interval.C[1]
    with pytest.raises(InputError, match="split: expected one of train, validation, got test"):
        fit_run(opened(path), "test", 0)
    bare = write_run("bare", np.arange(500), given, probs)
    with pytest.raises(InputError, match="expected a column split"):
        fit_run(opened(bare), "train", 0)


def test_pairs_that_do_not_fit_are_refused(write_run, pair):
    noisy, clean, _ = pair()
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.ones(3), 50)
    y = f.argmax(axis=1)
    index = 10 + 3 * np.arange(50)
    cases = {
        "expected the classes of": write_run("names", index, y, f, names=["a", "b", "c"]),
        "expected a run trained on clean": write_run("loud", index, y, f, spec="uniform:0.2"),
        "expected samples of": write_run("other", 1_000_000 + index, y, f),
        "expected clean labels of the samples": write_run("shuffled", index, (y + 1) % 3, f),
        "expected each index once": write_run("twice", np.zeros(50, dtype=int), y, f),
    }
    for message, path in cases.items():
        with pytest.raises(InputError, match=message):
            match_runs(opened(noisy), opened(path))
    (clean / "pred_probs.npy").unlink()
    with pytest.raises(InputError, match=r"expected a run with pred_probs\.npy"):
        match_runs(opened(noisy), opened(clean))


def test_least_squares_T_survives_a_class_without_samples(write_run):
    rng = np.random.default_rng(0)
    eta = np.column_stack([rng.dirichlet(np.ones(2), 400), np.zeros(400)])
    truth = (rng.random(400) >= eta[:, 0]).astype(int)
    given = noise.inject(truth, noise.class_map(3, {0: 1}, 0.3), rng)
    noisy = write_run("noisy", np.arange(400), given, eta)
    clean = write_run("clean", np.arange(400), truth, eta)
    T = match_runs(opened(noisy), opened(clean)).T
    assert np.isfinite(T).all()
    assert np.allclose(T.sum(axis=1), 1)

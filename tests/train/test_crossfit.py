"""Rows are predicted by nets that did not learn from them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from adacorr.core import noise
from adacorr.train import Standard, crossfit, fit
from adacorr.train.crossfit import deal, out_of_fold
from adacorr.train.engine import Silent
from adacorr.train.fitting import make_job, read_labels
from adacorr.train.ranks import Ranks
from adacorr.train.settings import Settings


@pytest.mark.parametrize("folds", [2, 5])
def test_every_class_is_dealt_out_evenly(folds):
    labels = np.random.default_rng(0).integers(0, 7, 400)
    fold = deal(labels, folds, seed=3)
    counts = np.zeros((7, folds), int)
    np.add.at(counts, (labels, fold), 1)
    assert (counts.max(axis=1) - counts.min(axis=1)).max() <= 1
    assert (fold == deal(labels, folds, seed=3)).all()
    assert (fold != deal(labels, folds, seed=4)).any()


@pytest.mark.parametrize("many", [10_000, 100])
def test_a_label_learnt_by_heart_does_not_come_back(monkeypatch, many):
    """Labels without any pattern, a net that memorises: on its own rows it is right, there not."""
    monkeypatch.setattr(crossfit, "MANY_ROWS", many)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30)).astype(np.float32)
    given = rng.integers(0, 2, 200)
    settings = Settings(epochs=30, lr=0.02, batch_size=32)
    ranks = Ranks()
    job = make_job(X, read_labels(X, given, None), 0.1, settings, ranks.device)

    def net(k):
        return torch.nn.Sequential(torch.nn.Linear(30, 64), torch.nn.ReLU(), torch.nn.Linear(64, k))

    f = out_of_fold(job, net, settings, ranks, Silent())
    np.testing.assert_allclose(f.sum(axis=1), 1, rtol=1e-5)
    assert 0.35 < (f.argmax(axis=1) == given).mean() < 0.68
    quick = {"epochs": 30, "lr": 0.02, "batch_size": 32, "correct": False}
    learnt = fit(net, X, given, method=Standard(), **quick)
    assert learnt.history[-1]["train_accuracy"] > 0.95


def test_a_rows_label_never_reaches_its_own_prediction(blobs, mlp, monkeypatch):
    """Change labels of one fold: what its rows are predicted is the same, bit by bit."""
    X, _, given = blobs
    settings, ranks = Settings(epochs=1), Ranks()  # one epoch: none is selected by labels
    fold = deal(given, crossfit.FOLDS, settings.seed)
    monkeypatch.setattr(crossfit, "deal", lambda *_: fold)
    job = make_job(X, read_labels(X, given, None), 0.1, settings, ranks.device)
    f = out_of_fold(job, mlp, settings, ranks, Silent())
    other = np.where(fold == 0, (given + 1) % 3, given)
    g = out_of_fold(replace(job, labels=other), mlp, settings, ranks, Silent())
    np.testing.assert_array_equal(f[fold == 0], g[fold == 0])
    assert (f[fold != 0] != g[fold != 0]).any()


def test_noise_is_corrected_with_the_net_at_hand():
    rng = np.random.default_rng(1)
    truth = np.arange(600) % 3
    X = (rng.normal(size=(600, 4)) + 4 * np.eye(3, 4)[truth]).astype(np.float32)
    given = noise.inject(truth, noise.uniform(3, 0.2), rng)
    result = fit("mlp:hidden=16", X, given, epochs=30, lr=0.01)
    assert (result.labels == truth).mean() > (given == truth).mean() + 0.1
    assert result.withheld == ""

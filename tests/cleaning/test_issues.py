"""Copies, outliers, leaks, overlapping classes: found where they were put, and only there."""

from dataclasses import replace

import numpy as np
import pytest

from adacorr.cleaning import neighbours
from adacorr.cleaning.features import Features
from adacorr.cleaning.issues import find_issues, find_nearness, sentences
from adacorr.cleaning.neighbours import nearest


def features(x):
    n = len(x)
    digests = np.arange(2 * n, dtype=np.uint64).reshape(n, 2)
    return Features(x, x, None, 0, np.ones(n, bool), digests, "test")


def scattered(n=400, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 16)).astype(np.float32)


def issues(x, labels=None, split=None, readable=None):
    found = features(x)
    if readable is not None:
        found = replace(found, readable=readable)
    labels = np.zeros(len(x), np.int64) if labels is None else labels
    p = np.full((len(x), 2), 0.5)
    return find_issues(
        find_nearness(found), found.readable, found.readable, labels, labels, p, split
    )


def test_neighbours_equal_a_naive_search():
    x = scattered(100)
    rows, far = nearest(x, k=3)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    distance = 1 - unit @ unit.T
    np.fill_diagonal(distance, 9)
    np.testing.assert_array_equal(rows, np.argsort(distance, axis=1)[:, :3])
    np.testing.assert_allclose(far, np.sort(distance, axis=1)[:, :3], atol=1e-5)


def test_beyond_the_exact_size_near_copies_are_still_found(monkeypatch):
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 100)
    x = scattered(3000)
    x[1500:1600] = x[:100] + 0.01 * scattered(100, 1)
    rows, far = nearest(x, k=5)
    assert (rows[:100, 0] == np.arange(1500, 1600)).mean() > 0.97
    assert (rows[1500:1600, 0] == np.arange(100)).mean() > 0.97
    assert (far[np.arange(100), 0] < 0.01).mean() > 0.97


def test_near_copies_and_nothing_else():
    x = scattered()
    x[300:320] = x[:20] + 0.003 * scattered(20, 1)
    found = issues(x)
    assert np.flatnonzero(found.copy_of >= 0).tolist() == [*range(20), *range(300, 320)]
    assert found.copy_of[300:320].tolist() == list(range(20))


def test_copies_across_classes_and_across_the_split():
    x = scattered()
    x[300:304] = x[:4]
    labels, split = np.zeros(400, np.int64), np.zeros(400, np.int64)
    labels[300], split[[301, 302]] = 1, 1
    found = issues(x, labels, split)
    assert np.flatnonzero(found.copies_across_classes).tolist() == [0, 300]
    assert np.flatnonzero(found.copies_across_split).tolist() == [1, 2, 301, 302]
    assert found.counts()["copies_across_split"] == 4
    assert found.columns()["copies_across_split"].sum() == 4


def test_an_outlier_stands_out():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((400, 16)) * 0.2 + 1).astype(np.float32)
    x[7] = -1
    assert np.flatnonzero(issues(x).outliers).tolist() == [7]


def test_unreadable_rows_are_neither_copies_nor_outliers():
    x = scattered()
    x[:5] = 0
    readable = np.ones(400, bool)
    readable[:5] = False
    found = issues(x, readable=readable)
    assert found.counts()["near_copies"] == 0
    assert found.counts()["unreadable"] == 5


@pytest.mark.parametrize("clean", [True, False])
def test_sentences_speak_only_of_what_was_found(clean):
    x = scattered()
    if not clean:
        x[300:304] = x[:4]
    found = replace(issues(x), overlaps=() if clean else ((0, 1, 0.4),))
    lines = sentences(found, ["cat", "dog"])
    assert bool([line for line in lines if "copies" in line]) is not clean
    assert bool([line for line in lines if "40% of cat looks like dog" in line]) is not clean


def test_wrong_labels_do_not_pass_for_classes_that_are_alike():
    truth = np.arange(400) % 2
    given = np.where(np.arange(400) < 160, 1 - truth, truth)
    p = np.eye(2)[truth] * 0.2 + 0.4
    near = find_nearness(features(scattered()))
    every = np.ones(400, bool)
    assert find_issues(near, every, every, given, truth, p, None).overlaps == ()
    assert len(find_issues(near, every, every, given, given, p, None).overlaps) == 2

"""Out-of-fold predictions do not see the label they judge, and can be gone on with."""

from dataclasses import replace

import numpy as np
import pytest

from adacorr.cleaning.features import Features
from adacorr.cleaning.folds import Folds, assign_folds, bounded, out_of_fold
from adacorr.cleaning.models import Neighbours, models_for
from adacorr.core.validation import InputError


def blobs(n=300, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    x = (rng.standard_normal((n, 8)) + 3 * np.eye(8)[y]).astype(np.float32)
    return features(x), y


def features(x):
    n = len(x)
    digests = np.arange(2 * n, dtype=np.uint64).reshape(n, 2)
    return Features(x, x, None, 0, np.ones(n, bool), digests, "test")


@pytest.mark.parametrize("seed", range(3))
def test_groups_stay_whole_and_classes_even(seed):
    rng = np.random.default_rng(seed)
    labels, groups = rng.integers(0, 4, 1000), rng.integers(0, 300, 1000)
    of = assign_folds(labels, groups, 5, rng)
    for group in np.unique(groups):
        assert len(np.unique(of[groups == group])) == 1
    alone = assign_folds(labels, np.arange(1000), 5, rng)
    for c in range(4):
        counts = np.bincount(alone[labels == c], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_predictions_do_not_see_their_own_label():
    """Labels at random: who saw them would agree with them more often than chance."""
    found, _ = blobs(600)
    y = np.random.default_rng(1).integers(0, 3, 600)
    for p in out_of_fold(models_for("values", False, 3), found, y, 3, np.arange(600), Folds()):
        assert (p.argmax(axis=1) == y).mean() < 0.42
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)


def test_copies_of_a_row_do_not_vote_for_each_other():
    """Each row twice, labels at random by pair: only with groups the pair is unknown."""
    x = np.repeat(blobs(300)[0].dense, 2, axis=0)
    y = np.repeat(np.random.default_rng(1).integers(0, 3, 300), 2)
    models = [m for m in models_for("values", False, 3) if m.name == "neighbours"]
    models = [replace(models[0], make=lambda: Neighbours(1))]
    pairs = np.repeat(np.arange(300), 2)
    (kept,) = out_of_fold(models, features(x), y, 3, pairs, Folds())
    (leaked,) = out_of_fold(models, features(x), y, 3, np.arange(600), Folds())
    assert (kept.argmax(axis=1) == y).mean() < 0.45
    assert (leaked.argmax(axis=1) == y).mean() > 0.7


def test_good_labels_are_recognised_by_each_kind_of_model():
    found, y = blobs()
    for p in out_of_fold(models_for("values", False, 3), found, y, 3, np.arange(300), Folds()):
        assert (p.argmax(axis=1) == y).mean() > 0.9


def test_unreadable_rows_get_the_shares_of_the_classes():
    found, y = blobs()
    readable = np.ones(300, bool)
    readable[[0, 7]] = False
    found = replace(found, readable=readable)
    for p in out_of_fold(models_for("images", False, 3), found, y, 3, np.arange(300), Folds()):
        np.testing.assert_allclose(p[[0, 7]], 1 / 3, atol=1e-6)


def test_a_killed_run_goes_on_and_gives_the_same(tmp_path):
    found, y = blobs()
    models = models_for("images", False, 3)
    straight = out_of_fold(models, found, y, 3, np.arange(300), Folds(repeats=2))

    class Killed(Exception): ...

    def kill(step, done, total):
        if done >= 7 * 30:
            raise Killed

    with pytest.raises(Killed):
        out_of_fold(models, found, y, 3, np.arange(300), Folds(repeats=2), tmp_path, kill)
    steps = []
    again = out_of_fold(
        models,
        found,
        y,
        3,
        np.arange(300),
        Folds(repeats=2),
        tmp_path,
        lambda step, done, total: steps.append(done),
    )
    for a, b in zip(straight, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_labels_start_over(tmp_path):
    found, y = blobs()
    models = models_for("images", False, 3)
    out_of_fold(models, found, y, 3, np.arange(300), Folds(), tmp_path)
    other = np.roll(y, 1)
    kept = out_of_fold(models, found, other, 3, np.arange(300), Folds(), tmp_path)
    fresh = out_of_fold(models, found, other, 3, np.arange(300), Folds())
    np.testing.assert_array_equal(kept[0], fresh[0])


def test_a_bounded_sample_keeps_rare_classes():
    labels = np.zeros(10_000, np.int64)
    labels[:5] = 1
    rows = bounded(np.arange(10_000), labels, np.random.default_rng(0), 100)
    assert len(rows) <= 100 + 25
    assert (labels[rows] == 1).sum() == 5


def test_too_few_samples_is_one_line():
    found, y = blobs(9)
    with pytest.raises(InputError, match="data: expected at least 10 different samples, got 9"):
        out_of_fold(models_for("images", False, 3), found, y, 3, np.arange(9), Folds())

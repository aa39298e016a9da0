import numpy as np
import pytest
import torch

from adacorr.core.validation import InputError
from adacorr.train.batches import (
    Feed,
    crop_flip,
    epoch_batches,
    fit_scaling,
    make_batches,
    make_feed,
)

CPU = torch.device("cpu")


class Items:
    """A map-style dataset of (x, anything) tuples."""

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return len(self.array)

    def __getitem__(self, i):
        return self.array[i], "whatever"


def test_crop_flip_equals_a_loop():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)
    shift, flip = rng.integers(0, 5, (5, 2)), rng.random(5) < 0.5
    got = crop_flip(torch.from_numpy(x), torch.from_numpy(shift), torch.from_numpy(flip), 2)
    for i in range(5):
        padded = np.pad(x[i], ((2, 2), (2, 2), (0, 0)))
        top, left = shift[i]
        want = padded[top : top + 6, left : left + 7]
        np.testing.assert_array_equal(got[i], want[:, ::-1] if flip[i] else want)


@pytest.mark.parametrize("n", [2, 63, 64, 65, 127, 128, 129])
@pytest.mark.parametrize("ranks", [1, 2])
def test_every_row_once_and_no_batch_of_one(n, ranks):
    rows = torch.arange(100, 100 + n)
    parts = epoch_batches(rows, 32, ranks, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(parts).tolist()) == rows.tolist()
    assert len(parts) == 1 or min(len(p) for p in parts) >= 2 * ranks


@pytest.mark.parametrize("workers", [0, 2])
def test_lazy_equals_in_memory(images, workers):
    X, _ = images
    rows = torch.arange(len(X)).split(32)
    feeds = []
    for source in (make_batches(X, CPU), make_batches(Items(X), CPU, workers)):
        scaling = fit_scaling(source, np.arange(len(X)))
        feeds.append(make_feed(source, scaling, augment=True))
    draws = [
        torch.cat(list(f.training(rows, lambda part: part, torch.Generator().manual_seed(3))))
        for f in feeds
    ]
    assert draws[0].equal(draws[1])
    assert draws[0].shape == (len(X), 3, 8, 8)


def test_ranks_together_draw_what_one_process_draws(images):
    X, _ = images
    feed = make_feed(source := make_batches(X, CPU), fit_scaling(source, np.arange(90)), True)
    rows = torch.arange(90).split(31)

    def drawn(part):
        return list(feed.training(rows, part, torch.Generator().manual_seed(5)))

    whole = drawn(lambda x: x)
    halves = [drawn(lambda x, r=r: x.tensor_split(2)[r]) for r in (0, 1)]
    for one, left, right in zip(whole, *halves, strict=True):
        assert one.equal(torch.cat([left, right]))


def test_scaling_is_the_training_part_alone(images):
    X, _ = images
    source = make_batches(X, CPU)
    x = next(Feed(source, fit_scaling(source, np.arange(40)), False).evaluation([torch.arange(40)]))
    np.testing.assert_allclose(x.mean(dim=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(dim=(0, 2, 3), correction=0), 1, atol=1e-5)
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_a_constant_column_does_not_divide_by_zero():
    X = np.ones((5, 2), np.float32)
    source = make_batches(X, CPU)
    assert fit_scaling(source, np.arange(5)).std.tolist() == [1, 1]


def test_tensors_are_taken_as_they_are():
    x = torch.arange(12).reshape(6, 2)
    source = make_batches(x, CPU)
    feed = Feed(source, fit_scaling(source, np.arange(6)), False)
    assert next(feed.evaluation([torch.tensor([1, 0])])).equal(x[[1, 0]])


def test_bad_data_is_one_line():
    cases = [
        (np.array(["a", "b"])[:, None], "expected numbers, got dtype <U1"),
        (np.zeros(3), r"expected shape \(N, ...\), got \(3,\)"),
        (np.zeros((0, 3)), "expected at least one sample, got none"),
        (7, "expected an array or a map-style dataset, got int"),
    ]
    for data, message in cases:
        with pytest.raises(InputError, match=message):
            make_batches(data, CPU)
    X = np.zeros((4, 2), np.float32)
    X[2, 1] = np.nan
    with pytest.raises(InputError, match="NaN or infinity in row 2"):
        fit_scaling(make_batches(X, CPU), np.arange(4))
    ragged = make_batches([np.zeros((4, 4, 3), np.uint8), np.zeros((5, 4, 3), np.uint8)], CPU)
    with pytest.raises(InputError, match=r"one shape \(4, 4, 3\), got \(5, 4, 3\) in row 1"):
        list(ragged.batches([torch.tensor([0, 1])]))
    table = make_batches(X, CPU)
    with pytest.raises(InputError, match="augment: expected uint8 images"):
        make_feed(table, fit_scaling(table, np.array([0, 1])), True)


def test_clouds_are_jittered_in_training_only_and_the_same_for_any_number_of_ranks():
    clouds = np.random.default_rng(0).normal(size=(8, 50, 3)).astype(np.float32)
    source = make_batches(clouds, CPU)
    feed = make_feed(source, fit_scaling(source, np.arange(8)), True)
    assert not make_feed(source, feed.scaling, None).augment
    rows = [torch.arange(8)]

    def training(part):
        return next(iter(feed.training(rows, part, torch.Generator().manual_seed(3))))

    moved = training(lambda batch: batch) - torch.from_numpy(clouds)
    assert 0.008 < moved.std().item() < 0.011
    assert moved.abs().max().item() <= 0.05 + 1e-6
    halves = [training(lambda batch, i=i: batch[i::2]) for i in range(2)]
    np.testing.assert_array_equal(halves[1], training(lambda batch: batch)[1::2])
    assert next(feed.evaluation(rows)).equal(torch.from_numpy(clouds))

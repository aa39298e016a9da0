"""Each net learns from half of each class, and speaks of the other half."""

import torch

from adacorr.train.methods.parts.halves import Halves


def test_halves_are_even_in_every_class_and_the_outsider_speaks():
    labels = torch.tensor([0] * 10 + [1] * 7 + [2])
    halves, index = Halves(labels), torch.arange(18)
    first, second = halves.weight(index, 0), halves.weight(index, 1)
    assert (first + second == 2).all()
    for c, count in enumerate((10, 7, 1)):
        assert abs(int((first[labels == c] > 0).sum()) - count / 2) <= 0.5
    said = halves.unseen(torch.zeros(18, 3), torch.ones(18, 3), index)
    assert torch.equal(said[:, 0] == 1, first > 0)  # what the first learns, the second says


def test_the_same_labels_are_halved_the_same_way():
    labels = torch.randint(0, 4, (50,), generator=torch.Generator().manual_seed(1))
    index = torch.arange(50)
    assert torch.equal(Halves(labels).weight(index, 0), Halves(labels).weight(index, 0))

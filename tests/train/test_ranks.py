"""One process; what two do together is tested in test_distributed.py."""

import pickle

import pytest
import torch
from torch import nn

from adacorr.train.ranks import Ranks


def test_alone_everything_is_its_own():
    ranks, x = Ranks(), torch.arange(5.0)
    assert (ranks.rank, ranks.size, ranks.first) == (0, 1, True)
    assert ranks.part(x) is x
    assert ranks.sum_(x) is x
    net = nn.Linear(2, 2)
    ranks.average_gradients(net.parameters())
    assert net.weight.grad is None
    ranks.share_buffers([nn.BatchNorm1d(2)])
    ranks.barrier()


@pytest.mark.parametrize(("precision", "dtype"), [("no", torch.float32), ("bf16", torch.bfloat16)])
def test_precision_of_a_forward_pass(precision, dtype):
    ranks = pickle.loads(pickle.dumps(Ranks(precision)))
    net = nn.Linear(3, 2).to(ranks.device)
    with ranks.autocast():
        assert net(torch.ones(4, 3, device=ranks.device)).dtype == dtype
    assert net.weight.dtype == torch.float32


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_parts_of_all_ranks_are_the_whole(rank):
    ranks = Ranks()
    ranks.rank, ranks.size = rank, 3
    x = torch.arange(10)
    assert ranks.part(x).tolist() == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]][rank]

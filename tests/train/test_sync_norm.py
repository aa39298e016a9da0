"""Over one process the batch norm of all processes is torch's own."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from adacorr.train.sync_norm import synchronise


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("shape", [(6, 4), (5, 4, 3, 3)])
def test_values_gradients_and_statistics_equal_torchs(alone, shape):
    kind = nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d
    own, other = nn.Sequential(kind(4)), nn.Sequential(kind(4))
    other.load_state_dict(own.state_dict())
    synchronise(own)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [net(z) for net, z in zip((own, other), inputs, strict=True)]
    torch.testing.assert_close(*outputs)
    for y in outputs:
        (y**3).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, atol=1e-4, rtol=1e-4)
    for name, value in other.state_dict().items():
        torch.testing.assert_close(own.state_dict()[name], value)
    torch.testing.assert_close(own.eval()(x), other.eval()(x))

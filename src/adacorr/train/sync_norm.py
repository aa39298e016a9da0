"""Batch norm over the global batch of several processes, on any device.

``torch.nn.SyncBatchNorm`` does this for GPUs only. Without it, each process would normalise by the
statistics of its own share, and two processes would not do what one does.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class _Sum(torch.autograd.Function):
    """Add up over processes; every process's loss depends on the sum, so gradients add up too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        grad = grads[0].clone()
        dist.all_reduce(grad)
        return grad


class GlobalBatchNorm(_BatchNorm):
    """Batch norm whose mean and variance come from the samples of all processes."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        over = [0, *range(2, input.ndim)]
        shape = [1, -1] + [1] * (input.ndim - 2)
        x = input.float()
        count = _Sum.apply(torch.tensor([x.numel() / x.shape[1]], device=x.device))
        mean = _Sum.apply(x.sum(over)) / count  # pyright: ignore[reportOperatorIssue]
        centred = x - mean.view(shape)
        variance = _Sum.apply(centred.square().sum(over)) / count  # pyright: ignore[reportOperatorIssue]
        self._track(mean.detach(), variance.detach(), count)  # pyright: ignore[reportArgumentType]
        y = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(input.dtype)

    def _track(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        momentum = self.momentum or 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance * count / (count - 1), momentum)

    def _check_input_dim(self, input: Tensor) -> None:
        """The class that this one stands in for has checked its own kind of input before."""

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, over all processes"


def synchronise(net: nn.Module) -> nn.Module:
    """Let every batch norm inside `net` see the global batch; weights and names stay."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            # Same parameters, buffers and state_dict; only `forward` is another.
            module.__class__ = GlobalBatchNorm  # pyright: ignore[reportAttributeAccessIssue]
    return net

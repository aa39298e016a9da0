"""What a method keeps of each sample, also when several processes train on a share each."""

from __future__ import annotations

import torch
from torch import Tensor


def several_processes() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def mean_of_processes(value: Tensor) -> Tensor:
    """What each process of a torchrun found in its own batches, as one value for all."""
    if several_processes():
        torch.distributed.all_reduce(value)
        value = value / torch.distributed.get_world_size()
    return value


class PerSample:
    """A tensor that is changed at the samples of a batch; :meth:`settle` ends an epoch.

    In an epoch each sample is met by one process of a torchrun. What each has changed is added up
    when the epoch is over, so that all go on from the same.
    """

    def __init__(self, value: Tensor) -> None:
        self.value = value
        self._before = value.clone() if several_processes() else None

    def settle(self) -> None:
        if self._before is None:
            return
        change = self.value - self._before
        torch.distributed.all_reduce(change)
        self.value = self._before + change
        self._before = self.value.clone()

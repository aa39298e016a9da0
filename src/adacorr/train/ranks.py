"""The processes of a run, one or several under ``torchrun``; their device and precision.

Every rank holds all labels and takes its share of each global batch. Gradients are averaged in one
all-reduce instead of DistributedDataParallel, because a method may leave a net out of a step
(Decoupling without disagreement), which the latter does not allow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class Ranks:
    """What the engine asks of the processes around it."""

    def __init__(self, mixed_precision: str = "no") -> None:
        self._precision = mixed_precision
        self.rank, self.size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.device = _device(int(os.environ.get("LOCAL_RANK", 0)))
        if self.size > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")

    def __reduce__(self) -> tuple[type[Ranks], tuple[str]]:
        return Ranks, (self._precision,)  # a pickled model wakes up on the devices it finds

    @property
    def first(self) -> bool:
        """This rank writes the files."""
        return self.rank == 0

    def part(self, whole: Tensor) -> Tensor:
        """This rank's share of the rows."""
        return whole.tensor_split(self.size)[self.rank] if self.size > 1 else whole

    def autocast(self) -> AbstractContextManager[Any]:
        if self._precision == "no":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def sum_(self, tensor: Tensor) -> Tensor:
        """Add up over ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its mean over ranks (a missing one counts as zero)."""
        if self.size == 1:
            return
        wanted = [p for p in parameters if p.requires_grad]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in wanted]
        flat = self.sum_(torch.cat([g.reshape(-1) for g in grads])) / self.size
        for p, g, piece in zip(wanted, grads, flat.split([g.numel() for g in grads]), strict=True):
            p.grad = g.copy_(piece.view_as(g))

    def share_buffers(self, nets: Iterable[nn.Module]) -> None:
        """Average the buffers (batch-norm statistics), so that every rank predicts the same."""
        if self.size == 1:
            return
        for buffer in (b for net in nets for b in net.buffers() if b.is_floating_point()):
            self.sum_(buffer).div_(self.size)

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()


def _device(local_rank: int) -> torch.device:
    """A GPU of this process's own, Apple's, or the processor."""
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")

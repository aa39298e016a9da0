"""The processes of a run: one, or several under ``torchrun``; device and precision by accelerate.

Every rank holds all labels and takes its share of each global batch. Gradients are averaged in one
all-reduce instead of DistributedDataParallel, because a method may leave a net out of a step
(Decoupling without disagreement), which the latter does not bear.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn


class Ranks:
    """What the engine asks of the processes around it."""

    def __init__(self, mixed_precision: str = "no") -> None:
        AcceleratorState._reset_state()  # an earlier run of this process may differ in precision
        self._precision = mixed_precision
        bare = not (torch.cuda.is_available() or torch.backends.mps.is_available())
        self._accelerator = Accelerator(mixed_precision=mixed_precision, cpu=bare)  # cpu: gloo
        self.rank = self._accelerator.process_index
        self.size = self._accelerator.num_processes
        self.device = self._accelerator.device

    def __reduce__(self) -> tuple[type[Ranks], tuple[str]]:
        return Ranks, (self._precision,)  # a pickled model wakes up on the devices it finds

    @property
    def first(self) -> bool:
        """This rank writes the files."""
        return self.rank == 0

    def part(self, whole: Tensor) -> Tensor:
        """This rank's share of the rows."""
        return whole.tensor_split(self.size)[self.rank] if self.size > 1 else whole

    def autocast(self) -> AbstractContextManager[None]:
        return self._accelerator.autocast()

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

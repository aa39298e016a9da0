"""What a method is: a loss, and what happens to the labels at the end of an epoch.

The engine owns nets, optimiser, batches, devices and files; a method owns its formula and its
per-sample state. The truth never comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

DROPPED = -1
"""A label with this value takes its sample out of the batches (Abstention's second stage)."""


@dataclass(frozen=True)
class Setting:
    """What a method may know before training starts."""

    labels: Tensor  # (N,) the given labels, on the device
    n_classes: int
    epochs: int  # of the whole run, all stages together
    device: torch.device


@dataclass(frozen=True)
class Step:
    """What a loss sees of one batch."""

    logits: tuple[Tensor, ...]  # one (B, K) per net, with gradient
    labels: Tensor  # (B,) the current labels
    index: Tensor  # (B,) positions in the training set, for per-sample state
    epoch: int  # 1-based, over the whole run
    generator: torch.Generator  # CPU generator for a method's own randomness; resumed exactly
    x: Tensor  # (B, ...) the input that gave `logits`, for a method that changes it (mixup)
    forward: Callable[[int, Tensor], Tensor]  # logits of net i for any such input, with gradient


@dataclass(frozen=True)
class EpochEnd:
    """What a method sees when an epoch is over.

    ``running`` are the probabilities collected while training in this epoch (train mode, augmented
    inputs, no extra pass); ``fresh()`` makes one pass over the training data in eval mode without
    augmentation, at most once per epoch however often it is called. Both are (N, K) on the device.
    Rows that took no part (label ``DROPPED``) have 1/K throughout in ``running``. ``history`` holds
    one dict per epoch, this one included, with at least ``loss``, ``steps`` (of the optimiser so
    far), ``train_accuracy``, ``confidence`` (mean of the largest of ``running``), ``val_accuracy``
    and ``val_loss`` (the last two on the noisy validation split).
    """

    epoch: int
    labels: Tensor  # (N,) current labels
    running: Tensor
    fresh: Callable[[], Tensor]
    history: Sequence[dict[str, Any]]
    log: Callable[[str], None]  # one sober line for the user, e.g. why burn-in ended
    validation: tuple[Tensor, Tensor] | None = None  # noisy labels and predictions of that split


class Method:
    """Base of all methods. Subclasses are small dataclasses: their fields are the only defaults."""

    name: ClassVar[str]
    corrects: ClassVar[bool] = False  # it trains on labels that it changes itself
    twins: ClassVar[bool] = False  # trains several nets that must start differently
    stage = 0  # which of `stages` is under way; set before `build`, by the engine and by predict

    def stages(self, epochs: int) -> list[int]:
        """Epochs per stage; nets, optimiser and schedule start afresh with each stage."""
        return [epochs]

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        """The nets of one stage; ``make_net(k)`` gives a fresh net with k outputs."""
        return [make_net(n_classes)]

    def start(self, setting: Setting) -> None:
        """Allocate per-sample state (tensors on the device, O(N K) at most)."""

    def loss(self, step: Step) -> Tensor:
        """A scalar; for two nets, the sum of their losses."""
        raise NotImplementedError(type(self).__name__)

    def proba(self, logits: tuple[Tensor, ...]) -> Tensor:
        """Class probabilities (B, K) from the nets' logits: the mean over nets."""
        return torch.stack([z.softmax(dim=1) for z in logits]).mean(dim=0)

    def seen(self, step: Step) -> Tensor:
        """(B, K) what ``EpochEnd.running`` keeps of a batch: :meth:`proba` of its logits."""
        return self.proba(step.logits)

    def end_epoch(self, end: EpochEnd) -> Tensor:
        """The labels to go on with; must return a new tensor where it changes any."""
        return end.labels

    def state(self) -> dict[str, Tensor]:
        """Everything that resume needs beyond the fields, as tensors (scalars as 0-d)."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Put back what :meth:`state` gave, after :meth:`start`."""

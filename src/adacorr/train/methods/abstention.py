"""Abstention, the deep abstaining classifier (Thulasidasan et al. 2019, "Combating label noise in
deep learning using abstention", ICML)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.validation import InputError, check_count, check_number
from adacorr.train.methods.base import DROPPED, EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.scaling import scaled

MOVING = 0.05  # weight of a new batch in the moving average
ALPHA_DIVISOR = 64  # of the first price, as in the authors' code


def abstention_terms(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Per sample ``(1 - p_a) H_c`` and ``-log(1 - p_a)``; the last of the K + 1 outputs abstains.

    H_c is the cross-entropy over the first K outputs, renormalised.
    """
    stay = logits[:, :-1].logsumexp(dim=1) - logits.logsumexp(dim=1)  # log(1 - p_a)
    risk = F.cross_entropy(logits[:, :-1], labels, reduction="none")
    return stay.exp() * risk, -stay


def dropped(logits: Tensor, labels: Tensor) -> Tensor:
    """Which samples are abstained on while another of the K classes beats their label."""
    abstains = logits.argmax(dim=1) == logits.shape[1] - 1
    return abstains & (logits[:, :-1].argmax(dim=1) != labels)


@dataclass
class Abstention(Method):
    """A net that may abstain at a growing price; then a plain net on the samples it did not drop.

    An abstained sample is dropped unless its label is the best of the K classes (our choice). The
    source drops every one, after a net has memorised enough to abstain by sample. Before that a net
    abstains by region: more on hard classes, or on all samples once the labels' entropy is well
    above `alpha_final`, whether the labels are right or wrong.

    Attributes
    ----------
    first_stage : share of the run that the abstaining net gets (our choice).
    warmup : epochs of cross-entropy over all K + 1 outputs; None: a tenth of the first stage.
    alpha_final : the price of abstaining at the end of the first stage.
    """

    name: ClassVar[str] = "abstention"

    first_stage: float = 0.5
    warmup: int | None = None
    alpha_final: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.first_stage, "first_stage", above=0, below=1)
        check_number(self.alpha_final, "alpha_final", above=0)
        if self.warmup is not None:
            check_count(self.warmup, "warmup", at_least=1)

    def stages(self, epochs: int) -> list[int]:
        if epochs < 3:
            raise InputError(f"epochs: expected at least 3 for abstention, got {epochs}")
        first = min(epochs - 1, max(2, round(self.first_stage * epochs)))
        return [first, epochs - first]

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        return [make_net(n_classes + 1 if self.stage == 0 else n_classes)]

    def start(self, setting: Setting) -> None:
        self._k = setting.n_classes
        self._first = self.stages(setting.epochs)[0]
        self._warmup = min(self.warmup or scaled(1, of=10, run=self._first), self._first - 1)
        self._average = torch.tensor(torch.nan, device=setting.device)
        self._abstained = torch.zeros_like(setting.labels, dtype=torch.int32)

    def alpha(self, epoch: int) -> Tensor:
        """The price of abstaining: linear from the warm-up's risk / 64 to `alpha_final`."""
        low = self._average / ALPHA_DIVISOR
        share = (epoch - self._warmup - 1) / max(1, self._first - self._warmup - 1)
        return low + (self.alpha_final - low) * share

    def loss(self, step: Step) -> Tensor:
        logits = step.logits[0]
        if step.epoch > self._first:
            return F.cross_entropy(logits, step.labels)
        risk, price = abstention_terms(logits, step.labels)
        if step.epoch <= self._warmup:
            now = risk.detach().mean()
            old = torch.where(self._average.isnan(), now, self._average)
            self._average = MOVING * now + (1 - MOVING) * old
            return F.cross_entropy(logits, step.labels)
        if step.epoch == self._first:
            self._abstained[step.index] = dropped(logits, step.labels).int()
        return (risk + self.alpha(step.epoch) * price).mean()

    def proba(self, logits: tuple[Tensor, ...]) -> Tensor:
        return logits[0][:, : self._k].softmax(dim=1)

    def end_epoch(self, end: EpochEnd) -> Tensor:
        if end.epoch != self._first:
            return end.labels
        drop = self._shared_abstained()
        left = torch.bincount(end.labels[~drop], minlength=self._k)
        drop &= left[end.labels] > 0  # a class that lost every sample keeps them all
        end.log(f"dropped {int(drop.sum())} of {len(drop)} samples; a plain net goes on")
        return torch.where(drop, DROPPED, end.labels)

    def _shared_abstained(self) -> Tensor:
        """Each process of a torchrun has seen its own share of the samples."""
        seen = self._abstained.clone()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(seen)
        return seen.bool()

    def state(self) -> dict[str, Tensor]:
        return {"average": self._average}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._average = state["average"].to(self._average)

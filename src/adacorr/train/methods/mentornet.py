"""MentorNet with its predefined curriculum (Jiang et al. 2018, "MentorNet: learning data-driven
curriculum for very deep neural networks on corrupted labels", ICML)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from adacorr.core.validation import check_rate
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.noise_rate import estimate_noise_rate
from adacorr.train.methods.parts.per_sample import mean_of_processes

BURN_IN, SOFT_FROM = 0.18, 0.90  # shares of the run
DROP_UNTIL, DROP_EARLY, DROP_LATE = 0.17, 0.5, 0.05  # example dropout
DECAY = 0.5  # of the moving percentile


def curriculum(losses: Tensor, threshold: Tensor, progress: float) -> Tensor:
    """The weight of each sample, from its loss, the moving percentile and the share of the run."""
    if progress < BURN_IN:
        return torch.ones_like(losses)
    if progress < SOFT_FROM:
        return (losses <= threshold).to(losses.dtype)
    return (1 - (losses - threshold)).clamp(0, 1)


@dataclass
class MentorNet(Method):
    """Samples with a small loss count, the others wait; the curriculum is fixed beforehand (PD).

    The variant that learns its curriculum (DD) needs clean labels and is not built.

    Attributes
    ----------
    noise_rate : share of wrong labels, the percentile is its complement; None: estimated while
        every weight is still 1, at the lowest noisy validation loss (our choice).
    """

    name: ClassVar[str] = "mentornet"

    noise_rate: float | None = None

    def __post_init__(self) -> None:
        if self.noise_rate is not None:
            check_rate(self.noise_rate, "noise_rate")

    def start(self, setting: Setting) -> None:
        self._given, self._epochs = setting.labels, setting.epochs
        rate = 0.0 if self.noise_rate is None else self.noise_rate
        self._rate = torch.tensor(rate, dtype=torch.float64)
        self._threshold = torch.tensor(torch.nan, device=setting.device)

    def loss(self, step: Step) -> Tensor:
        losses = F.cross_entropy(step.logits[0], step.labels, reduction="none")
        self._follow(losses.detach())
        progress = (step.epoch - 1) / self._epochs
        drop = DROP_EARLY if progress < DROP_UNTIL else DROP_LATE
        kept = torch.rand(len(losses), generator=step.generator) >= drop
        weight = curriculum(losses.detach(), self._threshold, progress)
        return (weight * kept.to(losses) * losses).mean()

    def _follow(self, losses: Tensor) -> None:
        """The moving percentile; it starts at the first batch's (the source starts at zero)."""
        now = losses.quantile(1 - self._rate.item())
        old = torch.where(self._threshold.isnan(), now, self._threshold)
        self._threshold = DECAY * old + (1 - DECAY) * now

    def end_epoch(self, end: EpochEnd) -> Tensor:
        self._threshold = mean_of_processes(self._threshold)
        if self.noise_rate is None and (end.epoch - 1) / self._epochs < BURN_IN:
            losses = [line["val_loss"] for line in end.history]
            if losses[-1] is None or losses[-1] <= min(losses):
                rate = estimate_noise_rate(self._given, end.running)
                self._rate = torch.tensor(rate, dtype=torch.float64)
            if end.epoch / self._epochs >= BURN_IN:
                rate = self._rate.item()
                end.log(f"noise rate estimated as {rate:.3f} at the lowest noisy validation loss")
        return end.labels

    def state(self) -> dict[str, Tensor]:
        return {"rate": self._rate, "threshold": self._threshold}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._rate = state["rate"].cpu()
        self._threshold = state["threshold"].to(self._threshold)

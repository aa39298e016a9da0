"""Co-teaching (Han et al. 2018, "Co-teaching: robust training of deep neural networks with
extremely noisy labels", NeurIPS)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.validation import check_count, check_rate
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.noise_rate import estimate_noise_rate
from adacorr.train.methods.parts.plateau import Plateau
from adacorr.train.methods.parts.scaling import scaled


def coteaching_loss(first: Tensor, second: Tensor, labels: Tensor, keep: float) -> Tensor:
    """Each net's mean cross-entropy on the `keep` share of the batch that the *other* finds easy.

    The mean is over the chosen samples, once (a known slip is to divide by their number twice).
    """
    n = max(1, int(keep * len(labels)))
    losses = [F.cross_entropy(z, labels, reduction="none") for z in (first, second)]
    easy = [loss.detach().argsort(stable=True)[:n] for loss in losses]
    return losses[0][easy[1]].mean() + losses[1][easy[0]].mean()


@dataclass
class CoTeaching(Method):
    """Two nets; each picks the small-loss samples for the other one.

    Attributes
    ----------
    noise_rate : share of wrong labels; None: both nets train on everything until noisy validation
        accuracy stands still, and it is estimated there (our choice, see ``noise_rate.py``).
    ramp : epochs over which the dropped share grows to the noise rate; None: 10 of 200, as in the
        source, scaled to the run.
    """

    name: ClassVar[str] = "coteaching"
    twins: ClassVar[bool] = True

    noise_rate: float | None = None
    ramp: int | None = None

    def __post_init__(self) -> None:
        if self.noise_rate is not None:
            check_rate(self.noise_rate, "noise_rate")
        if self.ramp is not None:
            check_count(self.ramp, "ramp", at_least=1)

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        return [make_net(n_classes), make_net(n_classes)]

    def start(self, setting: Setting) -> None:
        self._given = setting.labels
        self._ramp = self.ramp or scaled(10, of=200, run=setting.epochs)
        self._plateau = Plateau.for_run(setting.epochs, setting.labels)
        self._rate, self._since = self.noise_rate, 0

    def keep(self, epoch: int) -> float:
        """R, the share of a batch that trains in this epoch."""
        if self._rate is None:
            return 1.0
        return 1 - self._rate * min((epoch - self._since) / self._ramp, 1)

    def loss(self, step: Step) -> Tensor:
        first, second = step.logits
        return coteaching_loss(first, second, step.labels, self.keep(step.epoch))

    def end_epoch(self, end: EpochEnd) -> Tensor:
        if self._rate is None and (why := self._plateau.reason(end.history)):
            self._rate, self._since = estimate_noise_rate(self._given, end.running), end.epoch
            end.log(f"noise rate estimated as {self._rate:.3f}: {why}")
        return end.labels

    def state(self) -> dict[str, Tensor]:
        rate = -1.0 if self._rate is None else self._rate
        return {"rate": torch.tensor(rate, dtype=torch.float64), "since": torch.tensor(self._since)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        rate = state["rate"].item()
        self._rate, self._since = (None if rate < 0 else rate), int(state["since"])

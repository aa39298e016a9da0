"""ELR+ (Liu et al. 2020, "Early-learning regularization prevents memorization of noisy labels",
NeurIPS)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.validation import check_number
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.mixup import Mix, soft_cross_entropy
from adacorr.train.methods.parts.per_sample import PerSample

CLAMP = 1e-4  # of probabilities, so that log(1 - <p, t>) stays finite


def early_learning(logits: Tensor, target: Tensor) -> Tensor:
    """Mean of ``log(1 - <p, t>)``: low where the net says what was said of the sample before."""
    p = logits.softmax(dim=1).clamp(CLAMP, 1 - CLAMP)
    return (1 - (target * p).sum(dim=1)).log().mean()


def renewed(target: Tensor, logits: Tensor, momentum: float) -> Tensor:
    """``beta t + (1 - beta) p``, with p kept away from 0 and 1 and summing to one."""
    p = logits.detach().softmax(dim=1).clamp(CLAMP, 1 - CLAMP)
    return momentum * target + (1 - momentum) * p / p.sum(dim=1, keepdim=True)


@dataclass
class ELRPlus(Method):
    """Cross-entropy, and a term that holds each net to what the *other* has said of a sample.

    Two nets. t is a running mean of one net's predictions of a sample; the other net pays
    ``lambda log(1 - <p, t>)``. Where a net would learn a wrong label by heart, the gradient of this
    term works against it. Inputs, labels and t are mixed (mixup); t is renewed from the unmixed
    sample. The source also averages the weights of the nets that make t, and of those that predict;
    that is left out here.

    Attributes
    ----------
    momentum : beta of t; 0.7 as in the source for CIFAR-10 (0.9 for CIFAR-100).
    strength : lambda; 3 as in the source for CIFAR-10 (7 for CIFAR-100).
    mixup : alpha of the Beta distribution of mixing weights, 1 as in the source; 0 mixes nothing.
    """

    name: ClassVar[str] = "elrplus"
    twins: ClassVar[bool] = True

    momentum: float = 0.7
    strength: float = 3.0
    mixup: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.momentum, "momentum", at_least=0, below=1)
        check_number(self.strength, "strength", at_least=0)
        check_number(self.mixup, "mixup", at_least=0)

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        return [make_net(n_classes), make_net(n_classes)]

    def start(self, setting: Setting) -> None:
        self._k = setting.n_classes
        shape = 2, len(setting.labels), self._k
        self._target = PerSample(torch.zeros(shape, device=setting.device))

    def loss(self, step: Step) -> Tensor:
        mix = Mix.draw(len(step.index), self.mixup, step.generator) if self.mixup else None
        for net, z in enumerate(step.logits):
            old = self._target.value[net, step.index]
            self._target.value[net, step.index] = renewed(old, z, self.momentum)
        labels = F.one_hot(step.labels, self._k).to(step.logits[0])
        total = torch.zeros_like(labels[0, 0])
        for net, z in enumerate(step.logits):
            target, y = self._target.value[1 - net, step.index], labels
            if mix is not None:
                z, target, y = step.forward(net, mix(step.x)), mix(target), mix(y)
            total = total + soft_cross_entropy(z, y) + self.strength * early_learning(z, target)
        return total

    def end_epoch(self, end: EpochEnd) -> Tensor:
        self._target.settle()
        return end.labels

    def state(self) -> dict[str, Tensor]:
        return {"target": self._target.value}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._target = PerSample(state["target"])

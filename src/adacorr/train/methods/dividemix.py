"""DivideMix (Li et al. 2020, "DivideMix: learning with noisy labels as semi-supervised learning",
ICLR)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.validation import check_count, check_number
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.mixup import Mix, soft_cross_entropy
from adacorr.train.methods.parts.per_sample import PerSample
from adacorr.train.methods.parts.scaling import scaled

CLEAN = 0.5  # probability of the low-loss component from which a label counts
TEMPERATURE = 0.5  # of guessed labels, as in the source
BETA = 4.0  # of the mixing weights, as in the source
EM_STEPS = 30  # our choice; two normals of one variable settle sooner


def low_loss(losses: Tensor) -> Tensor:
    """P(low-loss component) of a mixture of two normals, fitted to losses scaled to [0, 1].

    >>> low_loss(torch.tensor([0.1, 0.11, 0.12, 2.0, 2.1])).round().tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0]
    """
    x = losses.double()
    x = (x - x.min()) / (x.max() - x.min()).clamp_min(1e-12)
    mean = torch.stack([x.min(), x.max()])
    var, share = x.var().clamp_min(1e-6).repeat(2), torch.full_like(mean, 0.5)
    part = torch.zeros(len(x), 2).to(x)
    for _ in range(EM_STEPS):
        log = share.log() - 0.5 * var.log() - (x[:, None] - mean).square() / (2 * var)
        part = log.softmax(dim=1)
        n = part.sum(dim=0).clamp_min(1e-12)
        mean = (part * x[:, None]).sum(dim=0) / n
        var = (part * (x[:, None] - mean).square()).sum(dim=0) / n + 5e-4
        share = (n / len(x)).clamp_min(1e-12)
    return part[:, int(mean.argmin())].to(losses)


def sharpen(probs: Tensor) -> Tensor:
    """``p^(1 / T)``, normalised."""
    p = probs ** (1 / TEMPERATURE)
    return p / p.sum(dim=1, keepdim=True)


def targets(given: Tensor, clean: Tensor, own: Tensor, both: Tensor) -> Tensor:
    """What a net learns: refined labels where they count, guesses of both nets elsewhere.

    `given` (B, K) one-hot, `clean` (B,) probability that the label is right (by the other net),
    `own` this net's prediction, `both` the mean of the two.
    """
    w = clean[:, None]
    return sharpen(torch.where(w > CLEAN, w * given + (1 - w) * own, both))


def mixed_loss(logits: Tensor, target: Tensor, labelled: Tensor, weight: float) -> Tensor:
    """Cross-entropy on labelled rows, `weight` times the squared error on others, and the prior.

    The last term keeps the batch's mean prediction near the uniform one: ``KL(uniform || mean)``.
    """
    p = logits.softmax(dim=1)
    loss = torch.zeros_like(p[0, 0])
    if labelled.any():
        loss = loss + soft_cross_entropy(logits[labelled], target[labelled])
    if not labelled.all():
        loss = loss + weight * (p - target)[~labelled].square().mean()
    mean = p.mean(dim=0).clamp_min(1e-12)
    return loss - (mean * len(mean)).log().mean()


@dataclass
class DivideMix(Method):
    """Two nets; each divides the samples by their losses, and the other learns from the division.

    Labels whose loss belongs to the low component of a mixture of two normals are taken, refined by
    the net's own prediction; those of the others are left out, and both nets guess. Both parts are
    mixed and learnt (MixMatch). Ours: losses are those seen while training, not of a pass of their
    own; one augmentation of a sample, not two; both parts come from one batch.

    Attributes
    ----------
    warmup : epochs of cross-entropy before the first division; None: 10 of 300 as in the source,
        scaled to the run, two at least.
    unlabelled : weight of the squared error. 25 as in the source for CIFAR-10 from half of the
        labels wrong on (0 below: it needs to know the noise rate); it grows to that over as many
        epochs again as 16 of 300.
    """

    name: ClassVar[str] = "dividemix"
    twins: ClassVar[bool] = True

    warmup: int | None = None
    unlabelled: float = 25.0

    def __post_init__(self) -> None:
        if self.warmup is not None:
            check_count(self.warmup, "warmup", at_least=1)
        check_number(self.unlabelled, "unlabelled", at_least=0)

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        return [make_net(n_classes), make_net(n_classes)]

    def start(self, setting: Setting) -> None:
        n, self._k = len(setting.labels), setting.n_classes
        self._warm = self.warmup or max(2, scaled(10, of=300, run=setting.epochs))
        self._ramp = scaled(16, of=300, run=setting.epochs)
        self._losses = PerSample(torch.zeros(2, n, device=setting.device))
        self._clean = torch.ones(2, n, device=setting.device)

    def loss(self, step: Step) -> Tensor:
        for net, z in enumerate(step.logits):
            now = F.cross_entropy(z.detach(), step.labels, reduction="none")
            self._losses.value[net, step.index] = now
        if step.epoch <= self._warm:
            first, second = (F.cross_entropy(z, step.labels) for z in step.logits)
            return first + second
        probs = [z.detach().softmax(dim=1) for z in step.logits]
        given = F.one_hot(step.labels, self._k).to(probs[0])
        both = (probs[0] + probs[1]) / 2
        weight = self.unlabelled * min((step.epoch - self._warm) / self._ramp, 1.0)
        total = torch.zeros_like(both[0, 0])
        for net in (0, 1):
            clean = self._clean[1 - net, step.index]
            mix = Mix.draw(len(step.index), BETA, step.generator)
            target = mix(targets(given, clean, probs[net], both))
            logits = step.forward(net, mix(step.x))
            total = total + mixed_loss(logits, target, clean > CLEAN, weight)
        return total

    def end_epoch(self, end: EpochEnd) -> Tensor:
        self._losses.settle()
        if end.epoch >= self._warm:
            self._clean = torch.stack([low_loss(line) for line in self._losses.value])
        if end.epoch == self._warm:
            out = (self._clean <= CLEAN).float().mean().item()
            end.log(f"first division: {out:.1%} of the labels are left out")
        return end.labels

    def state(self) -> dict[str, Tensor]:
        return {"losses": self._losses.value, "clean": self._clean}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._losses, self._clean = PerSample(state["losses"]), state["clean"]

"""SOP (Liu et al. 2022, "Robust training under label noise by over-parameterization", ICML)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from adacorr.core.validation import check_number
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.per_sample import PerSample

START = 1e-8  # deviation of the noise terms at the start
FLOOR = 1e-4  # of probabilities under the logarithm
SOURCE_STEP, SOURCE_EPOCHS = 10.0, 120


def noise_term(u: Tensor, v: Tensor, labels: Tensor) -> Tensor:
    """``s = u^2 y - v^2 (1 - y)`` (y one-hot), entries in [-1, 1]; u (B, 1), v (B, K)."""
    y = F.one_hot(labels, v.shape[1]).to(v)
    return (u.square() * y).clamp(0, 1) - (v.square() * (1 - y)).clamp(0, 1)


def fitted_loss(probs: Tensor, s: Tensor, labels: Tensor) -> Tensor:
    """(B,) cross-entropy of the label to ``p + s``, made positive and normalised."""
    q = (probs + s).clamp_min(FLOOR)
    q = q / q.sum(dim=1, keepdim=True)
    return -q.gather(1, labels[:, None])[:, 0].log()


def residual(probs: Tensor, s: Tensor, labels: Tensor) -> Tensor:
    """(B,) squared distance of the label to ``one-hot(argmax p) + s``."""
    k = probs.shape[1]
    best = F.one_hot(probs.argmax(dim=1), k).to(probs)
    return (best + s - F.one_hot(labels, k).to(probs)).square().sum(dim=1)


@dataclass
class SOP(Method):
    """Each sample has a sparse noise term that explains its label where the net does not.

    The net is fitted so that ``p + s`` agrees with the label; ``s = u^2 y - v^2 (1 - y)`` starts at
    nought, and plain gradient descent with large steps lets it grow only where the label fits no
    pattern. u follows the cross-entropy, v the squared residual. SOP+, with its consistency and
    balance terms, needs two augmentations of each sample and is not built.

    Attributes
    ----------
    lr_u, lr_v : steps of u and v along the gradient of the batch mean. None: 10 as in the source
        for CIFAR-10 and symmetric noise, if the run has 120 epochs like there. The noise terms of a
        sample move once in an epoch, and from nearly nought: in a shorter run they must take larger
        steps to get as far, 40 in one of 30 epochs.
    """

    name: ClassVar[str] = "sop"

    lr_u: float | None = None
    lr_v: float | None = None

    def __post_init__(self) -> None:
        for name in ("lr_u", "lr_v"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, above=0)

    def start(self, setting: Setting) -> None:
        step = SOURCE_STEP * SOURCE_EPOCHS / setting.epochs
        self._step_u, self._step_v = self.lr_u or step, self.lr_v or step
        n, k = len(setting.labels), setting.n_classes
        g = torch.Generator().manual_seed(0)
        self._u = PerSample((START * torch.randn(n, 1, generator=g)).to(setting.device))
        self._v = PerSample((START * torch.randn(n, k, generator=g)).to(setting.device))

    def loss(self, step: Step) -> Tensor:
        probs, labels = step.logits[0].softmax(dim=1), step.labels
        u, v = self._u.value[step.index], self._v.value[step.index]
        loss = fitted_loss(probs, noise_term(u, v, labels), labels).mean()
        self._descend(probs.detach(), u, v, step)
        return loss

    @torch.enable_grad()
    def _descend(self, probs: Tensor, u: Tensor, v: Tensor, step: Step) -> None:
        """One step of this batch's u and v; in a batch each sample is met once."""
        u, v = u.clone().requires_grad_(), v.clone().requires_grad_()
        fit = fitted_loss(probs, noise_term(u, v.detach(), step.labels), step.labels).mean()
        left = residual(probs, noise_term(u.detach(), v, step.labels), step.labels).mean()
        (slope_u,), (slope_v,) = torch.autograd.grad(fit, u), torch.autograd.grad(left, v)
        self._u.value[step.index] = u.detach() - self._step_u * slope_u
        self._v.value[step.index] = v.detach() - self._step_v * slope_v

    def end_epoch(self, end: EpochEnd) -> Tensor:
        self._u.settle()
        self._v.settle()
        return end.labels

    def state(self) -> dict[str, Tensor]:
        return {"u": self._u.value, "v": self._v.value}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._u, self._v = PerSample(state["u"]), PerSample(state["v"])

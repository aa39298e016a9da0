"""The first stage of Forward and Backward: a Standard net from which T is estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from adacorr.core.transition import estimate_transition
from adacorr.core.validation import InputError, check_count, check_transition
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.scaling import scaled


@dataclass
class NeedsTransition(Method):
    """A method whose loss uses T, given or estimated.

    Without a given T, a Standard net trains first; T is estimated from its predictions at the
    epoch of lowest *noisy* validation loss (Patrini et al. 2017), then a fresh net trains with it.
    A net that has learnt too little is unsure where the labels are not, and every such doubt counts
    as noise in T: hence a first stage as long as the second, as in the source.

    Attributes
    ----------
    T : (K, K), ``T[i, j] = P(given = j | true = i)``; None: estimate it.
    estimator : "confident" (our choice: nearer to T after few epochs), or "anchor" as in the
        source (see ``adacorr.estimate_transition``).
    estimate_epochs : length of the first stage; None: half of the run.
    """

    T: Any = None
    estimator: Literal["anchor", "confident"] = "confident"
    estimate_epochs: int | None = None

    def __post_init__(self) -> None:
        if self.estimator not in ("anchor", "confident"):
            raise InputError(f"estimator: expected anchor or confident, got {self.estimator!r}")
        if self.estimate_epochs is not None:
            check_count(self.estimate_epochs, "estimate_epochs", at_least=1)

    def stages(self, epochs: int) -> list[int]:
        if self.T is not None:
            return [epochs]
        first = self.estimate_epochs or scaled(1, of=2, run=epochs)
        if first >= epochs:
            raise InputError(
                f"epochs: expected more than the {first} that estimate T, got {epochs}"
            )
        return [first, epochs - first]

    def start(self, setting: Setting) -> None:
        k = setting.n_classes
        self._first = 0 if self.T is not None else self.stages(setting.epochs)[0]
        known = torch.eye(k) if self.T is None else torch.as_tensor(check_transition(self.T, k))
        self._given = setting.labels
        self._set(known.to(setting.device, torch.float32))

    def _set(self, T: Tensor) -> None:
        self._T = T

    def loss(self, step: Step) -> Tensor:
        if step.epoch <= self._first:
            return F.cross_entropy(step.logits[0], step.labels)
        return self.corrected(step.logits[0], step.labels)

    def corrected(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of the second stage."""
        raise NotImplementedError(type(self).__name__)

    def end_epoch(self, end: EpochEnd) -> Tensor:
        if end.epoch <= self._first:
            losses = [line["val_loss"] for line in end.history]
            if losses[-1] <= min(losses):
                self._estimate(end)
            if end.epoch == self._first:
                best = min(range(len(losses)), key=losses.__getitem__) + 1
                kept = self._T.diagonal().mean().item()
                end.log(
                    f"T estimated ({self.estimator}) at epoch {best}, the lowest noisy validation "
                    f"loss; mean of its diagonal {kept:.3f}"
                )
        return end.labels

    def _estimate(self, end: EpochEnd) -> None:
        found = estimate_transition(
            self._given.cpu().numpy(), end.fresh().double().cpu().numpy(), self.estimator
        )
        self._set(torch.from_numpy(found.T).to(self._T))

    def state(self) -> dict[str, Tensor]:
        return {"T": self._T}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._set(state["T"].to(self._T))

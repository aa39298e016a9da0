"""When a net has learnt the pattern and is about to memorise: the plateau of noisy validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Plateau:
    """Tells when burn-in ends, from noisy validation alone.

    Accuracy on *noisy* validation labels rises while the pattern is learnt, stands while nothing
    new is left, and falls while wrong labels are memorised; the loss there turns up. The rule
    compares the best of the last `patience` epochs with the best before them: burn-in ends when
    loss has only gone up, or has fallen by no more than `loss_share` of itself while accuracy has
    gained no more than `tolerance`; from `latest` on, whatever accuracy does. It never ends before
    `earliest`, nor while the net is :meth:`immature`: such a net would turn right labels into
    wrong ones.
    """

    patience: int
    earliest: int
    latest: int
    chance: float  # share of the largest class among the given labels
    tolerance: float = 0.005
    loss_share: float = 0.05
    fast: float = 0.1
    steps: int = 40
    sure: float = 0.6
    above_chance: float = 1.3  # in odds

    @classmethod
    def for_run(cls, epochs: int, labels: Tensor) -> Plateau:
        """Patience of 2 epochs, one in thirty of long runs; between a tenth and a third of a run.

        >>> import torch
        >>> Plateau.for_run(180, torch.tensor([0, 0, 1, 2]))
        Plateau(patience=6, earliest=18, latest=60, chance=0.5, ...)
        """
        chance = labels.bincount().max().item() / len(labels)
        latest = max(1, epochs // 3)
        return cls(max(2, round(epochs / 30)), min(latest, round(epochs / 10)), latest, chance)

    def reason(self, history: Sequence[dict[str, Any]]) -> str | None:
        """Why burn-in ends after the last epoch of `history`; None: it goes on."""
        if self.immature(history):
            return None
        late = len(history) >= self.latest
        third = f"a third of the run is over ({len(history)} epochs)"
        if history[-1]["val_accuracy"] is None:  # a run may go without validation
            return third if late else None
        if len(history) < max(self.earliest, self.patience + 1):
            return third if late else None
        old, new = self._best(history[: -self.patience]), self._best(history[-self.patience :])
        if new[1] > old[1]:
            return f"noisy validation loss rises (lowest {old[1]:.3f})"
        if new[1] < (1 - self.loss_share) * old[1]:
            return None
        if new[0] <= old[0] + self.tolerance:
            return f"noisy validation accuracy stands at {max(old[0], new[0]):.3f}"
        return third if late else None

    def immature(self, history: Sequence[dict[str, Any]]) -> bool:
        """Whether the net has barely begun to learn.

        It has made fewer than `steps` optimiser steps; or it knows its training labels hardly
        better than one who always names the largest class; or it still learns fast, by a tenth in
        one epoch; or it is far less sure than it is right: cross-entropy makes a net that has
        learnt what it can as sure of its training labels as it is right about them.
        """
        now = history[-1]
        if now["steps"] < self.steps or now["confidence"] < self.sure * now["train_accuracy"]:
            return True
        before = history[-2] if len(history) > 1 else now
        fast = now["train_accuracy"] > (1 + self.fast) * before["train_accuracy"]
        return fast or _odds(now["train_accuracy"]) <= self.above_chance * _odds(self.chance)

    @staticmethod
    def _best(history: Sequence[dict[str, Any]]) -> tuple[float, float]:
        accuracy = max(float(line["val_accuracy"]) for line in history)
        return accuracy, min(float(line["val_loss"]) for line in history)


def _odds(p: float) -> float:
    return p / max(1 - p, 1e-9)

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
        if history[-1]["val_accuracy"] is None:  # a run may go without validation
            return self._late(history)
        if len(history) < max(self.earliest, self.patience + 1):
            return self._late(history)
        old, new = self._best(history[: -self.patience]), self._best(history[-self.patience :])
        if self._loss_rises(history):
            return f"noisy validation loss rises (lowest {old[1]:.3f})"
        if new[1] < (1 - self.loss_share) * old[1]:
            return None
        if new[0] <= old[0] + self.tolerance:
            return f"noisy validation accuracy stands at {max(old[0], new[0]):.3f}"
        return self._late(history)

    def reason_unseen(self, history: Sequence[dict[str, Any]], n: int) -> str | None:
        """As :meth:`reason`, where ``train_accuracy`` is on `n` labels that no net learns from.

        Then it needs no validation split, and many labels make it exact: burn-in ends when it is
        certainly above chance (4 standard errors) and, compared like there, has gained no more than
        2 standard errors. It goes on, also past a third of the run, while that gain is more than a
        tenth of what the net knows beyond chance. Whether the net is as sure as it is right is for
        :func:`~.noise_rate.sure_as_right` to say.
        """
        accuracy = [float(line["train_accuracy"]) for line in history]
        begun = len(accuracy) >= max(self.earliest, self.patience + 1)
        if not begun or history[-1]["steps"] < self.steps:
            return None
        old, new = max(accuracy[: -self.patience]), max(accuracy[-self.patience :])
        best = max(old, new)
        if best < self.chance + 4 * _standard_error(self.chance, n):
            return None
        if new - old > self.fast * (new - self.chance):
            return None
        if new <= old + 2 * _standard_error(best, n):
            return f"accuracy on labels not learnt from stands at {best:.3f}"
        return self._late(history)

    def immature(self, history: Sequence[dict[str, Any]]) -> bool:
        """Whether the net has barely begun to learn.

        It has made fewer than `steps` optimiser steps; or it knows its training labels hardly
        better than one who always names the largest class; or it still learns fast, by a tenth in
        one epoch, and not by heart (then validation loss rises); or it is far less sure than it is
        right: cross-entropy makes a net that has learnt what it can as sure of its training labels
        as it is right about them.
        """
        now = history[-1]
        if self._unready(now):
            return True
        before = history[-2] if len(history) > 1 else now
        fast = now["train_accuracy"] > (1 + self.fast) * before["train_accuracy"]
        fast = fast and not self._loss_rises(history)
        return fast or _odds(now["train_accuracy"]) <= self.above_chance * _odds(self.chance)

    def _late(self, history: Sequence[dict[str, Any]]) -> str | None:
        third = f"a third of the run is over ({len(history)} epochs)"
        return third if len(history) >= self.latest else None

    def _unready(self, now: dict[str, Any]) -> bool:
        sure = now["confidence"] >= self.sure * now["train_accuracy"]
        return now["steps"] < self.steps or not sure

    def _loss_rises(self, history: Sequence[dict[str, Any]]) -> bool:
        losses = [line["val_loss"] for line in history]
        old, new = losses[: -self.patience], losses[-self.patience :]
        return bool(old) and None not in losses and min(new) > min(old)

    @staticmethod
    def _best(history: Sequence[dict[str, Any]]) -> tuple[float, float]:
        accuracy = max(float(line["val_accuracy"]) for line in history)
        return accuracy, min(float(line["val_loss"]) for line in history)


def _odds(p: float) -> float:
    return p / max(1 - p, 1e-9)


def _standard_error(p: float, n: int) -> float:
    return (p * (1 - p) / n) ** 0.5

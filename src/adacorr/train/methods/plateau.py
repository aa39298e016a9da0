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
    accuracy has gained no more than `tolerance` and loss no more than `loss_share` of itself, or
    when loss has only gone up (a slow start, hardly above chance, is no plateau); at `latest` in any
    case. It never ends before `earliest`, nor while the net is :meth:`immature`.
    """

    patience: int
    earliest: int
    latest: int
    chance: float  # share of the largest class among the given labels
    tolerance: float = 0.005
    loss_share: float = 0.05
    fast: float = 0.1

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
        now = history[-1]
        known = now["val_accuracy"] is not None  # a run may go without validation
        ready = len(history) >= max(self.earliest, self.patience + 1)
        if self.immature(history):
            return None
        if known and ready and self._above_chance(now, by=1.3):
            old, new = self._best(history[: -self.patience]), self._best(history[-self.patience :])
            if new[1] > old[1]:
                return f"noisy validation loss rises (lowest {old[1]:.3f})"
            stands = new[0] <= old[0] + self.tolerance
            if stands and new[1] >= (1 - self.loss_share) * old[1]:
                return f"noisy validation accuracy stands at {max(old[0], new[0]):.3f}"
        if len(history) >= self.latest:
            return f"a third of the run is over ({self.latest} epochs)"
        return None

    def immature(self, history: Sequence[dict[str, Any]]) -> bool:
        """Whether the net knows its training labels no better than one who always names the
        largest class, or still learns fast: by a tenth in one epoch."""
        now = history[-1]
        before = history[-2] if len(history) > 1 else now
        fast = now["train_accuracy"] > (1 + self.fast) * before["train_accuracy"]
        return fast or not self._above_chance(now, by=1.05)

    def _above_chance(self, now: dict[str, Any], by: float) -> bool:
        return _odds(now["train_accuracy"]) > by * _odds(self.chance)

    @staticmethod
    def _best(history: Sequence[dict[str, Any]]) -> tuple[float, float]:
        accuracy = max(float(line["val_accuracy"]) for line in history)
        return accuracy, min(float(line["val_loss"]) for line in history)


def _odds(p: float) -> float:
    return p / max(1 - p, 1e-9)

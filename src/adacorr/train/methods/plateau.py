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
    when loss has only gone up. It never ends before `earliest`, nor while the net does no better
    on its training labels than naming the largest class (a slow start is no plateau), and always
    at `latest`.
    """

    patience: int
    earliest: int
    latest: int
    chance: float  # share of the largest class among the given labels
    tolerance: float = 0.005
    loss_share: float = 0.05

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
        if known and ready and _odds(now["train_accuracy"]) > 1.3 * _odds(self.chance):
            old, new = self._best(history[: -self.patience]), self._best(history[-self.patience :])
            if new[1] > old[1]:
                return f"noisy validation loss rises (lowest {old[1]:.3f})"
            stands = new[0] <= old[0] + self.tolerance
            if stands and new[1] >= (1 - self.loss_share) * old[1]:
                return f"noisy validation accuracy stands at {max(old[0], new[0]):.3f}"
        if len(history) >= self.latest:
            return f"a third of the run is over ({self.latest} epochs)"
        return None

    @staticmethod
    def _best(history: Sequence[dict[str, Any]]) -> tuple[float, float]:
        accuracy = max(float(line["val_accuracy"]) for line in history)
        return accuracy, min(float(line["val_loss"]) for line in history)


def _odds(p: float) -> float:
    return p / max(1 - p, 1e-9)

"""When to stop trusting the net a little more each epoch: the plateau of noisy validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Plateau:
    """Tells when a net has learnt the pattern and is about to memorise the noise.

    Accuracy on *noisy* validation labels rises while the pattern is learnt, stands while nothing
    new is left, and falls while wrong labels are memorised; the loss there turns up first. The
    rule looks at the last `patience` epochs: it stops at the plateau of accuracy (no gain above
    `tolerance`), or at once when the loss has gone up instead of down in all of them.

    Attributes
    ----------
    patience : epochs without progress that count as a plateau.
    latest : the epoch at which burn-in ends in any case.
    tolerance : a smaller gain in accuracy is not progress.
    """

    patience: int
    latest: int
    tolerance: float = 0.005

    @classmethod
    def for_run(cls, epochs: int) -> Plateau:
        """Two epochs of patience up to 60 epochs, one in thirty above; at most a third of a run."""
        return cls(patience=max(2, round(epochs / 30)), latest=max(1, epochs // 3))

    def reason(self, history: Sequence[dict[str, Any]]) -> str | None:
        """Why burn-in ends after the last epoch of `history`; None: it goes on."""
        known = history[-1]["val_accuracy"] is not None  # a run may go without validation
        if known and len(history) > self.patience:
            accuracy = [float(line["val_accuracy"]) for line in history]
            loss = [float(line["val_loss"]) for line in history]
            old, new = accuracy[: -self.patience], accuracy[-self.patience :]
            if min(loss[-self.patience :]) > min(loss[: -self.patience]):
                return f"noisy validation loss rises (lowest {min(loss):.3f})"
            if max(new) <= max(old) + self.tolerance:
                return f"noisy validation accuracy stands at {max(old + new):.3f}"
        if len(history) >= self.latest:
            return f"a third of the run is over ({self.latest} epochs)"
        return None

"""How a run trains, apart from the method: the only place of these defaults. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from adacorr.core.validation import InputError

PAPER_EPOCHS = 180  # the paper's
SAMPLES_SEEN = 100_000  # our choice: what small data get before 180 epochs end it
FEWEST_EPOCHS = 30  # our choice: burn-in and both drops of the learning rate need room


def default_epochs(n: int) -> int:
    """Long runs for small data, never more than the paper's 180 epochs.

    >>> default_epochs(300), default_epochs(1_300), default_epochs(50_000)
    (180, 77, 30)
    """
    return min(PAPER_EPOCHS, max(FEWEST_EPOCHS, round(SAMPLES_SEEN / max(n, 1))))


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes
    ----------
    epochs
        Length of the run, all stages together; default: 30 to 180, more for small data.
    batch_size
        Samples per optimiser step, over all processes together.
    lr
        Learning rate; halved after each third of a stage (the paper: every 60 of 180 epochs).
    weight_decay
        The released code's value; the paper gives none. An L2 penalty in the gradient for radam and
        sgd; radamw shrinks the weights by it apart from the gradient, as the released code does.
    optimizer
        RAdam as in the paper, radamw with the released code's decay, or SGD with momentum 0.9 (the
        paper's Clothing1M runs).
    seed
        Everything random follows from it.
    augment
        Random crops and horizontal flips of images, jitter of point clouds; by default of colour
        images only.
    workers
        Processes that load samples of a dataset which is not in memory.
    mixed_precision
        bf16 runs the nets in bfloat16.
    """

    epochs: int | None = None
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 5e-4
    optimizer: Literal["radam", "radamw", "sgd"] = "radam"
    seed: int = 0
    augment: bool | None = None
    workers: int = 0
    mixed_precision: Literal["no", "bf16"] = "no"

    def __post_init__(self) -> None:
        _check(self.epochs is None or self.epochs >= 1, "epochs", "at least 1", self.epochs)
        _check(self.batch_size >= 2, "batch_size", "at least 2", self.batch_size)
        _check(0 < self.lr < float("inf"), "lr", "a positive number", self.lr)
        _check(0 <= self.weight_decay < float("inf"), "weight_decay", ">= 0", self.weight_decay)
        known = self.optimizer in ("radam", "radamw", "sgd")
        _check(known, "optimizer", "radam, radamw or sgd", self.optimizer)
        _check(self.seed >= 0, "seed", "an integer >= 0", self.seed)
        _check(self.workers >= 0, "workers", "an integer >= 0", self.workers)
        known = self.mixed_precision in ("no", "bf16")
        _check(known, "mixed_precision", "no or bf16", self.mixed_precision)


def _check(good: bool, name: str, expected: str, value: object) -> None:
    if not good:
        raise InputError(f"{name}: expected {expected}, got {value}")

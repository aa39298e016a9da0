"""AdaCorr (Zheng et al. 2020, "Error-bounded correction of noisy labels", ICML), Procedure 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from adacorr.core.validation import InputError, check_count, check_number
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.guard import NEVER_READY, LabelGuard
from adacorr.train.methods.parts.plateau import Plateau
from adacorr.train.methods.parts.scaling import scaled
from adacorr.train.methods.parts.snapshot import RollingMean, Snapshot

PAPER_EPOCHS = 180  # the run length that the epochs of a recipe refer to


@dataclass(frozen=True)
class Recipe:
    """Everything in which the paper and the released code differ; epochs are of a run of 180.

    The released code counts epochs from 0 and changes labels after an epoch, not before it: its
    start 25 and update 30 are a burn-in of 25 epochs and a first correction before the 32nd.
    """

    burn_in: int
    correct_after: int
    refresh_after: int
    predictions: Literal["fresh", "running"]
    window: int
    delta: float | Literal["falling"]
    retro: float
    retro_target: Literal["predictions", "labels"]


RECIPES = {
    "paper": Recipe(30, 10, 40, "fresh", 1, 0.9, 1.0, "predictions"),
    "released": Recipe(25, 7, 41, "running", 10, "falling", 0.9, "labels"),
}


def lrt_correct(labels: Tensor, pred_probs: Tensor, delta: float) -> Tensor:
    """Procedure 1: the argmax where f[label] / f[argmax] < delta, else the label; a new tensor."""
    best = pred_probs.argmax(dim=1)
    at = pred_probs.gather(1, torch.stack([labels, best], dim=1)).double()
    return torch.where(at[:, 0] / at[:, 1] < delta, best, labels)


def retroactive_loss(log_probs: Tensor, target: Tensor) -> Tensor:
    """Mean of ``-sum_c f_r,c log f_c`` (the paper's formula lacks the minus sign)."""
    return -(target * log_probs).sum(dim=1).mean()


def falling_delta(correction: int, epochs: int) -> float:
    """Threshold of the released code at its 1st, 2nd, ... correction: 0.82 down to about 0.24."""
    return 1 / (1.2 + 0.02 * correction * PAPER_EPOCHS / epochs)


@dataclass
class AdaCorr(Method):
    """Train, correct the labels by a likelihood ratio test, go on with the corrected ones.

    After burn-in of m epochs the loss is cross-entropy to the current label plus the retroactive
    term, cross-entropy to what the net said at the end of burn-in (f_r). From epoch
    ``m + correct_after`` on, labels are corrected before every epoch; f_r is renewed once, before
    epoch ``m + refresh_after``. None takes the recipe's value; its epochs are those of a run of
    180 and are scaled to this run, so with ``epochs=180`` they are the source's own.

    Attributes
    ----------
    recipe : "paper" is Procedure 2; "released" does what the authors' code does (docs/methods.md).
    burn_in : "auto" ends it when noisy validation accuracy stands still, and then corrects nothing
        while the labels look better than the net; a number of epochs; None.
    delta : flip below this likelihood ratio.
    correct_after, refresh_after : epochs from the end of burn-in.
    predictions : "fresh" makes a pass over the training data in eval mode before each correction;
        "running" takes the probabilities that training has seen anyway.
    window : epochs that running predictions are averaged over; costs window N K floats above 1.
    retro : weight of the retroactive term.
    top_k : keep f_r as its k largest probabilities and the remainder, for many classes.
    """

    name: ClassVar[str] = "adacorr"
    corrects: ClassVar[bool] = True

    recipe: Literal["paper", "released"] = "paper"
    burn_in: int | Literal["auto"] | None = "auto"
    delta: float | None = None
    correct_after: int | None = None
    refresh_after: int | None = None
    predictions: Literal["fresh", "running"] | None = None
    window: int | None = None
    retro: float | None = None
    top_k: int | None = None

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise InputError(f"recipe: expected {' or '.join(RECIPES)}, got {self.recipe!r}")
        if self.predictions not in (None, "fresh", "running"):
            raise InputError(f"predictions: expected fresh or running, got {self.predictions!r}")
        for name in ("burn_in", "correct_after", "refresh_after", "window", "top_k"):
            value = getattr(self, name)
            if value is not None and not (name == "burn_in" and value == "auto"):
                check_count(value, name, at_least=1)
        if self.delta is not None:
            check_number(self.delta, "delta", above=0, at_most=1)
        if self.retro is not None:
            check_number(self.retro, "retro", at_least=0)
        if self._predictions == "fresh" and self._window > 1:
            raise InputError(f"window: expected 1 with fresh predictions, got {self._window}")

    # -- the recipe's value, unless a field says otherwise ---------------------------------------

    @property
    def _predictions(self) -> str:
        return self.predictions or RECIPES[self.recipe].predictions

    @property
    def _window(self) -> int:
        if self.window is None and self._predictions == "fresh":
            return 1
        return self.window or RECIPES[self.recipe].window

    @property
    def _retro(self) -> float:
        return RECIPES[self.recipe].retro if self.retro is None else self.retro

    def start(self, setting: Setting) -> None:
        recipe, run = RECIPES[self.recipe], setting.epochs

        def own(value: int | None, of_paper: int) -> int:
            return value or scaled(of_paper, of=PAPER_EPOCHS, run=run)

        auto = self.burn_in == "auto"
        self._m = 0 if auto else own(self.burn_in, recipe.burn_in)  # type: ignore[arg-type]
        self._plateau = Plateau.for_run(run, setting.labels)
        self._given, self._guard = setting.labels, LabelGuard(active=auto)
        self._correct = own(self.correct_after, recipe.correct_after)
        self._refresh = own(self.refresh_after, recipe.refresh_after)
        self._epochs = run
        self._mean = RollingMean(self._window)
        self._soft = recipe.retro_target == "predictions"
        self._snapshot = Snapshot(setting.n_classes, self.top_k)
        self._held: Tensor | None = None  # snapshot labels of the released recipe

    def loss(self, step: Step) -> Tensor:
        log_probs = step.logits[0].log_softmax(dim=1)
        loss = F.nll_loss(log_probs, step.labels)
        if self._held is not None:
            return loss + self._retro * F.nll_loss(log_probs, self._held[step.index])
        if self._snapshot.taken and self._retro > 0:
            return loss + self._retro * retroactive_loss(log_probs, self._snapshot.rows(step.index))
        return loss

    def end_epoch(self, end: EpochEnd) -> Tensor:
        """What Procedure 2 does between epoch ``end.epoch`` and the next one."""
        running = self._mean.add(end.running) if self._predictions == "running" else None
        if not self._m and (why := self._plateau.reason(end.history)):
            self._m = end.epoch
            end.log(f"burn-in ends: {why}")
        elif not self._m and end.epoch == self._epochs:
            end.log(NEVER_READY)
        after = end.epoch + 1 - self._m  # the next epoch, counted from burn-in
        if not self._m or after < 1 or end.epoch == self._epochs:
            return end.labels
        correct = after >= self._correct and not self._guard.withholds(
            self._given, end, first=after == self._correct
        )
        snapshot = after in (1, self._refresh)
        if not (correct or snapshot):
            return end.labels
        f = end.fresh() if running is None else running
        labels = self._corrected(end.labels, f, after) if correct else end.labels
        if snapshot and self._soft:
            self._snapshot.take(f)
        elif snapshot:
            self._held = end.labels.clone()  # as they were before this correction
        return labels

    def _corrected(self, labels: Tensor, f: Tensor, after: int) -> Tensor:
        delta = RECIPES[self.recipe].delta if self.delta is None else self.delta
        if delta == "falling":
            delta = falling_delta(after - self._correct + 1, self._epochs)
        return lrt_correct(labels, f, delta)

    def state(self) -> dict[str, Tensor]:
        held = {} if self._held is None else {"held": self._held}
        burn_in = {"burn_in": torch.tensor(self._m), "guard": torch.tensor(self._guard.closed)}
        return burn_in | held | self._snapshot.state() | self._mean.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._m, self._guard.closed = int(state["burn_in"]), bool(state["guard"])
        self._held = state.get("held")
        self._snapshot.load_state(state)
        self._mean.load_state(state)

"""Posterior: AdaCorr (Zheng et al. 2020) with the noise taken into account, and nothing to set.

What differs from AdaCorr, and why:

- two nets start differently, and until burn-in ends each learns from half of the samples. The other
  half's labels it cannot have learnt by heart: how often the two nets are right about labels of the
  other's half tells when burn-in is over, and where they are surest it tells how many labels are
  wrong. Nets that have not become as sure as they are right by half of the run know too little to
  judge labels: from then on both learn from all samples, and no label is left out;
- the likelihood ratio test is one on the posterior P(true | x, given), with T estimated at the end
  of burn-in: under pair noise the net's argmax is often the wrong class of a pair, the posterior's
  is not. Where T does not name the sources of wrong labels it has no say;
- its threshold is not a number to choose: each epoch, as many labels fail the test as are estimated
  to be wrong. A label that fails once is tested again, always against the given one, so neither a
  wrong flip nor a memorised label is for ever. On clean labels hardly any fails;
- a label that failed teaches the net what is known about it. Under pair noise it has one possible
  source, and the corrected label counts in full. Under uniform noise all that speaks for the
  corrected label is the net itself, and a net that learns from its own guesses keeps its own
  errors: there it counts little while most labels are right, more where few are;
- predictions are the mean of the two nets, as each saw the data while training, averaged over a few
  epochs: no pass over the data is added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.validation import check_count, check_number
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.parts.guard import NEVER_READY, errs_more
from adacorr.train.methods.parts.halves import Halves
from adacorr.train.methods.parts.noise_rate import (
    disagreement,
    sure_as_right,
    surest_counts,
    surest_noise_rate,
    surest_part,
)
from adacorr.train.methods.parts.plateau import Plateau
from adacorr.train.methods.parts.scaling import scaled
from adacorr.train.methods.parts.snapshot import RollingMean

NAMED = 0.5  # certainty from which T is said to name the source of a wrong label


def label_posterior(eta: Tensor, T: Tensor, labels: Tensor) -> Tensor:
    """P(true = j | x, given label), proportional to ``eta[:, j] T[j, label]``."""
    joint = eta * T[:, labels].T
    return joint / joint.sum(dim=1, keepdim=True)


def source_weights(T: Tensor) -> Tensor:
    """T without its vote for the given label: the diagonal falls to the column's largest other.

    The net has been trained on the given labels, so their vote is already in its predictions;
    which *other* classes could have been turned into them is not. Under uniform noise all weights
    of a column are equal, under pair noise two classes are left.
    """
    others = T.clone().fill_diagonal_(0).amax(dim=0)
    weights = T.clone()
    weights.diagonal().copy_(torch.minimum(T.diagonal(), others))
    return weights


def source_certainty(T: Tensor) -> Tensor:
    """(K,) how well T alone knows the true class of a wrong label: 0 any other class, 1 one.

    >>> pair = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]])
    >>> source_certainty(pair).tolist(), source_certainty(torch.full((3, 3), 1 / 3)).tolist()
    ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    """
    others = T.clone().fill_diagonal_(0)
    chance = 1 / (len(T) - 1)
    if chance == 1:  # of two classes there is one other
        return torch.ones_like(T[0])
    share = others.amax(dim=0) / others.sum(dim=0)
    return ((share - chance) / (1 - chance)).clamp(0, 1)


def sources_are_named(counts: Tensor) -> bool:
    """Whether wrong labels have one source each, from (K, K) counts of predicted and given classes.

    The share of the largest source is taken less a standard error (few labels name one by chance),
    scaled to 0 for what chance gives; the mean over the wrong labels must be `NAMED`.
    """
    wrong = counts.clone().fill_diagonal_(0)
    n, chance = wrong.sum(dim=0), 1 / (len(wrong) - 1)
    if chance == 1:  # of two classes there is one other
        return True
    share = wrong.amax(dim=0) / n.clamp_min(1)
    error = (torch.maximum(share * (1 - share), 0.25 / n.clamp_min(1)) / n.clamp_min(1)).sqrt()
    certainty = (share - error - chance).clamp_min(0) / (1 - chance)
    return bool((n * certainty).sum() >= NAMED * n.sum().clamp_min(1))


def estimate_sources(labels: Tensor, pred_probs: Tensor) -> Tensor:
    """T, as far as it is known which class a wrong label comes from; if not, all alike.

    Rows are those of :func:`surest_counts` and one more sample spread over all classes: never seen
    is not impossible. Under uniform noise what is left of structure in them is chance and what the
    net confuses, and would turn the test against the classes that look like others. Of a class that
    the net never predicts nothing is known: its labels count as right.
    """
    counts = surest_counts(labels, pred_probs).to(pred_probs)
    k, n = len(counts), counts.sum(dim=1)
    counts[:, n == 0] = 0
    counts.diagonal().add_((n == 0) * n.max())
    if not sources_are_named(counts):
        return torch.full_like(counts, 1 / k)
    return (counts + 1 / k) / (counts.sum(dim=1, keepdim=True) + 1)


def trusted(posterior: Tensor, labels: Tensor, rate: float) -> Tensor:
    """(N,) all but the `rate` share with the lowest likelihood ratio; of equals, the surer."""
    own = posterior.gather(1, labels[:, None])[:, 0]
    ratio = own / posterior.amax(dim=1)
    score = ratio + torch.where(ratio == 1, own, 0)
    lowest = score.argsort(stable=True)[: int(rate * len(labels))]
    return torch.ones_like(labels, dtype=torch.bool).index_fill_(0, lowest, False)


@dataclass
class Posterior(Method):
    """Learn from the labels that P(true | x, given) trusts, correct the others.

    Attributes
    ----------
    burn_in : "auto" ends it when accuracy on labels not learnt from stands still and the nets are
        as sure as they are right; or a number of epochs.
    window : epochs that predictions are averaged over (window N K floats).
    smoothing : label smoothing after burn-in, against what wrong labels are still trusted.
    """

    name: ClassVar[str] = "posterior"
    twins: ClassVar[bool] = True
    corrects: ClassVar[bool] = True

    burn_in: int | Literal["auto"] = "auto"
    window: int = 3
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if self.burn_in != "auto":
            check_count(self.burn_in, "burn_in", at_least=1)
        check_count(self.window, "window", at_least=1)
        check_number(self.smoothing, "smoothing", at_least=0, below=1)

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        return [make_net(n_classes), make_net(n_classes)]

    def start(self, setting: Setting) -> None:
        k, device = setting.n_classes, setting.device
        self._given, self._epochs = setting.labels, setting.epochs
        self._halves = Halves(setting.labels)
        self._plateau = Plateau.for_run(setting.epochs, setting.labels)
        self._m = 0 if self.burn_in == "auto" else self.burn_in
        self._ramp = scaled(1, of=10, run=setting.epochs)
        self._mean = RollingMean(self.window)
        self._rate = torch.zeros((), device=device)
        self._T = torch.eye(k, device=device)
        self._errs_more = False
        self._set_weight(torch.ones(len(setting.labels), device=device))

    def _set_weight(self, weight: Tensor) -> None:
        """How much each sample counts: 1 on average, so that ranks need not know each other's."""
        self._weight = weight / weight.mean()

    def _burning_in(self, epoch: int) -> bool:
        """By itself it lasts half of the run at most: then both nets learn from all samples."""
        return epoch <= (self._m or self._epochs // 2)

    def loss(self, step: Step) -> Tensor:
        burning_in, weight = self._burning_in(step.epoch), self._weight[step.index]
        smoothing = 0.0 if burning_in else self.smoothing
        total = torch.zeros_like(weight[0])
        for net, z in enumerate(step.logits):
            loss = F.cross_entropy(z, step.labels, reduction="none", label_smoothing=smoothing)
            own = self._halves.weight(step.index, net) if burning_in else 1.0
            total = total + (own * weight * loss).mean()
        return total

    def seen(self, step: Step) -> Tensor:
        if not self._burning_in(step.epoch):
            return self.proba(step.logits)
        first, second = (z.softmax(dim=1) for z in step.logits)
        return self._halves.unseen(first, second, step.index)

    def end_epoch(self, end: EpochEnd) -> Tensor:
        f = self._mean.add(end.running)
        if not self._m and self._burning_in(end.epoch):
            why = self._plateau.reason_unseen(end.history, len(self._given))
            if why and sure_as_right(self._given, f):
                self._m = end.epoch
                end.log(f"burn-in ends: {why}")
            elif not self._burning_in(end.epoch + 1):
                end.log(NEVER_READY)
        if end.epoch == self._m:
            self._fit_noise(f, end)
        if not self._m or end.epoch < self._m:
            return end.labels
        if end.epoch == self._epochs:
            return self._final(end.labels)
        return self._correct(f, min(1.0, (end.epoch + 1 - self._m) / self._ramp))

    def _fit_noise(self, f: Tensor, end: EpochEnd) -> None:
        """T and the noise rate, from predictions of labels not learnt from."""
        self._T = estimate_sources(self._given, f)
        self._rate = surest_noise_rate(self._given, f)
        end.log(f"noise rate estimated as {self._rate.item():.3f}")
        one = (source_certainty(self._T) >= NAMED).any()
        end.log(f"wrong labels seem to come from {'mostly one class each' if one else 'any class'}")
        part = surest_part(self._given, f)
        self._errs_more = errs_more(*disagreement(self._given, f, part), len(f) // part, f.shape[1])
        if self._errs_more:
            end.log(
                "the labels look better than the net: it leaves labels out, "
                "and replaces only those with one likely source"
            )

    def _correct(self, f: Tensor, ramp: float) -> Tensor:
        """The corrected labels, and what each counts from now on.

        As in Co-teaching, the share that fails grows to the noise rate over some epochs (`ramp`):
        both nets first learn from the half that they had not seen.
        """
        given, T, rate = self._given, self._T, self._rate
        posterior = label_posterior(f, source_weights(T), given)
        best, certainty = posterior.argmax(dim=1), source_certainty(T)[given]
        kept = trusted(posterior, given, ramp * rate.item())
        sure = f.gather(1, best[:, None])[:, 0]
        self._set_weight(torch.where(kept, 1.0, torch.maximum(certainty, rate * sure)))
        return torch.where(kept, given, best)

    def _final(self, labels: Tensor) -> Tensor:
        """The word of a net that errs more than the labels may leave one out, not replace it."""
        if not self._errs_more:
            return labels
        named = source_certainty(self._T)[self._given] >= NAMED
        return torch.where(named, labels, self._given)

    def state(self) -> dict[str, Tensor]:
        own = {"burn_in": torch.tensor(self._m), "errs_more": torch.tensor(self._errs_more)}
        own |= {"rate": self._rate, "T": self._T, "weight": self._weight}
        return own | self._mean.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._m, self._errs_more = int(state["burn_in"]), bool(state["errs_more"])
        self._rate, self._T, self._weight = state["rate"], state["T"], state["weight"]
        self._mean.load_state(state)

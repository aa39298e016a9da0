"""Posterior: AdaCorr (Zheng et al. 2020) with the noise taken into account, and nothing to set.

What differs from AdaCorr, and why:

- what the net is anchored to is not its own noisy prediction f_r but the posterior
  P(true | x, given), with T estimated at the end of burn-in: under asymmetric noise the net's
  argmax is often the wrong class of a pair, the posterior's is not;
- that anchor is as unsure as the labels are noisy: mixed with the uniform distribution by the
  estimated noise rate, it holds back memorising in proportion;
- the likelihood ratio test is one on that posterior, so a label that noise can explain is flipped
  sooner than one that it cannot;
- predictions are the mean of two nets from different starts, as each saw the data while training,
  averaged over a few epochs: errors that are one net's own do not get into the labels, and no pass
  over the data is added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacorr.core.sampling import sample_rows, sample_size
from adacorr.core.transition import estimate_transition
from adacorr.core.validation import check_count, check_number
from adacorr.train.methods.adacorr import PAPER_EPOCHS, lrt_correct, retroactive_loss
from adacorr.train.methods.base import EpochEnd, Method, Setting, Step
from adacorr.train.methods.guard import NEVER_READY, Guard
from adacorr.train.methods.plateau import Plateau
from adacorr.train.methods.scaling import scaled
from adacorr.train.methods.snapshot import RollingMean, Snapshot

FLOOR = 0.01  # spread over each row of an estimated T: never seen is not impossible
SCALES = torch.logspace(-0.3, 0.7, 16, dtype=torch.float64)  # 0.5 to 5
INVERSIONS = 30
VOTES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)  # shares of the full one


def clean_posterior(noisy: Tensor, T: Tensor) -> Tensor:
    """eta with ``eta @ T`` close to the rows of `noisy`, on the simplex.

    Expectation-maximisation for a mixture with known components: each step divides by the noisy
    posterior that eta implies and multiplies back, so entries stay positive.
    """
    eta = noisy.clone()
    for _ in range(INVERSIONS):
        eta = eta * ((noisy / (eta @ T).clamp_min(1e-12)) @ T.T)
        eta = eta / eta.sum(dim=1, keepdim=True).clamp_min(1e-12)
    return eta


def sharpen(eta: Tensor, T: Tensor, labels: Tensor) -> Tensor:
    """softmax(a log eta), a chosen by the likelihood of the given labels under T.

    Means over epochs of an early net are less sure than they should be; a given label would then
    weigh too much against them.
    """
    rows = torch.from_numpy(sample_rows(len(eta), sample_size(eta.shape[1]))).to(eta.device)
    log_eta, evidence = eta[rows].clamp_min(1e-6).log(), T[:, labels[rows]].T
    fits = [
        ((a * log_eta).softmax(dim=1) * evidence).sum(dim=1).clamp_min(1e-12).log().mean().item()
        for a in SCALES.tolist()
    ]
    best = SCALES[max(range(len(fits)), key=fits.__getitem__)].item()
    return (best * eta.clamp_min(1e-6).log()).softmax(dim=1)


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


def consistent_posterior(
    eta: Tensor, T: Tensor, labels: Tensor, kept: float, vote: float = 1.0
) -> Tensor:
    """P(true | x, given), with no more belief in the given labels than T allows on average.

    `kept` is the share of right labels that T implies. Where the net has begun to memorise, eta
    leans towards the given label already; the vote of T for it, `vote` at most, is then reduced,
    down to :func:`source_weights`, until the mean of P(true = given) is not above `kept`.
    """
    weights, posterior = source_weights(T), eta
    for share in VOTES:
        power = share * vote
        posterior = label_posterior(eta, T**power * weights ** (1 - power), labels)
        if posterior.gather(1, labels[:, None]).mean() <= kept:
            break
    return posterior


@dataclass
class Posterior(Method):
    """Anchor the net to P(true | x, given), then correct the current labels as AdaCorr does.

    Attributes
    ----------
    burn_in : "auto" ends it when noisy validation accuracy stands still, and then corrects nothing
        while the labels look better than the net; or a number of epochs.
    correct_after : epochs from the end of burn-in to the first correction; None: 20 of 180.
    refresh_after : epochs to the renewal of the anchor; None: 40 of 180.
    window : epochs that predictions are averaged over (window N K floats).
    delta : flip below this likelihood ratio.
    anchor : share of the anchor in the loss; the rest is cross-entropy to the current label.
    top_k : keep the anchor as its k largest probabilities and the remainder, for many classes.
    """

    name: ClassVar[str] = "posterior"
    twins: ClassVar[bool] = True
    corrects: ClassVar[bool] = True

    burn_in: int | Literal["auto"] = "auto"
    correct_after: int | None = None
    refresh_after: int | None = None
    window: int = 3
    delta: float = 0.9
    anchor: float = 0.5
    top_k: int | None = None

    def __post_init__(self) -> None:
        for name in ("burn_in", "correct_after", "refresh_after", "window", "top_k"):
            value = getattr(self, name)
            if value is not None and not (name == "burn_in" and value == "auto"):
                check_count(value, name, at_least=1)
        check_number(self.delta, "delta", above=0, at_most=1)
        check_number(self.anchor, "anchor", at_least=0, at_most=1)

    def build(self, make_net: Callable[[int], nn.Module], n_classes: int) -> list[nn.Module]:
        return [make_net(n_classes), make_net(n_classes)]

    def start(self, setting: Setting) -> None:
        run, k = setting.epochs, setting.n_classes
        self._given, self._k, self._epochs = setting.labels, k, run
        self._plateau = Plateau.for_run(run, setting.labels)
        self._m = 0 if self.burn_in == "auto" else self.burn_in
        self._guard = Guard(active=self.burn_in == "auto")
        self._correct = self.correct_after or scaled(20, of=PAPER_EPOCHS, run=run)
        self._refresh = self.refresh_after or scaled(40, of=PAPER_EPOCHS, run=run)
        self._mean = RollingMean(self.window)
        self._anchor = Snapshot(k, self.top_k)
        self._rate = torch.zeros((), device=setting.device)
        self._T = torch.eye(k, device=setting.device)

    def loss(self, step: Step) -> Tensor:
        anchor = self._anchor.rows(step.index) if self._anchor.taken else None
        first, second = step.logits
        labels = step.labels
        return self._loss(first, labels, anchor) + self._loss(second, labels, anchor)

    def _loss(self, logits: Tensor, labels: Tensor, anchor: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(dim=1)
        loss = F.nll_loss(log_probs, labels)
        if anchor is None:
            return loss
        return (1 - self.anchor) * loss + self.anchor * retroactive_loss(log_probs, anchor)

    def end_epoch(self, end: EpochEnd) -> Tensor:
        f = self._mean.add(end.running)
        if not self._m and (why := self._plateau.reason(end.history)):
            self._m = end.epoch
            end.log(f"burn-in ends: {why}")
        elif not self._m and end.epoch == self._epochs:
            end.log(NEVER_READY)
        if end.epoch == self._m:
            self._fit_noise(f, end)
            self._mean = RollingMean(self.window)  # from here on the net learns something else
        after = end.epoch + 1 - self._m
        if not self._m or after < self._correct or after < 2 or end.epoch == self._epochs:
            return end.labels
        kept = 1 - self._rate.item()
        # The more noise there was to learn, the more of it is in f: its labels vote the less.
        f = consistent_posterior(f, self._T, self._given, kept, vote=kept)
        if after == self._refresh:
            self._take_anchor(f)
        if self._guard.withholds(self._given, end, first=after == max(2, self._correct)):
            return end.labels
        return lrt_correct(end.labels, f, self.delta)

    def _fit_noise(self, f: Tensor, end: EpochEnd) -> None:
        """T, the noise rate and the anchor, from predictions before memorising."""
        given = self._given
        found = estimate_transition(given.cpu().numpy(), f.double().cpu().numpy()).T
        T = torch.from_numpy(found).to(f) + FLOOR / self._k
        self._T = T / T.sum(dim=1, keepdim=True)
        kept = self._T.diagonal()[f.argmax(dim=1)].mean()
        self._rate = 1 - kept
        end.log(f"noise rate estimated as {self._rate.item():.3f}")
        eta = sharpen(clean_posterior(f, self._T), self._T, given)
        self._take_anchor(consistent_posterior(eta, self._T, given, kept.item()))

    def _take_anchor(self, posterior: Tensor) -> None:
        """As unsure as the labels are noisy: the noise rate's share spread over all classes."""
        share = (self._rate * self._k / (self._k - 1)).clamp_max(0.95)
        self._anchor.take((1 - share) * posterior + share / self._k)

    def state(self) -> dict[str, Tensor]:
        own = {"burn_in": torch.tensor(self._m), "rate": self._rate, "T": self._T}
        own["guard"] = torch.tensor(self._guard.closed)
        return own | self._anchor.state() | self._mean.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._m, self._rate, self._T = int(state["burn_in"]), state["rate"], state["T"]
        self._guard.closed = bool(state["guard"])
        self._anchor.load_state(state)
        self._mean.load_state(state)

"""The rule that a person's answers choose.

One score orders the rows before anybody is asked: the log odds of the best other class against the
given one, under the reading that the data support. A few thresholds on it, settled with it, make a
family of rules, each of which changes the rows above its threshold; "change nothing" is one of
them. Only the reading by class may change a label that is the model's first choice. The answers
choose:

1. P(the other class is right rather than the given one) = sigmoid(shift + slope * score), fitted to
   the answers with a prior that states what is believed without them (maximum a posteriori).
2. The member of the family with the largest expected gain in right labels is taken.
3. It has to stand the answers themselves: among those it would change, gains must exceed losses,
   by `DOUBT` standard errors where the data alone showed no wrong labels. Else nothing is changed.

Because the family is settled beforehand, limits for what is applied need only a union bound over
its members (:mod:`adacorr.core.certify`), although the same answers chose it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers
from adacorr.core.auto import AutoRule, Ground
from adacorr.core.certify import Certificate, Tally, certify
from adacorr.core.lrt import Decision, decided
from adacorr.core.meter import Array, Line, best_other, sigmoid

MEMBERS = 12  # thresholds of the family, at quantiles of the score
DOUBT = 1.28  # standard errors: one in ten
_CHUNK_ELEMENTS = 1 << 18
_TINY = 1e-9


@dataclass(frozen=True)
class Prior:
    """Normal belief in shift and slope before the first answer."""

    mean: Array
    spread: Array

    @classmethod
    def of(cls, rule: AutoRule, order: Ground) -> Prior:
        """Firm where the data have shown wrong labels, and careful where they have not."""
        if order is Ground.CLASSES:  # the score is a log posterior ratio already
            return cls(np.array([0.0, 1.0]), np.array([1.0, 0.5]))
        if order is Ground.DIFFICULTY:
            assert rule.meter.line is not None
            line = rule.meter.line
            return cls(np.array([line.shift, line.slope]), np.array([1.5, 0.5]))
        return cls(np.array([-1.0, 0.7]), np.array([3.0, 0.5]))


@dataclass(frozen=True)
class InformedRule:
    """A member of the family, chosen by answers, applied row by row.

    Attributes
    ----------
    base : the rule without answers.
    order : the reading that gives the score.
    line : P(the other class is right rather than the given one), by the score.
    threshold : rows whose score is above it are changed; infinity changes nothing.
    family_size : among how many rules, settled beforehand, the answers chose.
    agreed_size : how many of them differ where the given label is the model's first choice.
    applied : with `max_flip_error`, changes up to this score are withheld; a member of the family
        too, or the limits would not hold for what is applied. None: nothing is withheld.
    """

    base: AutoRule
    order: Ground
    line: Line
    threshold: float
    family_size: int
    agreed_size: int
    summary: dict[str, Any]
    applied: float | None = None

    @property
    def T(self) -> Array | None:
        return self.base.T

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision:
        """Suggest the best other class where the score is above the threshold."""
        n = len(labels)
        other, score = np.empty(n, np.int64), np.empty(n)
        step = max(1, _CHUNK_ELEMENTS // pred_probs.shape[1])
        for start in range(0, n, step):
            part = slice(start, start + step)
            other[part], score[part] = score_rows(
                self.base, self.order, labels[part], pred_probs[part]
            )
        right = self.line(score)
        withheld = None if self.applied is None else score <= self.applied
        may = _open_to_change(self.order, labels, pred_probs, score)
        flipped = may & (score > self.threshold)
        decision = decided(labels, other, flipped, 1 - right, right, right, withheld)
        # Rows that are kept have the ratio by which the rule orders them: they differ in doubt.
        ratio = np.where(flipped, decision.ratio, np.exp(-np.maximum(score, 0)))
        return replace(decision, ratio=ratio)


def proved(rule: Any, tally: Tally) -> Certificate:
    """What the answers prove of this rule, which they may have chosen."""
    if isinstance(rule, InformedRule):
        return certify(tally, family_size=rule.family_size, agreed_size=rule.agreed_size)
    return certify(tally)


def _open_to_change(
    order: Ground, labels: NDArray[np.int64], f: NDArray[np.floating], score: Array
) -> NDArray[np.bool_]:
    """Rows that some member of the family of this order may change."""
    disputed = f.argmax(axis=1) != labels
    return disputed | (score > 0) if order is Ground.CLASSES else disputed


def score_rows(
    rule: AutoRule, order: Ground, labels: NDArray[np.int64], f: NDArray[np.floating]
) -> tuple[NDArray[np.int64], Array]:
    """The best other class of each row, and its log odds against the given one.

    Under noise by class the odds are those of the fitted posterior; under noise by difficulty those
    of the model, which the meter reads; while two readings are open the mean of the model's and of
    its calibrated form.
    """
    rows = np.arange(len(labels))
    if order is Ground.CLASSES:
        posterior = rule.by_class.posterior(labels, f)
        own = posterior[rows, labels]
        posterior[rows, labels] = -1
        other = posterior.argmax(axis=1)
        best = posterior[rows, other]
        return other, np.log(np.maximum(best, _TINY)) - np.log(np.maximum(own, _TINY))
    other, odds = best_other(labels, f)
    if order is Ground.DIFFICULTY:
        return other, odds
    eta = rule.by_class.clean(f)
    calibrated = np.log(np.maximum(eta[other, rows], _TINY))
    calibrated -= np.log(np.maximum(eta[labels, rows], _TINY))
    return other, (odds + calibrated) / 2


@dataclass(frozen=True)
class Answered:
    """The rows that people answered: given labels, probabilities, and the true classes (-1: none).

    Only answers that name a class teach anything about the rule.
    """

    labels: NDArray[np.int64]
    pred_probs: NDArray[np.floating]
    truth: NDArray[np.int64]

    @classmethod
    def of(cls, labels: NDArray[np.int64], f: NDArray[np.floating], answers: Answers) -> Answered:
        """The answered rows of whole arrays."""
        return cls(labels[answers.rows], f[answers.rows], answers.codes)


def inform(
    base: AutoRule,
    labels: NDArray[np.int64],
    f: NDArray[np.floating],
    answered: Answered,
) -> InformedRule:
    """Choose a member of the family by answers.

    Parameters
    ----------
    base : the rule fitted without answers.
    labels, f : the sample of rows that `base` was fitted to; the family comes from it.
    answered : what people said.
    """
    orders = [base.ground]
    if base.ground is Ground.CLASSES:  # a matrix fits badly where labels err in another way
        orders.append(Ground.OPEN)
    elif base.ground is Ground.OPEN and base.by_class.active:  # fitted, but not borne out by rows
        orders.append(Ground.CLASSES)
    choices = [_choose(base, order, labels, f, answered) for order in orders]
    best = choices[0]
    for other in choices[1:]:
        ahead = other.gained - best.gained
        if ahead.sum() > DOUBT * np.sqrt((ahead**2).sum()):
            best = other
    sizes = {choice.order: len(choice.family) for choice in choices}
    agreed = 1 + sizes.get(Ground.CLASSES, 0)
    answers = int((answered.truth >= 0).sum())
    summary = _summary(base, best, answers)
    beyond = best.family[best.family >= best.threshold]
    applied = _sure_enough(best.line, beyond, base.max_flip_error)
    return InformedRule(
        base,
        best.order,
        best.line,
        best.threshold,
        1 + sum(sizes.values()),
        agreed,
        summary,
        applied,
    )


@dataclass(frozen=True)
class Choice:
    """The best member of the family of one order.

    Attributes
    ----------
    order, line, threshold : as in the rule.
    family : the thresholds of this order.
    gained : what the change would gain (1), lose (-1) or leave (0) in each answered row.
    changes, rate : shares of the rows that are changed, and that are wrong.
    """

    order: Ground
    line: Line
    threshold: float
    family: Array
    gained: NDArray[np.int64]
    changes: float
    rate: float


def _choose(
    base: AutoRule,
    order: Ground,
    labels: NDArray[np.int64],
    f: NDArray[np.floating],
    answered: Answered,
) -> Choice:
    _, scores = score_rows(base, order, labels, f)
    may = _open_to_change(order, labels, f, scores)
    family = _family(scores[may])
    given, probs = answered.labels, answered.pred_probs
    other, score = score_rows(base, order, given, probs)
    gain = (answered.truth == other).astype(int) - (answered.truth == answered.labels)
    line = fit_line(score[gain != 0], gain[gain != 0] > 0, Prior.of(base, order))
    threshold = _largest_gain(line, scores[may], family)
    known = (answered.truth >= 0) & _open_to_change(order, given, probs, score)
    if not _stands(
        gain[known & (score > threshold)], shown=order is base.ground is not Ground.OPEN
    ):
        threshold = np.inf
    gained = np.where(known & (score > threshold), gain, 0)
    changes = float((may & (scores > threshold)).mean())
    return Choice(order, line, threshold, family, gained, changes, float(line(scores).mean()))


def _sure_enough(line: Line, family: Array, max_flip_error: float | None) -> float | None:
    """The first threshold above which every change is surer than asked for; infinity if none is.

    >>> _sure_enough(Line(0.0, 1.0), np.array([0.0, 1.0, 2.0, 3.0]), 0.2)
    2.0
    """
    if max_flip_error is None:
        return None
    sure = family[1 - line(family) < max_flip_error]
    return float(sure.min()) if len(sure) and line.slope > 0 else np.inf


def _family(scores: Array) -> Array:
    """Thresholds at quantiles of the scores of disputed rows, and at even odds."""
    if not len(scores):
        return np.zeros(1)
    quantiles = np.quantile(scores, np.arange(MEMBERS) / MEMBERS)
    quantiles[0] = np.nextafter(quantiles[0], -np.inf)  # the first member changes all of them
    return np.unique(np.append(quantiles, 0.0))


def fit_line(score: Array, other_right: NDArray[np.bool_], prior: Prior) -> Line:
    """Shift and slope, maximum a posteriori, by Newton's method.

    >>> none = np.zeros(0)
    >>> fit_line(none, none > 0, Prior(np.array([-1.0, 0.7]), np.ones(2)))
    Line(shift=-1.0, slope=0.7)
    """
    theta, precision = prior.mean.copy(), np.diag(prior.spread**-2.0)
    X = np.column_stack([np.ones(len(score)), score])
    for _ in range(50):
        p = sigmoid(X @ theta)
        gradient = X.T @ (other_right - p) - precision @ (theta - prior.mean)
        curvature = (X * (p * (1 - p))[:, None]).T @ X + precision
        step = np.clip(np.linalg.solve(curvature, gradient), -2, 2)
        theta = theta + step
        if np.abs(step).max() < 1e-9:
            break
    return Line(float(theta[0]), float(theta[1]))


def _largest_gain(line: Line, scores: Array, family: Array) -> float:
    """The threshold above which most is gained; infinity where every one loses."""
    if not len(scores):
        return np.inf
    order = np.sort(scores)[::-1]
    gains = np.concatenate([[0.0], np.cumsum(2 * line(order) - 1)])
    total = gains[np.searchsorted(-order, -family, side="left")]
    best = int(total.argmax())
    return float(family[best]) if total[best] > 0 else np.inf


def _stands(gain: NDArray[np.int64], *, shown: bool) -> bool:
    """Whether the answers bear out the changes that they are about."""
    if not len(gain):
        return shown
    if shown:
        return bool(gain.mean() > 0) or len(gain) < 3
    spread = np.sqrt((gain.var() * len(gain) + 1) / (len(gain) + 1) / len(gain))  # one more doubt
    return bool(gain.mean() > DOUBT * spread)


def _summary(base: AutoRule, choice: Choice, answers: int) -> dict[str, Any]:
    if np.isfinite(choice.threshold):
        note = f"chosen by {answers} answers: {choice.changes:.1%} of the labels are changed"
    else:
        note = f"{answers} answers speak against changing labels: nothing is changed"
    return {**base.summary, "noise_rate": choice.rate, "note": note, "answers": answers}

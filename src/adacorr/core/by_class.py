"""Noise by class: P(true | x, given label) where P(given | true) is one matrix for all rows.

With eta the clean posterior P(true | x) and ``T[i, j] = P(given = j | true = i)``, a row's
posterior ``P(true = j | x, given = g)`` is proportional to ``eta_j T[j, g]``; its largest entry is
the suggestion. In the language of Zheng et al. (2020) this is a likelihood ratio test on eta with
one threshold per pair, ``delta[m, g] = T[m, g] / T[g, g]``. Both are fitted to the given labels
alone (:mod:`adacorr.core.calibration`), in these steps:

1. T from the given labels of the more confident half of each predicted class.
2. Scale, then full map and T jointly, for three strengths of the ridge; the one with the highest
   likelihood on held-out rows stays, so the map is as flexible as the data carry.
3. T is shrunk: rates of rows to their mean, targets of a row to the uniform one, each as far as
   its spread is what chance alone would give (empirical Bayes by moments).
4. A temperature is fitted to the held-out logits, so that confidence is not inflated.
5. No calibration can tell a confident mistake of the model from a wrong label. A share of the
   model's own expected errors is taken to be confident (`CONFIDENT_SHARE`), and competes with the
   noise for every confident disagreement. Where it explains as much, nothing is changed.
6. The model may have learnt the noise itself. T as the most confident rows show it is then the
   first belief, and f is freed of it; the likelihood of held-out rows decides (:func:`_anchored`).
7. Noise of one class beyond that of the least noisy one may be mistakes of the model in that class
   (a linear model has them); as far as they can explain it, they do (:func:`_split`).
8. With two classes both have one rate of noise, unless two rates explain the held-out labels
   clearly better (:func:`_pooled`).
9. A reading that calls next to all labels of a class wrong, one too large to be noise, says more
   about the model than about the labels; nothing is changed (:func:`_judge`).

docs/auto-rule.md has the measurements, failures included.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.calibration import (
    Array,
    Fit,
    golden_section,
    log_features,
    log_likelihood,
    maximise,
    posterior,
    softmax,
)
from adacorr.core.lrt import Decision, decided
from adacorr.core.meter import log_odds, sigmoid
from adacorr.core.noise import uniform
from adacorr.core.sampling import priority, sample_rows

CONFIDENT_SHARE = 0.05  # of a model's errors, made with full confidence: a prior, see the docs
RIDGES = (300.0, 10.0)
MAX_FULL_CLASSES = 32  # above, a full map costs more than the rest of the rule together
MAX_RIVAL_CLASSES = 20  # above, a full map of the rival costs a quarter of the call
MAX_MATRIX_CLASSES = 128  # above, the noise is one rate with uniform targets
ANCHOR_SHARE = 0.1  # the most confident rows of a class, which the anchor assumption rests on
ANCHOR_EXCESS = 0.04  # noise that they must show beyond the fitted one to win a draw
LEARNT = 0.9  # of that noise is taken out of f; all of it would make every row look certain
GONE = 0.1  # of a class's given labels: if less is left of it, the model does not know it
STRAY = 0.5  # of all labels: so many wrong ones, spread evenly, are what a class may be made of
EXCESS_SHARE = 0.5  # of a class's model errors may be confident, where its noise stands out
UNMIX_FLOOR = 1e-3
COARSE = 0.5  # of the rows must differ in their predictions for the surest ones to show noise
KNOWN_ROWS = 20  # labels that a class must have in the sample before it can be called unknown
MIN_ROWS = 50
TRUST = 0.05  # of the rows, as pseudo-counts that say "the given label is right" (or a belief)
_FIT_ELEMENTS = 60_000  # more rows change the result by less than 0.1 points of right labels
_FIT_ROWS = (1_500, 3_000)  # at least, at most
_JUDGE_ELEMENTS = 400_000
_JUDGE_ROWS = (1_500, 20_000)
_STEPS = 40  # of L-BFGS; more change nothing that the ridge lets through
_CHUNK_ELEMENTS = 1 << 16


class Verdict(Enum):
    """What a fit says about the labels; the value is the sentence that people read."""

    FEW = "too few rows to tell wrong labels from a wrong model: nothing is changed"
    BLIND = "the model does not predict the given labels better than guessing: nothing is changed"
    WEAK = "the model is too weak to tell wrong labels from its own errors: nothing is changed"
    TRUST = "the labels look better than the model: nothing is changed"
    NOISE = "about {:.1%} of the labels look wrong"

    @property
    def blind(self) -> bool:
        """No number of the fit is worth telling."""
        return self in (Verdict.FEW, Verdict.BLIND, Verdict.WEAK)


@dataclass(frozen=True)
class Unmix:
    """Frees a model from the noise it has learnt: ``softmax(scale log f + bias) @ inverse``."""

    scale: Array
    bias: Array
    inverse: Array

    def apply(self, features: Array) -> Array:
        """(K, N) log features of f -> those of the unmixed f, negative parts cut off."""
        noisy = softmax(self.scale * features + self.bias[:, None])
        return log_features(np.maximum(combine(self.inverse, noisy), UNMIX_FLOOR).T)


def combine(weight: Array, features: Array) -> Array:
    """``weight.T @ features`` as sums in a fixed order: a matrix product may round differently
    when the number of rows changes."""
    out = np.zeros_like(features)
    for row, weights in zip(features, weight, strict=True):
        out += weights[:, None] * row
    return out


@dataclass(frozen=True)
class ClassNoiseRule:
    """Noise by class, fitted; it is applied row by row.

    Attributes
    ----------
    T : (K, K), ``T[i, j] = P(given = j | true = i)``.
    weight, bias : eta = softmax(weight.T @ log f + bias); a number or (K, K), and (K,).
    model_error : how often the model is taken to be confidently wrong; a number, or (K,) by the
        predicted class.
    unmix : removes the noise from f first, where f itself is saturated by it.
    active : False where the fit gives no ground for any change; every label is then kept.
    max_flip_error : flips whose probability of being wrong reaches this are withheld for review.
    summary : plain values that describe the fit.
    blind : the fit says nothing about the labels at all; every confidence is then NaN.
    shift : of the log odds that rank the rows, see `_suspicion`.
    evidence : standard errors by which held-out labels are likelier with noise than without.
    """

    T: Array
    weight: Array
    bias: Array
    model_error: float | Array = 0.0
    unmix: Unmix | None = None
    active: bool = True
    max_flip_error: float | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    blind: bool = False
    shift: float = 0.0
    evidence: float = np.inf

    def posterior(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Array:
        """(N, K): P(true = j | x, given label)."""
        return self._posterior(labels, pred_probs).T

    def clean(self, pred_probs: NDArray[np.floating]) -> Array:
        """(K, N): P(true = j | x), the calibrated model freed of the noise."""
        if len(pred_probs) == 1:  # numpy sums a single column in another order than many
            return self.clean(pred_probs.repeat(2, axis=0))[:, :1]
        features = log_features(pred_probs)
        if self.unmix is not None:
            features = self.unmix.apply(features)
        logits = combine(self.weight, features) if self.weight.ndim else self.weight * features
        return softmax(logits + self.bias[:, None])

    def own(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Array:
        """(N,) P(true = given | x), of the calibrated model freed of the noise."""
        return self.clean(pred_probs)[labels, np.arange(len(labels))]

    def doubt(self, pred_probs: NDArray[np.floating]) -> float:
        """How often that model is wrong, by its own account."""
        return float(1 - self.clean(pred_probs).max(axis=0).mean())

    def _posterior(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Array:
        return self._given(labels, self.clean(pred_probs))

    def _given(self, labels: NDArray[np.int64], eta: Array) -> Array:
        """(K, N): P(true = j | x, given label) from eta, which is used up."""
        if len(labels) == 1:  # as in `clean`
            return self._given(labels.repeat(2), eta.repeat(2, axis=1))[:, :1]
        if np.any(self.model_error):
            top = eta.argmax(axis=0)
            error = np.broadcast_to(self.model_error, len(self.T))
            eta *= (1 - error)[top]
            eta += self._mistaken.take(top, axis=1)
        return posterior(eta, self.T, labels)[0]

    @cached_property
    def _mistaken(self) -> Array:
        """(K, K) P(the model says j, is confidently wrong, and i is true)."""
        error = np.broadcast_to(self.model_error, len(self.T))
        return np.ascontiguousarray((error[:, None] * _flip_targets(self.T)).T)

    def decide(self, labels: NDArray[np.int64], pred_probs: NDArray[np.floating]) -> Decision:
        """Suggest the most probable true label; the ratio is P(given) / P(suggested)."""
        n, k = pred_probs.shape
        own, best, even = np.empty(n), np.empty(n), np.empty(n)
        other = np.empty(n, np.int64)
        step = max(1, _CHUNK_ELEMENTS // k)
        for start in range(0, n, step):
            part = slice(start, start + step)
            y, rows = labels[part], np.arange(len(labels[part]))
            eta = self.clean(pred_probs[part])
            even[part] = 1 - eta[y, rows]
            p = self._given(y, eta)
            own[part] = p[y, rows]
            p[y, rows] = -1
            other[part] = p.argmax(axis=0)
            best[part] = p[other[part], rows]
        flipped = (best > own) & self.active
        wrong = self._suspicion(own, even, flipped)
        if self.blind:
            own[:] = best[:] = np.nan
        withheld = None if self.max_flip_error is None else 1 - best >= self.max_flip_error
        return decided(labels, other, flipped, own, best, wrong, withheld)

    def _suspicion(self, own: Array, even: Array, flipped: NDArray[np.bool_]) -> Array:
        """P(given is wrong), for a ranking: between the fitted targets of noise and any targets.

        T rests on few rows and is trusted half: the log odds under T and under "as likely any
        class" are averaged, and shifted so that they add up to the noise rate. A change stays more
        likely wrong than not, what is kept does not.
        """
        wrong = sigmoid(self.shift + (log_odds(1 - own) + log_odds(even)) / 2)
        return np.where(flipped, np.maximum(wrong, 0.5), np.minimum(wrong, 0.5))


def _flip_targets(T: Array) -> Array:
    """T given that the label is wrong: off-diagonal rows that sum to one."""
    off = T * (1 - np.eye(len(T)))
    total = off.sum(axis=1, keepdims=True)
    even = (1 - np.eye(len(T))) / (len(T) - 1)
    return np.divide(off, total, out=even, where=total > 0)


def fit_by_class(
    labels: NDArray[np.int64],
    pred_probs: NDArray[np.floating],
    T: Array | None = None,
    max_flip_error: float | None = None,
) -> ClassNoiseRule:
    """Fit the noise model to the given labels; `T` is estimated unless it is given."""
    k, given, probs = pred_probs.shape[1], labels, pred_probs
    rows = sample_rows(len(labels), int(np.clip(_FIT_ELEMENTS // k, *_FIT_ROWS)))
    labels, features = given[rows], log_features(probs[rows])
    if T is None and k > MAX_MATRIX_CLASSES:
        rule, eta = _fit_rule(labels, features, _one_rate(labels, features))
    else:
        rule, eta = _fit_rule(labels, features, T)
        if T is None:
            rule, eta = _anchored(labels, features, rule, eta)
            rule, eta = _pooled(labels, features, rule, eta)
    rule = replace(rule, max_flip_error=max_flip_error)
    fitted_eta = eta
    more = sample_rows(len(given), int(np.clip(_JUDGE_ELEMENTS // k, *_JUDGE_ROWS)))
    if len(more) > 2 * len(rows):  # judged by rows that it was hardly fitted to: rare classes count
        rows, eta = more, rule.clean(probs[more])
    rule = _judge(rule, given[rows], probs[rows], eta, known=T is not None)
    if T is not None or not rule.active:
        return rule
    return replace(rule, evidence=_evidence(labels, features, rule, fitted_eta))


def _evidence(
    labels: NDArray[np.int64], features: Array, rule: ClassNoiseRule, eta: Array
) -> float:
    """By how many standard errors noise explains held-out labels better than none.

    The rival maps the model to the labels as well, and knows of no wrong ones: each row is as
    undecided as it says. With many classes it keeps the rule's own bias, and only its scale is new.
    """
    no_noise = np.eye(len(features))
    if len(features) > MAX_RIVAL_CLASSES:
        bias = rule.bias[:, None]

        def score(log_scale: float) -> float:
            return log_likelihood(softmax(np.exp(log_scale) * features + bias), no_noise, labels)

        plain = softmax(np.exp(golden_section(score, -3.0, 1.0, 0.05)) * features + bias)
    else:
        _, held_out = _fit_map(labels, features, no_noise, None, RIDGES[1:])
        plain = softmax(_temperature(labels, held_out, no_noise) * held_out)
    with_noise, without = posterior(eta, rule.T, labels)[1], posterior(plain, no_noise, labels)[1]
    return standard_errors(np.log(with_noise) - np.log(without))


def standard_errors(gain: Array) -> float:
    """Of the mean of these numbers, above zero."""
    return float(gain.sum() / max(gain.std() * np.sqrt(len(gain)), 1e-12))


def _fit_rule(
    labels: NDArray[np.int64], features: Array, T: Array | None, belief: Array | None = None
) -> tuple[ClassNoiseRule, Array]:
    """The rule, and the held-out clean posterior (K, N) of the rows it was fitted to.

    T is fixed if given; else `belief`, by default "no noise", counts as `TRUST` of the rows.
    """
    k, n = features.shape
    prior = None if T is not None else TRUST * n / k * (np.eye(k) if belief is None else belief)
    if T is not None:
        guess = T
    elif belief is not None:
        guess = belief
    else:
        guess = _confident_counts(labels, features, 0.5) + np.eye(k) + 0.1 / k
        guess /= guess.sum(axis=1, keepdims=True)
    fit, held_out = _fit_map(labels, features, guess, prior)
    matrix = fit.T if T is not None else _shrink(labels, held_out, fit.T, belief)
    sharpness = _temperature(labels, held_out, matrix)
    eta = softmax(sharpness * held_out)
    model_error = np.full(len(matrix), CONFIDENT_SHARE * float(1 - eta.max(axis=0).mean()))
    return ClassNoiseRule(matrix, sharpness * fit.weight, sharpness * fit.bias, model_error), eta


def _pooled(
    labels: NDArray[np.int64], features: Array, rule: ClassNoiseRule, eta: Array
) -> tuple[ClassNoiseRule, Array]:
    """:func:`_split`, and for two classes one rate of noise unless two rates are clearly likelier.

    With two classes a difference of the rates trades off against the bias of the map: at high noise
    it is hardly identified, and a false one moves whole classes. As one parameter more, it has to
    gain ``log(N) / 2`` nats on held-out rows (BIC).
    """
    split = _split(rule, eta)
    if len(features) > 2:
        return split, eta
    if rule.unmix is not None:
        features = rule.unmix.apply(features)
    rate = float(eta.mean(axis=1) @ (1 - np.diag(split.T)))
    even, even_eta = _fit_rule(labels, features, uniform(2, rate))
    gain = log_likelihood(eta, rule.T, labels) - log_likelihood(even_eta, even.T, labels)
    if gain > np.log(len(labels)) / 2:
        return split, eta
    return replace(even, unmix=rule.unmix, model_error=split.model_error), even_eta


def _split(rule: ClassNoiseRule, eta: Array) -> ClassNoiseRule:
    """Read noise of a class beyond the least noisy one as confident mistakes of the model.

    Only up to `EXCESS_SHARE` of the errors expected where it predicts that class, and beyond what
    chance explains: the smallest of K estimates lies about ``sqrt(2 log K)`` deviations too low,
    a label of noise rate r weighs ``(1 - r K / (K - 1)) ** 2`` of a clean one, and T of an anchored
    rule of more than two classes rests on the most confident rows alone.
    """
    k = len(rule.T)
    predicted, rate = eta.argmax(axis=0), 1 - np.diag(rule.T)
    size = np.bincount(predicted, minlength=k)
    doubt = np.bincount(predicted, 1 - eta.max(axis=0), minlength=k) / np.maximum(size, 1)
    behind = ANCHOR_SHARE * size if rule.unmix is not None and k > 2 else size
    rows = np.maximum(behind * (1 - rate * k / (k - 1)) ** 2, 1e-9)
    least = (rate + np.sqrt(2 * np.log(k) * (rate * rows + 1)) / rows).min()
    excess = np.clip(rate - least, 0, EXCESS_SHARE * doubt)
    T = rule.T + excess[:, None] * (np.eye(k) - _flip_targets(rule.T))
    return replace(rule, T=T, model_error=rule.model_error + excess)


def _anchored(
    labels: NDArray[np.int64], features: Array, rule: ClassNoiseRule, eta: Array
) -> tuple[ClassNoiseRule, Array]:
    """Another explanation, where it is the likelier one: the model has learnt the noise.

    A model that has learnt the noise perfectly, f = eta @ T, also fits with T = I: "every row is
    ambiguous". Then nothing but the usual anchor assumption decides (each class has rows that
    belong to it for sure): T is read off the most confident rows, and f is freed of it. This
    reading is taken when the first one denies noise that those rows show, and it explains the
    held-out labels no worse.

    With two classes the likelihood is flat between the two readings: there is no second best class
    whose pattern would tell. So they are always compared, most of the noise is taken out of f, and
    what the confident rows show is only the belief that T starts from.
    """
    k = len(features)
    if _coarse(features):
        return rule, eta
    plain = maximise(labels, features, np.eye(k), prior=None, ridge=None, steps=_STEPS)
    counts = _confident_counts(labels, plain.logits(features), ANCHOR_SHARE)
    anchors = shrunk_transition(counts, trust=0.0)
    denied = eta.mean(axis=1) @ (np.diag(rule.T) - np.diag(anchors)) >= ANCHOR_EXCESS
    if k > 2 and not denied:
        return rule, eta
    learnt = anchors if k > 2 else (1 - LEARNT) * np.eye(k) + LEARNT * anchors
    unmix = Unmix(plain.weight, plain.bias, np.linalg.pinv(learnt).astype(np.float64))
    known, belief = (anchors, None) if k > 2 else (None, anchors)
    other, other_eta = _fit_rule(labels, unmix.apply(features), known, belief)
    gain = np.log(posterior(other_eta, other.T, labels)[1])
    gain -= np.log(posterior(eta, rule.T, labels)[1])
    slack = 2 * gain.std() * np.sqrt(len(gain)) if denied else 0.0
    if gain.sum() < -slack:
        return rule, eta
    return replace(other, unmix=unmix), other_eta


def _coarse(features: Array) -> bool:
    """Whether many rows share one prediction: the model cannot tell them apart.

    Confidence that stops growing is what noise makes of a good model; but a model that sees too
    little of each row (one word of a mail) stops growing too, because rows look the same to it.
    """
    different = len(np.unique(features.max(axis=0)))  # rows with one maximum share their prediction
    return different < COARSE * features.shape[1]


def _judge(
    rule: ClassNoiseRule,
    labels: NDArray[np.int64],
    pred_probs: NDArray[np.floating],
    eta: Array,
    *,
    known: bool,
) -> ClassNoiseRule:
    """Decide whether the fit is ground for changes at all, and say so in words.

    A class that does not exist gets at most ``STRAY / (K - 1)`` of the labels by even noise. If it
    has more and the fit leaves next to none of them, the model does not know that class.
    """
    n, k = pred_probs.shape
    rows = np.arange(n)
    clean = rule.clean(pred_probs)
    even = 1 - clean[labels, rows]
    wrong = 1 - rule._given(labels, clean)[labels, rows]
    rate = float(wrong.mean())
    shift = _shift_to((log_odds(wrong) + log_odds(even)) / 2, rate)
    share = np.bincount(labels, minlength=k) / n
    guessing = float((n * share * np.log(np.maximum(share, 1e-300))).sum())
    gone = (eta.mean(axis=1) < GONE * share) & (share > STRAY / (k - 1)) & (n * share >= KNOWN_ROWS)
    if not known and n < MIN_ROWS:
        verdict = Verdict.FEW
    elif not known and log_likelihood(eta, rule.T, labels) <= guessing + k:
        verdict = Verdict.BLIND
    elif not known and gone.any():
        verdict = Verdict.WEAK
    elif not known and eta.mean(axis=1) @ (1 - np.diag(rule.T) - 2 * rule.model_error) <= 0:
        verdict = Verdict.TRUST
    else:
        verdict = Verdict.NOISE
    noise_rate = None if verdict.blind else rate
    summary = {"rule": "auto", "noise_rate": noise_rate, "note": verdict.value.format(rate)}
    active = verdict is Verdict.NOISE
    return replace(rule, active=active, blind=verdict.blind, summary=summary, shift=shift)


def _shift_to(odds: Array, rate: float) -> float:
    """The number that, added to log odds, makes their probabilities average to `rate`.

    >>> round(_shift_to(np.zeros(3), 0.5), 3)
    0.0
    """
    low, high = -30.0, 30.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if sigmoid(odds + middle).mean() > rate else (middle, high)
    return (low + high) / 2


def _fit_map(
    labels: NDArray[np.int64],
    features: Array,
    guess: Array,
    counts: Array | None,
    ridges: tuple[float, ...] = RIDGES,
) -> tuple[Fit, Array]:
    """The map, as flexible as held-out rows allow, and its held-out logits (K, N)."""
    k, n = features.shape
    prior = None if counts is None else counts + 0.02
    first = maximise(labels, features, guess, prior=prior, ridge=None, steps=_STEPS)
    scale = max(float(first.weight), 0.05)
    scaled = scale * features
    fold = (priority(np.arange(n)) >> np.uint64(7)) & np.uint64(1)  # shares no stream with a user
    best: tuple[float, Fit, Array] | None = None
    for ridge in ridges if k <= MAX_FULL_CLASSES else (None,):
        fit = maximise(labels, scaled, guess, prior=prior, ridge=ridge, steps=_STEPS)
        held_out = _held_out(labels, scaled, fit, ridge, fold)
        score = log_likelihood(softmax(held_out), fit.T, labels)
        if best is None or score > best[0]:
            best = score, fit, held_out
    assert best is not None
    _, fit, held_out = best
    return replace(fit, weight=scale * fit.weight), held_out


def _held_out(
    labels: NDArray[np.int64], features: Array, fit: Fit, ridge: float | None, fold: NDArray
) -> Array:
    """Logits of each half under the map refitted to the other half, T fixed."""
    logits = np.empty_like(features)
    for side in (0, 1):
        rest, here = fold != side, fold == side
        if rest.any() and here.any():
            half = None if ridge is None else ridge / 2
            refit = maximise(
                labels[rest],
                features[:, rest],
                fit.T,
                prior=None,
                ridge=half,
                start=fit,
                steps=_STEPS,
            )
        else:
            refit = fit
        logits[:, here] = refit.logits(features[:, here])
    return logits


def _one_rate(labels: NDArray[np.int64], features: Array) -> Array:
    """Uniform T for many classes, where rows are too few for a matrix; a few turns of EM."""
    k, n = features.shape
    counts = _confident_counts(labels, features, 0.5)
    rate = 1 - (np.trace(counts) + 1) / (counts.sum() + 1.1)
    fit = None
    for _ in range(4):
        T = uniform(k, rate)
        fit = maximise(labels, features, T, prior=None, ridge=None, start=fit, steps=15)
        post, _ = posterior(softmax(fit.logits(features)), T, labels)
        rate = float(1 - post[labels, np.arange(n)].mean())
    return uniform(k, rate)


def _confident_counts(labels: NDArray[np.int64], logits: Array, share: float) -> Array:
    """(K, K) given labels of the most confident `share` of each predicted class."""
    k = len(logits)
    predicted, top = logits.argmax(axis=0), softmax(logits).max(axis=0)
    counts = np.zeros((k, k))
    for c in np.unique(predicted):
        rows = predicted == c
        sure = rows & (top >= np.quantile(top[rows], 1 - share))
        counts[c] += np.bincount(labels[sure], minlength=k)
    return counts


def _shrink(labels: NDArray[np.int64], held_out: Array, T: Array, belief: Array | None) -> Array:
    """T from the expected counts of the held-out posterior, shrunk; a few turns settle it."""
    k, n = held_out.shape
    one_hot = np.zeros((n, k))
    one_hot[np.arange(n), labels] = 1.0
    eta = softmax(held_out)
    for _ in range(3):
        counts = posterior(eta, T, labels)[0] @ one_hot
        if belief is None:
            T = shrunk_transition(counts)
        else:
            T = shrunk_transition(counts + TRUST * n / k * belief, trust=0.0)
    return T


def shrunk_transition(counts: Array, trust: float = TRUST) -> Array:
    """Row-stochastic T from (K, K) expected counts [true, given], by empirical Bayes.

    Row rates are shrunk to the common rate and each row's targets to the uniform distribution. The
    strength comes from moments: a spread no larger than a binomial (multinomial) one shrinks
    almost fully, as for uniform noise; a much larger one hardly, as for pair noise. `trust` adds
    that share of the rows as right labels.
    """
    k = len(counts)
    apart = 1 - np.eye(k)
    size, off = counts.sum(axis=1), counts * apart
    wrong = off.sum(axis=1)
    common = wrong.sum() / max(size.sum(), 1e-9)
    spread = ((wrong - size * common) ** 2 / np.maximum(size * common * (1 - common), 1e-9)).sum()
    strength = size.mean() / max(spread / (k - 1) - 1, 1.0)
    rate = (wrong + strength * common) / (size + strength + trust * size.mean() + 1e-9)
    targets = off + 0.02 * apart
    if k > 2:
        expected = np.maximum(wrong[:, None] / (k - 1), 1e-9)
        excess = ((off - expected * apart) ** 2 / expected).sum() / (k * (k - 2)) - 1
        targets += apart * wrong.mean() / max(excess, 0.01) / (k - 1)
    targets /= targets.sum(axis=1, keepdims=True)
    return targets * rate[:, None] + np.diag(1 - rate)


def _temperature(labels: NDArray[np.int64], held_out: Array, T: Array) -> float:
    """The sharpness that makes the held-out logits most likely."""

    def score(log_scale: float) -> float:
        return log_likelihood(softmax(np.exp(log_scale) * held_out), T, labels)

    return float(np.exp(golden_section(score, -1.0, 0.5, 0.01)))

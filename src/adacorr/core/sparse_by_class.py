"""Noise by class for top-k probabilities of many classes, in O(N k) time and memory.

The model of :mod:`adacorr.core.by_class` with fewer parameters, because 20,000 classes have too
few rows each for more: eta is proportional to ``f ** scale``, a label is wrong with one ``rate``,
and it then becomes class g with probability ``Q[true, g]``. Q is uniform but for the confusions
that the data show: ``Q[j, g] = (max(n_jg - 1, 0) + ...) / (n_j + strength)``, where n counts the
expected flips from j to g. The first sighting of a pair is discounted (it would explain itself),
and `strength` is the one with the highest likelihood on held-out rows, infinite (uniform noise)
included. Only pairs seen are stored.

As in the dense rule a share of the model's own errors is taken to be confident, and a model that
has learnt the noise is freed of it if its most confident rows show clearly more noise than the
fit. Suggestions are always among the listed classes and the given one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.by_class import (
    ANCHOR_EXCESS,
    ANCHOR_SHARE,
    CONFIDENT_SHARE,
    MIN_ROWS,
    Verdict,
    standard_errors,
)
from adacorr.core.calibration import FLOOR, golden_section
from adacorr.core.lrt import Decision, decided
from adacorr.core.sampling import priority, sample_rows
from adacorr.core.sparse import Array, TopK, over_rows, total

TAIL_FLOOR = 1e-3  # zeros are not proof, but 20,000 of them must not weigh more than this together
STRENGTHS = (np.inf, 300.0, 30.0, 3.0)  # of the pull to uniform targets, in rows
_FIT_ROWS = 50_000
_FIT_ELEMENTS = 1_600_000  # long lists need fewer rows
_CHUNK_ROWS = 1 << 14
_TURNS = 4
_EM_STEPS = 50


@dataclass(frozen=True)
class Targets:
    """Q[j, g]: where a wrong label of true class j goes; rows sum to one, the diagonal is 0.

    Attributes
    ----------
    keys, extra : sorted ``j * K + g`` of the pairs above the even share, and how much above.
    even : (K,) what row j gives to every class.
    column : (K,) sums of the columns.
    """

    n_classes: int
    keys: NDArray[np.int64]
    extra: Array
    even: Array
    column: Array

    @classmethod
    def of(cls, keys: NDArray[np.int64], counts: Array, k: int, strength: float) -> Targets:
        """From expected counts of the pairs `keys`, each pair once and in order."""
        kept = counts > 1 if np.isfinite(strength) else np.zeros(len(keys), bool)
        size = np.bincount(keys // k, counts, minlength=k) + strength
        keys, extra = keys[kept], counts[kept] - 1
        extra = extra / size[keys // k]
        even = (1 - np.bincount(keys // k, extra, minlength=k)) / (k - 1)
        column = even.sum() - even + np.bincount(keys % k, extra, minlength=k)
        return cls(k, keys, extra, even, column)

    def __call__(self, true: NDArray[np.integer], given: NDArray[np.integer]) -> Array:
        """Q of pairs, elementwise; 0 where both are the same."""
        j, g = np.broadcast_arrays(true.astype(np.int64), given.astype(np.int64))
        out = self.even[j]
        if len(self.keys):
            wanted = j * self.n_classes + g
            place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            out = out + np.where(self.keys[place] == wanted, self.extra[place], 0.0)
        return np.where(j == g, 0.0, out)


@dataclass(frozen=True)
class Joint:
    """P(true, given | x) of a few rows: of the given class, the listed ones, all others."""

    own: Array
    listed: Array  # (N, k); 0 for the given class and padding
    others: Array

    @property
    def likelihood(self) -> Array:
        return np.maximum(self.own + total(self.listed) + self.others, 1e-300)


@dataclass(frozen=True)
class SparseClassNoiseRule:
    """A fitted noise model for top-k rows.

    Attributes
    ----------
    scale, rate, targets : eta ~ f ** scale; P(label is wrong); where wrong labels go.
    model_error : how often the model is taken to be confidently wrong.
    learnt : the noise rate that f itself has learnt and is freed of, mostly 0.
    active, max_flip_error, summary, blind, evidence : as in the dense rule.
    """

    scale: float
    rate: float
    targets: Targets
    model_error: float = 0.0
    learnt: float = 0.0
    active: bool = True
    max_flip_error: float | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    blind: bool = False
    evidence: float = np.inf

    def eta(self, f: TopK) -> tuple[Array, Array]:
        """Clean posterior of the listed classes (0 where padded), and of each other class."""
        k = f.n_classes
        floor = min(FLOOR, TAIL_FLOOR / k)
        even = self.learnt / (k - 1)
        listed, rest = f.values.astype(np.float64), f.rest
        if self.learnt:
            listed, rest = listed - even, rest - even
        logs = self.scale * np.log(np.maximum(listed, floor))
        log_rest = self.scale * np.log(np.maximum(rest, floor))
        top = np.maximum(over_rows(np.maximum, logs), log_rest)
        p = np.where(f.indices >= 0, np.exp(logs - top[:, None]), 0.0)
        q = np.exp(log_rest - top)
        norm = total(p) + q * (k - f.lengths)
        return p / norm[:, None], q / norm

    def own(self, labels: NDArray[np.int64], pred_probs: TopK) -> Array:
        """(N,) P(true = given | x), of the scaled model freed of the noise."""
        listed, rest = self.eta(pred_probs)
        hit = pred_probs.indices == labels[:, None]
        inside = over_rows(np.logical_or, hit)
        return np.where(inside, total(np.where(hit, listed, 0)), rest)

    def doubt(self, pred_probs: TopK) -> float:
        """How often that model is wrong, by its own account."""
        return float(1 - over_rows(np.maximum, self.eta(pred_probs)[0]).mean())

    @property
    def T(self) -> None:
        """P(given | true) of so many classes is no matrix."""
        return None

    def joint(self, labels: NDArray[np.int64], f: TopK) -> Joint:
        """P(true = j, given label | x) for the listed classes and the given one."""
        listed, rest = self.eta(f)
        real = f.indices >= 0
        hit = f.indices == labels[:, None]
        inside = over_rows(np.logical_or, hit)
        own = np.where(inside, total(np.where(hit, listed, 0)), rest)
        classes = np.maximum(f.indices, 0)
        if self.model_error:
            best = classes[np.arange(len(labels)), listed.argmax(axis=1)]
            own = (1 - self.model_error) * own + self.model_error * self.targets(best, labels)
            stray = self.model_error * self.targets(best[:, None], classes)
            listed = np.where(real, (1 - self.model_error) * listed + stray, 0.0)
        q = np.where(real, self.targets(classes, labels[:, None]), 0.0)
        outside = np.maximum(1 - total(listed) - np.where(inside, 0, own), 0)
        n_outside = np.maximum(f.n_classes - f.lengths - ~inside, 1)
        q_outside = np.maximum(self.targets.column[labels] - total(q), 0) / n_outside
        return Joint((1 - self.rate) * own, self.rate * listed * q, self.rate * outside * q_outside)

    def decide(self, labels: NDArray[np.int64], pred_probs: TopK) -> Decision:
        """Suggest the most probable true label; the ratio is P(given) / P(suggested)."""
        n = len(labels)
        own, best, other = np.empty(n), np.empty(n), np.empty(n, np.int64)
        for start in range(0, n, _CHUNK_ROWS):
            part = slice(start, start + _CHUNK_ROWS)
            joint, f = self.joint(labels[part], pred_probs[part]), pred_probs[part]
            own[part] = joint.own / joint.likelihood
            classes, most = TopK(f.indices, joint.listed).best()
            other[part] = np.where(classes == labels[part], (classes + 1) % f.n_classes, classes)
            best[part] = np.where(classes == labels[part], 0, most / joint.likelihood)
        flipped, wrong = (best > own) & self.active, 1 - own
        if self.blind:
            own[:] = best[:] = np.nan
        withheld = None if self.max_flip_error is None else 1 - best >= self.max_flip_error
        return decided(labels, other, flipped, own, best, wrong, withheld)


@dataclass(frozen=True)
class Half:
    """Rows of one fold, and the rule whose targets were counted on the other fold."""

    labels: NDArray[np.int64]
    f: TopK
    targets: Targets

    def log_likelihood(self, rule: SparseClassNoiseRule) -> Array:
        return np.log(replace(rule, targets=self.targets).joint(self.labels, self.f).likelihood)

    def explained(self, rule: SparseClassNoiseRule) -> tuple[Array, Array]:
        """P(given | x) if all labels are right, and if all are wrong."""
        rule = replace(rule, targets=self.targets, rate=0.5)
        joint = rule.joint(self.labels, self.f)
        return 2 * joint.own, 2 * (joint.likelihood - joint.own)


def fit_sparse_by_class(
    labels: NDArray[np.int64], f: TopK, max_flip_error: float | None = None
) -> SparseClassNoiseRule:
    """Fit the noise model to the given labels: pairs on all rows, the numbers on a part."""
    k = f.n_classes
    even = Targets.of(np.empty(0, np.int64), np.empty(0), k, np.inf)
    rows = sample_rows(len(labels), min(_FIT_ROWS, max(_FIT_ELEMENTS // f.width, MIN_ROWS)))
    part = [Half(labels[rows], f[rows], even)]
    rule = _fit_numbers(SparseClassNoiseRule(1.0, _start(*_best(part[0])), even), part)
    rule = _anchored(rule, part)
    rule = replace(rule, evidence=_evidence(rule, part))
    fold = (priority(np.arange(len(labels))) >> np.uint64(7)) & np.uint64(1)
    sides = [fold == 0, fold == 1]
    if all(side.any() for side in sides):
        rule = _with_pairs(rule, labels, f, sides, set(rows.tolist()))
    return replace(_judge(rule, labels[rows], f[rows]), max_flip_error=max_flip_error)


def _best(half: Half) -> tuple[NDArray[np.bool_], Array]:
    """Whether the model disagrees with the label, and how sure it is."""
    m, top = half.f.best()
    return m != half.labels, top


def _start(wrong: NDArray[np.bool_], top: Array) -> float:
    """A first rate: disagreement in the more confident half."""
    return float(np.clip(wrong[top >= np.median(top)].mean(), 1e-3, 0.9))


def _fit_numbers(rule: SparseClassNoiseRule, halves: list[Half]) -> SparseClassNoiseRule:
    """Scale by golden section and rate by expectation-maximisation, in turns."""
    for _ in range(_TURNS):
        rule = _fit_scale(rule, halves)
        parts = [half.explained(rule) for half in halves]
        right, wrong = (np.concatenate(both) for both in zip(*parts, strict=True))
        rate = rule.rate
        for _ in range(_EM_STEPS):
            noise = rate * wrong
            rate = float(np.clip((noise / (noise + (1 - rate) * right)).mean(), 1e-6, 0.999))
        rule = replace(rule, rate=rate)
    return rule


def _fit_scale(rule: SparseClassNoiseRule, halves: list[Half]) -> SparseClassNoiseRule:
    def score(log_scale: float) -> float:
        new = replace(rule, scale=float(np.exp(log_scale)))
        return sum(float(half.log_likelihood(new).sum()) for half in halves)

    return replace(rule, scale=float(np.exp(golden_section(score, -1.5, 1.0, 0.02))))


def _anchored(rule: SparseClassNoiseRule, part: list[Half]) -> SparseClassNoiseRule:
    """The reading "f has learnt the noise", if the most confident rows speak for it."""
    wrong, top = _best(part[0])
    rate = float(wrong[top >= np.quantile(top, 1 - ANCHOR_SHARE)].mean())
    if rate - rule.rate < ANCHOR_EXCESS or rate > 0.95:
        return rule
    other = _fit_scale(replace(rule, rate=rate, learnt=rate), part)
    gain = part[0].log_likelihood(other) - part[0].log_likelihood(rule)
    return rule if gain.sum() < -2 * gain.std() * np.sqrt(len(gain)) else other


def _evidence(rule: SparseClassNoiseRule, part: list[Half]) -> float:
    """By how many standard errors noise explains the labels better than none."""
    plain = _fit_scale(replace(rule, rate=0.0, learnt=0.0), part)
    return standard_errors(part[0].log_likelihood(rule) - part[0].log_likelihood(plain))


def _with_pairs(
    rule: SparseClassNoiseRule,
    labels: NDArray[np.int64],
    f: TopK,
    sides: list[NDArray[np.bool_]],
    used: set[int],
) -> SparseClassNoiseRule:
    """Frequent confusions, as far as those of one half of the rows predict the other half."""
    k = f.n_classes
    counted = [_pair_counts(rule, labels[side], f[side]) for side in sides]
    chosen = np.zeros(len(labels), bool)
    chosen[list(used)] = True

    def halves(strength: float) -> list[Half]:
        crossed = zip(sides, reversed(counted), strict=True)
        rows = [(side & chosen, Targets.of(*counts, k, strength)) for side, counts in crossed]
        return [Half(labels[side], f[side], targets) for side, targets in rows]

    def score(strength: float) -> float:
        return sum(float(half.log_likelihood(rule).sum()) for half in halves(strength))

    strength = max(STRENGTHS, key=score)
    if not np.isfinite(strength):
        return rule
    learnt = rule.learnt
    rule = _fit_numbers(rule, halves(strength)) if not learnt else rule
    keys, counts = _pair_counts(rule, labels, f)
    return replace(rule, targets=Targets.of(keys, counts, k, strength))


def _pair_counts(
    rule: SparseClassNoiseRule, labels: NDArray[np.int64], f: TopK
) -> tuple[NDArray[np.int64], Array]:
    """Expected flips from each class j to each given class g, as sorted keys j * K + g."""
    keys, counts = [np.empty(0, np.int64)], [np.empty(0)]
    for start in range(0, len(labels), _CHUNK_ROWS):
        y, part = labels[start : start + _CHUNK_ROWS], f[start : start + _CHUNK_ROWS]
        joint = rule.joint(y, part)
        share = joint.listed / joint.likelihood[:, None]
        heavy = share > 0.01  # the rest is too thin to make a pair
        rows, columns = np.nonzero(heavy)
        keys.append(part.indices[rows, columns].astype(np.int64) * f.n_classes + y[rows])
        counts.append(share[rows, columns])
    found, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(inverse, np.concatenate(counts), minlength=len(found))
    return found, sums.astype(np.float64)


def _judge(rule: SparseClassNoiseRule, labels: NDArray[np.int64], f: TopK) -> SparseClassNoiseRule:
    """Decide whether the fit is ground for changes at all, and say so in words."""
    rule = replace(rule, model_error=CONFIDENT_SHARE * rule.doubt(f))
    joint = rule.joint(labels, f)
    noise = float((1 - joint.own / joint.likelihood).mean())
    share = np.unique(labels, return_counts=True)[1] / len(labels)
    guessing = len(labels) * float((share * np.log(share)).sum())
    if len(labels) < MIN_ROWS:
        verdict = Verdict.FEW
    elif np.log(joint.likelihood).sum() <= guessing + len(share):
        verdict = Verdict.BLIND
    elif rule.rate <= 2 * rule.model_error:
        verdict = Verdict.TRUST
    else:
        verdict = Verdict.NOISE
    note = verdict.value.format(noise)
    if verdict is Verdict.NOISE and len(rule.targets.keys):
        note += f"; {len(rule.targets.keys):,} frequent confusions"
    summary = {"rule": "auto", "noise_rate": None if verdict.blind else noise, "note": note}
    active = verdict is Verdict.NOISE
    return replace(rule, active=active, blind=verdict.blind, summary=summary)

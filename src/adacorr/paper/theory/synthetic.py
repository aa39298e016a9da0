"""The paper's synthetic experiment and its one-dimensional illustration, as plain computations.

Two Gaussians in ten dimensions, N(0, I) and N(1, I), half the samples from each: eta has a closed
form, so the noisy posterior is known exactly and eps can be set at will. Nothing is drawn here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.lrt import ThresholdRule
from adacorr.core.noise import inject
from adacorr.paper.theory.bounds import (
    corollary,
    delta_corollary,
    noisy_posterior,
    theorem1,
    threshold_theorem1,
)
from adacorr.paper.theory.tsybakov import (
    BINARY_GRID,
    TsybakovFit,
    TsybakovInterval,
    binary_margin,
    bootstrap_tsybakov,
    fit_tsybakov,
)

DIMENSIONS = 10
SAMPLES = 20_000
TSNE_SAMPLES = 500
NOISES = {"symmetric": (0.2, 0.2), "asymmetric": (0.2, 0.0)}
"""(tau10, tau01) at the paper's noise level of 20%: both ways, and from class 1 to class 0 only."""

PAIRS = ((0.3, 0.3), (0.2, 0.3), (0.1, 0.3), (0.3, 0.0))
"""(tau10, tau01) of the paper's figure on the error after correction."""


@dataclass(frozen=True)
class Mixture:
    """Points of the mixture: features (N, D), classes drawn (N,), eta = P(class 1 | x) (N,)."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    eta: NDArray[np.float64]

    @property
    def right(self) -> NDArray[np.int64]:
        """The Bayes label, which the paper calls the correct one."""
        return (self.eta > 0.5).astype(np.int64)


@dataclass(frozen=True)
class BoundCurve:
    """Theorem 1 against the sample, as functions of `eps`; probabilities are shares of all points.

    Attributes
    ----------
    bound, envelope_bound : the bound with the least squares C, and with the upper envelope's.
    worst : P[label right, f_label < threshold] for the worst f within eps of the noisy posterior.
    low, high : the same for f equal to the noisy posterior (Lemma 2: zero), and
        P[label right, f_label >= threshold].
    """

    tau10: float
    tau01: float
    threshold: float
    eps: NDArray[np.float64]
    bound: NDArray[np.float64]
    envelope_bound: NDArray[np.float64]
    worst: NDArray[np.float64]
    low: float
    high: float


@dataclass(frozen=True)
class CorrectionCurve:
    """The corollary against the sample, as functions of `eps`.

    Attributes
    ----------
    bound, envelope_bound : the bound with the least squares C, and with the upper envelope's; NaN
        where its condition fails.
    printed : the paper's expression, which is proven for delta = 1 only.
    worst : P[new label wrong] for the worst f within eps of the noisy posterior.
    before, after : share of wrong labels before correction, and after it with f equal to the noisy
        posterior.
    """

    tau10: float
    tau01: float
    delta: float
    eps: NDArray[np.float64]
    bound: NDArray[np.float64]
    envelope_bound: NDArray[np.float64]
    printed: NDArray[np.float64]
    worst: NDArray[np.float64]
    before: float
    after: float


@dataclass(frozen=True)
class Embedding:
    """t-SNE positions (n, 2) and, by panel title, the labels (n,) to colour them with."""

    positions: NDArray[np.float64]
    panels: dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Synthetic:
    """Everything that ``adacorr theory synthetic`` reports."""

    seed: int
    samples: int
    fit: TsybakovFit
    interval: TsybakovInterval
    bounds: dict[str, BoundCurve]
    corrections: tuple[CorrectionCurve, ...]
    embedding: Embedding

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return {
            **self.fit.as_dict(),
            "interval": self.interval.as_dict(),
            "seed": self.seed,
            "samples": self.samples,
            "bounds": {name: _plain(curve) for name, curve in self.bounds.items()},
            "corrections": [_plain(curve) for curve in self.corrections],
        }


def run_synthetic(seed: int = 0, samples: int = SAMPLES, tsne: int = TSNE_SAMPLES) -> Synthetic:
    """The whole synthetic experiment; a few seconds, most of them t-SNE."""
    rng = np.random.default_rng(seed)
    sample = draw_mixture(samples, rng)
    margins = binary_margin(sample.eta)
    fit = fit_tsybakov(margins, BINARY_GRID)
    interval = bootstrap_tsybakov(margins, rng, BINARY_GRID)
    bounds = {name: bound_curve(sample, *taus, fit, rng) for name, taus in NOISES.items()}
    corrections = tuple(correction_curve(sample, *taus, fit, rng) for taus in PAIRS)
    return Synthetic(
        seed, samples, fit, interval, bounds, corrections, embed(draw_mixture(tsne, rng), rng)
    )


def draw_mixture(n: int, rng: np.random.Generator) -> Mixture:
    """`n` points of 1/2 N(0, I) + 1/2 N(1, I)."""
    labels = rng.integers(0, 2, n)
    features = rng.standard_normal((n, DIMENSIONS)) + labels[:, None]
    log_odds = features.sum(axis=1) - DIMENSIONS / 2  # (|x|^2 - |x - 1|^2) / 2
    return Mixture(features, labels, 1 / (1 + np.exp(-log_odds)))


def transition(tau10: float, tau01: float) -> NDArray[np.float64]:
    """The binary T."""
    return np.array([[1 - tau01, tau01], [tau10, 1 - tau10]])


def posterior(eta: NDArray[np.float64], tau10: float, tau01: float) -> NDArray[np.float64]:
    """The noisy posterior of both classes, (N, 2)."""
    return noisy_posterior(np.column_stack([1 - eta, eta]), transition(tau10, tau01))


def bound_curve(
    sample: Mixture, tau10: float, tau01: float, fit: TsybakovFit, rng: np.random.Generator
) -> BoundCurve:
    """Theorem 1 on `sample` for eps from 0 to the largest that its condition allows."""
    given = inject(sample.labels, transition(tau10, tau01), rng)
    own = posterior(sample.eta, tau10, tau01)[np.arange(len(given)), given]
    right, n = given == sample.right, len(given)
    threshold = threshold_theorem1(tau10, tau01)
    eps = np.linspace(0, 0.5 * (1 - tau10 - tau01), 61)
    # The worst f gives every right label eps less than the noisy posterior does.
    worst = np.searchsorted(np.sort(own[right]), threshold + eps, side="left") / n

    def bounds(C: float) -> NDArray[np.float64]:
        return np.array([theorem1(e, tau10, tau01, C, fit.lam).value for e in eps])

    low = float(np.mean(right & (own < threshold - 1e-12)))
    high = float(np.mean(right)) - low
    return BoundCurve(
        tau10, tau01, threshold, eps, bounds(fit.C), bounds(fit.envelope), worst, low, high
    )


def correction_curve(
    sample: Mixture, tau10: float, tau01: float, fit: TsybakovFit, rng: np.random.Generator
) -> CorrectionCurve:
    """The corollary on `sample`, at the paper's delta."""
    given = inject(sample.labels, transition(tau10, tau01), rng)
    f = posterior(sample.eta, tau10, tau01)
    delta = delta_corollary(tau10, tau01)
    decision = ThresholdRule.create(delta, 2).decide(given, f)
    new = np.where(decision.flipped, decision.suggested, given)
    own, right, n = f[np.arange(len(given)), given], given == sample.right, len(given)
    eps = np.linspace(0, 0.5 * (1 - tau10 - tau01), 61)
    cut = delta / (1 + delta)  # f_label / f_m < delta  <=>  f_label < cut
    flipped_right = np.searchsorted(np.sort(own[right]), cut + eps, side="left")
    kept_wrong = (~right).sum() - np.searchsorted(np.sort(own[~right]), cut - eps, side="left")
    ols = [corollary(e, tau10, tau01, fit.C, fit.lam) for e in eps]
    envelope = [corollary(e, tau10, tau01, fit.envelope, fit.lam) for e in eps]
    return CorrectionCurve(
        tau10=tau10,
        tau01=tau01,
        delta=delta,
        eps=eps,
        bound=np.array([b.value if b.valid else np.nan for b in ols]),
        envelope_bound=np.array([b.value if b.valid else np.nan for b in envelope]),
        printed=np.array([b.as_printed for b in ols], dtype=np.float64),
        worst=(flipped_right + kept_wrong) / n,
        before=float(np.mean(~right)),
        after=float(np.mean(new != sample.right)),
    )


def embed(sample: Mixture, rng: np.random.Generator) -> Embedding:
    """t-SNE of the points, with clean, noisy and corrected labels."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    panels = {"Clean labels": sample.labels}
    for name, taus in NOISES.items():
        given = inject(sample.labels, transition(*taus), rng)
        f = posterior(sample.eta, *taus)
        decision = ThresholdRule.create(delta_corollary(*taus), 2).decide(given, f)
        panels[f"20% {name} noise"] = given
        panels[f"{name.capitalize()} noise, corrected"] = np.where(
            decision.flipped, decision.suggested, given
        )
    tsne = TSNE(init="pca", perplexity=30, random_state=int(rng.integers(2**31)))
    with threadpool_limits(1):  # on a busy machine its threads wait for each other
        return Embedding(tsne.fit_transform(sample.features), panels)


# --- the illustration -------------------------------------------------------------------------


@dataclass(frozen=True)
class Illustration:
    """Points on a line with noisy and corrected labels, and the functions behind them.

    Attributes
    ----------
    x, given, corrected : the points, their noisy labels, their labels after correction.
    line, eta, f : a grid of x with the clean and the noisy posterior of class 1.
    ratio : (2, G), the likelihood ratio on that grid for the given label 0 and 1.
    """

    x: NDArray[np.float64]
    given: NDArray[np.int64]
    corrected: NDArray[np.int64]
    line: NDArray[np.float64]
    eta: NDArray[np.float64]
    f: NDArray[np.float64]
    ratio: NDArray[np.float64]
    tau: float
    delta: float

    def as_dict(self) -> dict[str, Any]:
        return _plain(self)


def run_illustration(seed: int = 0, n: int = 80, tau: float = 0.2) -> Illustration:
    """LRT-Correction on a line: eta crosses 1/2 at x = 0, symmetric noise, delta = 1."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3, 3, n))
    given = inject((rng.random(n) < _logistic(x)).astype(np.int64), transition(tau, tau), rng)
    decision = ThresholdRule.create(1.0, 2).decide(given, posterior(_logistic(x), tau, tau))
    corrected = np.where(decision.flipped, decision.suggested, given)
    line = np.linspace(-3, 3, 301)
    both = posterior(_logistic(line), tau, tau)
    ratio = (both / both.max(axis=1, keepdims=True)).T
    return Illustration(x, given, corrected, line, _logistic(line), both[:, 1], ratio, tau, 1.0)


def _logistic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-2 * x))


def _plain(result: Any) -> dict[str, Any]:
    """A dataclass of numbers and arrays as JSON can hold it; NaN becomes null."""

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return [convert(entry) for entry in value.tolist()]
        if isinstance(value, list):
            return [convert(entry) for entry in value]
        return None if isinstance(value, float) and np.isnan(value) else value

    return {name: convert(value) for name, value in vars(result).items()}

"""The paper's theory as functions: bounds with their conditions, thresholds, the Tsybakov fit.

>>> import adacorr
>>> print(adacorr.paper.theory.theorem1(0.05, tau10=0.2, tau01=0.2, C=0.58, lam=1.27))
P[y~ is right, f_y~ < 0.5] <= 0.02471

``adacorr.paper.theory.synthetic`` and ``adacorr.paper.theory.run_pair`` hold the experiments,
``adacorr.paper.theory.figures`` draws them.
"""

from adacorr.paper.theory.bounds import (
    Bound,
    Condition,
    corollary,
    delta1,
    delta2,
    delta2_symmetric,
    delta_corollary,
    lemma1,
    lemma2,
    noisy_posterior,
    pointwise_threshold,
    psi,
    symmetric_kept,
    symmetric_psi,
    theorem1,
    theorem2,
    theorem3_flipped,
    theorem3_kept,
    threshold_lemma1,
    threshold_theorem1,
    threshold_theorem2,
)
from adacorr.paper.theory.tsybakov import (
    TsybakovFit,
    TsybakovInterval,
    binary_margin,
    bootstrap_tsybakov,
    envelope_constant,
    fit_tsybakov,
    multiclass_margin,
)

__all__ = [
    "Bound",
    "Condition",
    "TsybakovFit",
    "TsybakovInterval",
    "binary_margin",
    "bootstrap_tsybakov",
    "corollary",
    "delta1",
    "delta2",
    "delta2_symmetric",
    "delta_corollary",
    "envelope_constant",
    "fit_tsybakov",
    "lemma1",
    "lemma2",
    "multiclass_margin",
    "noisy_posterior",
    "pointwise_threshold",
    "psi",
    "symmetric_kept",
    "symmetric_psi",
    "theorem1",
    "theorem2",
    "theorem3_flipped",
    "theorem3_kept",
    "threshold_lemma1",
    "threshold_theorem1",
    "threshold_theorem2",
]

"""Estimates and pictures that need the run's probabilities; each is None when it cannot be had."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adacorr.core.certificate import Reliability, certified_radius, reliability
from adacorr.core.transition import Transition, estimate_transition
from adacorr.core.validation import InputError
from adacorr.paper.theory.bounds import theorem2
from adacorr.paper.theory.tsybakov import fit_tsybakov, multiclass_margin
from adacorr.report import figures
from adacorr.report.figures import Picture
from adacorr.report.summary import RunSample

MAX_CLASSES = 1000
"""Beyond this a (K, K) matrix is neither estimated nor shown."""
LARGE_GAP = 0.1
"""A mean calibration gap above this is said aloud: the estimates then rest on little."""


def estimate(sample: RunSample | None) -> Transition | None:
    """The noise matrix behind the given labels."""
    if sample is None or sample.pred_probs.shape[1] > MAX_CLASSES:
        return None
    return estimate_transition(sample.labels, sample.pred_probs)


def calibration(sample: RunSample | None) -> Reliability | None:
    """Do the probabilities match the given labels, as everything else here assumes?"""
    return None if sample is None else reliability(sample.labels, sample.pred_probs)


def mismatch(found: Reliability) -> str | None:
    """Which way the probabilities miss the given labels, where they do so clearly."""
    if found.error <= LARGE_GAP:
        return None
    return "surer" if found.count @ (found.confidence - found.frequency) > 0 else "less sure"


def radius_picture(sample: RunSample | None, transition: Transition | None) -> Picture | None:
    """With the estimated noise matrix, or for symmetric noise where that has no inverse."""
    if sample is None or sample.pred_probs.shape[1] > MAX_CLASSES:
        return None
    if transition is not None:
        try:
            found = certified_radius(sample.pred_probs, transition.T)
            return figures.radius_histogram(found.radius, symmetric=False)
        except InputError:
            pass  # the estimate is singular
    return figures.radius_histogram(certified_radius(sample.pred_probs).radius, symmetric=True)


def bound_picture(sample: RunSample | None, transition: Transition | None) -> Picture | None:
    """Theorem 2 over a range of errors, with constants fitted to the implied clean posterior."""
    if sample is None or transition is None or np.diag(transition.T).min() <= 0:
        return None
    try:
        fit = fit_tsybakov(multiclass_margin(_clean_posterior(sample, transition.T)))
    except (InputError, np.linalg.LinAlgError):
        return None
    eps = np.linspace(0, 0.5, 101)
    fitted, envelope = (
        np.array([_bound(e, transition.T, constant, fit.lam) for e in eps.tolist()])
        for constant in (fit.C, fit.envelope)
    )
    return figures.bound_curve(eps, fitted, envelope, fit)


def _clean_posterior(sample: RunSample, T: NDArray[np.float64]) -> NDArray[np.float64]:
    """``f T^-1``, moved back onto the simplex where the model contradicts T."""
    g = np.maximum(sample.pred_probs @ np.linalg.inv(T), 1e-12)
    return g / g.sum(axis=1, keepdims=True)


def _bound(eps: float, T: NDArray[np.float64], C: float, lam: float) -> float:
    bound = theorem2(eps, T, C, lam)
    return min(bound.value, 1.0) if bound.valid else float("nan")

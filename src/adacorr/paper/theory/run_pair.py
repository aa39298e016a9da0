"""The paper's CIFAR experiment on a pair of run directories: one trained on clean labels, whose
probabilities stand for eta, and one trained on noisy labels, whose probabilities are f.

That eta is a trained network's guess is the weak point of this experiment (and of the paper's): the
margins of an overfitted network are too large, so the fit looks better than the truth.

Without a clean run eta is f T^-1 of the noisy run itself. The fit and the bound can then be seen,
but not how far f is from the noisy posterior, only how far it must be (entries of f T^-1 below 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core import noise
from adacorr.core.certificate import invert_transition, negative_mass
from adacorr.core.transition import estimate_transition
from adacorr.core.validation import InputError, check_pred_probs
from adacorr.paper.theory.bounds import (
    noisy_posterior,
    pointwise_threshold,
    theorem2,
    threshold_theorem2,
)
from adacorr.paper.theory.tsybakov import (
    MULTICLASS_GRID,
    TsybakovFit,
    TsybakovInterval,
    bootstrap_tsybakov,
    fit_tsybakov,
    multiclass_margin,
)
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData


@dataclass(frozen=True)
class RunRows:
    """The rows of a run that count, in the order of its table."""

    index: NDArray[np.int64]
    given: NDArray[np.int64]
    truth: NDArray[np.int64] | None
    pred_probs: NDArray[np.floating]


@dataclass(frozen=True)
class Pair:
    """Rows that both runs have: given labels and f of the noisy one, eta of the clean one, T.

    `eta_from` is the clean run's folder, or None where eta was computed from f and T.
    """

    labels: NDArray[np.int64]
    pred_probs: NDArray[np.float64]
    eta: NDArray[np.float64]
    T: NDArray[np.float64]
    T_from: str
    eta_from: str | None


@dataclass(frozen=True)
class PairResult:
    """Theorem 2 on a pair of runs; shares of the samples that both runs have.

    Attributes
    ----------
    low, high : right labels (given = argmax eta) with f_given below, and not below, the theorem's
        threshold at x, which is compared before its minimum over x is taken.
    low_uniform : the same with one threshold per class, as the theorem is stated; `thresholds`.
    eps, bound, envelope_bound : the bound as a function of eps, with the least squares C and with
        the envelope's.
    error : quantiles of max_i |f_i - (eta T)_i| over the samples: what eps would have to be. With
        eta from the noisy run itself, the least error that T and f imply.
    implied_eps : the eps at which the least squares bound equals `low`, where the paper reads off
        how small eps can be.
    """

    samples: int
    fit: TsybakovFit
    T: NDArray[np.float64]
    T_from: str
    eta_from: str | None
    thresholds: NDArray[np.float64]
    low: float
    high: float
    low_uniform: float
    eps: NDArray[np.float64]
    bound: NDArray[np.float64]
    envelope_bound: NDArray[np.float64]
    error: dict[str, float]
    implied_eps: float

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        out: dict[str, Any] = self.fit.as_dict()
        for name, value in vars(self).items():
            if name != "fit":
                out[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return out


def read_rows(run: RunData, split: str | None = None) -> RunRows:
    """The run's table and probabilities; with `split` only the rows of that part."""
    if run.pred_probs is None:
        raise InputError(f"{run.run.path}: expected a run with pred_probs.npy, got none")
    batches = list(run.batches())
    truths = [b.truth for b in batches if b.truth is not None]
    truth = np.concatenate(truths) if len(truths) == len(batches) else None
    index = np.concatenate([b.index for b in batches])
    given = np.concatenate([b.given for b in batches])
    rows = _rows_of(run.run, split, len(index))
    f = check_pred_probs(run.pred_probs[rows], name=str(run.run.file("pred_probs.npy")))
    return RunRows(index[rows], given[rows], None if truth is None else truth[rows], f)


def _rows_of(run: Run, split: str | None, n: int) -> NDArray[np.int64]:
    if split is None:
        return np.arange(n)
    table = run.labels()
    if "split" not in table.column_names:
        raise InputError(f"{run.path}: expected a column split in labels.parquet, got none")
    parts = np.asarray(table.column("split").to_pylist(), dtype=object)
    rows = np.flatnonzero(parts == split)
    if not len(rows):
        known = ", ".join(sorted({str(part) for part in parts}))
        raise InputError(f"split: expected one of {known}, got {split}")
    return rows


def fit_run(
    run: RunData, split: str | None, rng: np.random.Generator | int
) -> tuple[TsybakovFit, TsybakovInterval]:
    """The Tsybakov fit of a run's own probabilities, multiclass margin, t in (0, 0.9]."""
    margins = multiclass_margin(read_rows(run, split).pred_probs)
    return fit_tsybakov(margins, MULTICLASS_GRID), bootstrap_tsybakov(margins, rng)


def match_runs(
    noisy: RunData, clean: RunData, spec: str | None = None, split: str | None = None
) -> Pair:
    """Join the two runs by sample index and find T.

    T comes from `spec` (``uniform:0.2``), else from the noisy run's recorded noise, else from its
    truth column, else by least squares of the given labels on eta.
    """
    if noisy.class_names != clean.class_names:
        raise InputError(
            f"{clean.run.path}: expected the classes of {noisy.run.path} "
            f"({', '.join(noisy.class_names[:5])}, ...), got others"
        )
    if recorded_noise(clean):
        raise InputError(
            f"{clean.run.path}: expected a run trained on clean labels, "
            f"got one with noise {recorded_noise(clean)}"
        )
    ours, theirs = read_rows(noisy, split), read_rows(clean)
    for rows, run in ((ours, noisy), (theirs, clean)):
        if len(np.unique(rows.index)) != len(rows.index):
            raise InputError(f"{run.run.path}: expected each index once, got repeated ones")
    _, a, b = np.intersect1d(ours.index, theirs.index, assume_unique=True, return_indices=True)
    if not len(a):
        raise InputError(
            f"{clean.run.path}: expected samples of {noisy.run.path}, got none of them"
        )
    f = ours.pred_probs[a].astype(np.float64)
    eta = theirs.pred_probs[b].astype(np.float64)
    given, truth = ours.given[a], None if ours.truth is None else ours.truth[a]
    _check_same_samples(noisy, clean, truth, theirs.given[b])
    T, source = _known_T(noisy, spec, given, truth) or (
        _regressed_T(given, eta),
        "least squares of the given labels on eta",
    )
    return Pair(given, f, eta, T, source, str(clean.run.path))


def single_run(run: RunData, spec: str | None = None, split: str | None = None) -> Pair:
    """The same without a clean run: eta is ``f T^-1``, its negative entries cut off.

    T as in :func:`match_runs`, except that the last resort is :func:`estimate_transition`.
    """
    rows = read_rows(run, split)
    T, source = _known_T(run, spec, rows.given, rows.truth) or (
        estimate_transition(rows.given, rows.pred_probs).T,
        "an estimate from the given labels and f",
    )
    f = rows.pred_probs.astype(np.float64)
    eta = np.maximum(f @ invert_transition(T, run.n_classes), 0)
    return Pair(rows.given, f, eta / eta.sum(axis=1, keepdims=True), T, source, None)


def _check_same_samples(
    noisy: RunData, clean: RunData, truth: NDArray[np.int64] | None, labels: NDArray[np.int64]
) -> None:
    """An index says nothing when the runs took different subsets; the labels tell."""
    if truth is None or not (truth >= 0).any():
        return
    agree = float(np.mean(truth[truth >= 0] == labels[truth >= 0]))
    if agree < 0.99:
        raise InputError(
            f"{clean.run.path}: expected clean labels of the samples of {noisy.run.path}, "
            f"got labels that equal its truth in {100 * agree:.0f}% of the rows"
        )


def recorded_noise(run: RunData) -> str | None:
    """The noise that ``adacorr fit --noise`` injected, as config.toml has it."""
    spec = run.section("data").get("noise")
    return spec if isinstance(spec, str) and spec else None


def _known_T(
    noisy: RunData,
    spec: str | None,
    given: NDArray[np.int64],
    truth: NDArray[np.int64] | None,
) -> tuple[NDArray[np.float64], str] | None:
    spec = spec or recorded_noise(noisy)
    if spec is not None:
        return noise.parse(spec, noisy.n_classes), spec
    if truth is None or not (truth >= 0).all():
        return None
    identity = np.eye(noisy.n_classes)
    return _row_shares(identity[truth].T @ identity[given]), "counts of truth and given labels"


def _regressed_T(given: NDArray[np.int64], eta: NDArray[np.float64]) -> NDArray[np.float64]:
    """E[one hot of given | x] = eta T, so T is the regression of the one on the other."""
    weight = np.linalg.lstsq(eta, np.eye(eta.shape[1])[given], rcond=None)[0]
    return _row_shares(np.asarray(weight, dtype=np.float64))


def _row_shares(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    weight = np.clip(weight, 0, None)
    size = weight.sum(axis=1, keepdims=True)
    return np.divide(weight, size, out=np.eye(len(weight)), where=size > 0)  # unseen classes: kept


def compare(pair: Pair) -> PairResult:
    """Theorem 2 against what the two runs show."""
    rows = np.arange(len(pair.labels))
    fit = fit_tsybakov(multiclass_margin(pair.eta), MULTICLASS_GRID)
    own = pair.pred_probs[rows, pair.labels]
    right = pair.labels == pair.eta.argmax(axis=1)
    here = own < pointwise_threshold(pair.eta, pair.T)[rows, pair.labels]
    thresholds = threshold_theorem2(pair.eta, pair.T)
    weakest = float(np.diag(pair.T).min())
    eps = np.linspace(0, float(MULTICLASS_GRID[-1]) * weakest, 91)
    low = float(np.mean(right & here))
    if pair.eta_from is None:
        error = negative_mass(pair.pred_probs, pair.T).implied_error
    else:
        error = np.abs(pair.pred_probs - noisy_posterior(pair.eta, pair.T)).max(axis=1)
    quantiles = {"median": 0.5, "q95": 0.95, "q99": 0.99, "max": 1.0}
    return PairResult(
        samples=len(rows),
        fit=fit,
        T=pair.T,
        T_from=pair.T_from,
        eta_from=pair.eta_from,
        thresholds=thresholds,
        low=low,
        high=float(np.mean(right & ~here)),
        low_uniform=float(np.mean(right & (own < thresholds[pair.labels]))),
        eps=eps,
        bound=np.array([theorem2(e, pair.T, fit.C, fit.lam).value for e in eps]),
        envelope_bound=np.array([theorem2(e, pair.T, fit.envelope, fit.lam).value for e in eps]),
        error={name: float(np.quantile(error, q)) for name, q in quantiles.items()},
        implied_eps=weakest * (low / fit.C) ** (1 / fit.lam),
    )

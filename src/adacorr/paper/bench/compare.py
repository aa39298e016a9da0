"""Is one method better than another? Differences paired over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adacorr.core.validation import InputError
from adacorr.paper.bench.records import Record
from adacorr.paper.bench.tables import At, Value, value_at


@dataclass(frozen=True)
class Comparison:
    """``a - b`` in points over the runs that both methods share."""

    a: str
    b: str
    n: int  # paired runs
    columns: int  # dataset x noise
    mean: float
    wins: int  # columns where a's mean over seeds is higher
    p_value: float  # sign-flip permutation test of the column means, two-sided


def compare(
    records: Sequence[Record],
    a: str,
    b: str,
    value: Value = "test_accuracy",
    at: At = "last",
    seed: int = 0,
) -> Comparison:
    """Pair the two methods by (dataset, noise, seed) and test the mean difference.

    Runs of one column are not independent of each other, so the test flips the signs of whole
    columns (dataset x noise), not of single runs.
    """
    values: dict[str, dict[tuple[str, str, int], float]] = {a: {}, b: {}}
    for record in records:
        number = value_at(record, value, at) if record["method"] in values else None
        if number is not None:
            place = (record["dataset"], record["noise"], record["seed"])
            values[record["method"]][place] = 100 * number
    shared = sorted(values[a].keys() & values[b].keys())
    if not shared:
        names = sorted({record["method"] for record in records})
        raise InputError(f"compare: expected runs that {a} and {b} share, got none; have {names}")
    columns: dict[tuple[str, str], list[float]] = {}
    for place in shared:
        columns.setdefault(place[:2], []).append(values[a][place] - values[b][place])
    means = np.array([np.mean(differences) for differences in columns.values()])
    return Comparison(
        a=a,
        b=b,
        n=len(shared),
        columns=len(columns),
        mean=float(means.mean()),
        wins=int((means > 0).sum()),
        p_value=sign_flip_test(means, np.random.default_rng(seed)),
    )


def sign_flip_test(differences: np.ndarray, rng: np.random.Generator, draws: int = 20_000) -> float:
    """Two-sided p-value of mean zero; exact up to 14 differences, sampled above.

    >>> sign_flip_test(np.array([1.0, 1.0, 1.0]), np.random.default_rng(0))
    0.25
    """
    n = len(differences)
    if n <= 14:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = rng.choice([-1, 1], size=(draws, n))
    extreme = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12
    return float(extreme.mean() if n <= 14 else (extreme.sum() + 1) / (draws + 1))

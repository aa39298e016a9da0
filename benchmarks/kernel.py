"""The LRT pass beside the machine's read bandwidth, plain numpy and cleanlab.

    python benchmarks/kernel.py [--quick]

Every figure is a ratio within this run: the contestants take turns, the best of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from adacorr.core.lrt import ThresholdRule


def rows(n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    f = rng.random((n, k), dtype=np.float32) ** 3 + 1e-4
    f /= f.sum(axis=1, keepdims=True)
    return rng.integers(0, k, n), f


def reader(f: NDArray[np.float32]) -> Callable[[], object]:
    """Reads every byte on two threads and does nothing else that takes time."""
    import numba

    @numba.njit(nogil=True, fastmath=True)
    def total(x: NDArray[np.float32]) -> np.float32:
        s = np.float32(0)
        for i in range(x.size):
            s += x[i]
        return s

    flat = f.ravel()
    halves = [flat[: flat.size // 2], flat[flat.size // 2 :]]
    pool = ThreadPoolExecutor(2)
    total(halves[0][:10])
    return lambda: list(pool.map(total, halves))


def plain_numpy(labels: NDArray[np.int64], f: NDArray[np.float32]) -> Callable[[], object]:
    """What one would write in four lines, checks included."""
    index = np.arange(len(f))

    def run() -> object:
        assert np.isfinite(f).all()
        assert (f >= 0).all()
        assert (np.abs(f.sum(axis=1) - 1) < 0.01).all()
        best = f.argmax(axis=1)
        ratio = f[index, labels].astype(np.float64) / f[index, best]
        return best, ratio, (ratio < 0.9) & (best != labels)

    return run


def cleanlab(labels: NDArray[np.int64], f: NDArray[np.float32]) -> Callable[[], object]:
    from cleanlab.filter import find_label_issues

    return lambda: find_label_issues(labels, f, n_jobs=1)


def best_of(
    contestants: dict[str, Callable[[], object]], turns: dict[str, int]
) -> dict[str, float]:
    """Seconds of each; they take turns so that a disturbance hits all."""
    best = dict.fromkeys(contestants, float("inf"))
    for turn in range(max(turns.values())):
        for name, run in contestants.items():
            if turn < turns[name]:
                began = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def measure(n: int, k: int, turns: int, with_cleanlab: bool) -> None:
    labels, f = rows(n, k)
    rule = ThresholdRule.create(0.9, k)
    rule.decide(labels, f)  # compile, or load what was compiled before
    contestants = {
        "read": reader(f),
        "adacorr": lambda: rule.decide(labels, f),
        "numpy": plain_numpy(labels, f),
    }
    counts = {"read": turns, "adacorr": turns, "numpy": max(1, turns // 5)}
    if with_cleanlab:
        contestants["cleanlab"] = cleanlab(labels, f)
        counts["cleanlab"] = 1
    best = best_of(contestants, counts)
    print(f"\n{n:,} x {k} float32")
    print(f"  {'':<30}{'seconds':>9}{'GB/s':>8}")
    titles = {
        "read": "two-thread read",
        "adacorr": "adacorr (checks + decides)",
        "numpy": "plain numpy",
        "cleanlab": "cleanlab find_label_issues",
    }
    for name, seconds in best.items():
        print(f"  {titles[name]:<30}{seconds:>9.4f}{f.nbytes / seconds / 1e9:>8.2f}")
    verdict("share of read bandwidth", best["read"] / best["adacorr"], 0.25 if k == 10 else 0.60)
    verdict("times plain numpy", best["numpy"] / best["adacorr"], None)
    if with_cleanlab:
        verdict("times cleanlab", best["cleanlab"] / best["adacorr"], 100 if k == 10 else None)


def verdict(what: str, ratio: float, target: float | None) -> None:
    end = "" if target is None else f"   target >= {target:g}: {_word(ratio >= target)}"
    print(f"  {what:<30}{ratio:>9.2f}{end}")


def _word(met: bool) -> str:
    return "ok" if met else "MISS"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="without cleanlab, fewer turns")
    quick = parser.parse_args().quick
    for n, k in ((2_000_000, 10), (100_000, 1000)):
        measure(n, k, 10 if quick else 40, with_cleanlab=not quick)


if __name__ == "__main__":
    main()

import numpy as np
import pytest

from adacorr.core import noise
from adacorr.runs.directory import write_labels, write_toml


@pytest.fixture
def write_run(tmp_path):
    """Builds a run directory from arrays: ``write_run("clean", index, given, pred_probs)``."""

    def write(name, index, given, pred_probs, *, truth=None, spec=None, split=None, names=None):
        path = tmp_path / name
        path.mkdir()
        suggested = pred_probs.argmax(axis=1)
        columns = {
            "index": np.asarray(index),
            "given": given,
            "corrected": given,
            "ratio": pred_probs[np.arange(len(given)), given] / pred_probs.max(axis=1),
            "flipped": np.zeros(len(given), dtype=bool),
            "suggested": suggested,
        }
        optional = {"truth": truth, "split": split}
        columns |= {key: value for key, value in optional.items() if value is not None}
        write_labels(path / "labels.parquet", columns)
        np.save(path / "pred_probs.npy", pred_probs.astype(np.float32))
        k = pred_probs.shape[1]
        data = {"class_names": names or [f"class {c}" for c in range(k)]}
        write_toml(path / "config.toml", {"data": data | ({"noise": spec} if spec else {})})
        return path

    return write


@pytest.fixture
def pair(write_run):
    """A clean and a noisy run of the same 3,000 samples, rows in different orders, and the truth
    behind them: eta, T, given labels and f by sample index."""

    def build(*, with_truth=True, spec=None, n=3000, k=3):
        rng = np.random.default_rng(0)
        eta = rng.dirichlet(np.full(k, 0.4), n)
        T = noise.uniform(k, 0.2)
        truth = (rng.random(n)[:, None] >= np.cumsum(eta, axis=1)[:, :-1]).sum(axis=1)
        given = noise.inject(truth, T, rng)
        f = 0.98 * eta @ T + 0.02 * rng.dirichlet(np.ones(k), n)
        index = 10 + 3 * np.arange(n)
        a, b = rng.permutation(n), rng.permutation(n)[: n - 100]
        noisy = write_run(
            "noisy", index[a], given[a], f[a], truth=truth[a] if with_truth else None, spec=spec
        )
        clean = write_run("clean", index[b], truth[b], eta[b])
        kept = np.sort(b)
        return noisy, clean, {"eta": eta[kept], "given": given[kept], "f": f[kept], "T": T}

    return build

import numpy as np
import pytest


@pytest.fixture
def problem():
    """Labels, probabilities and names, as arrays: 4 classes, 30% wrong labels, 3,000 rows."""
    from adacorr.core import noise

    rng = np.random.default_rng(0)
    n, names = 3000, np.array(["cat", "dog", "big bird", "fish"])
    T = noise.uniform(4, 0.3)
    true = rng.integers(0, 4, n)
    eta = 0.3 * rng.dirichlet(np.full(4, 0.3), n)
    eta[np.arange(n), true] += 0.7
    f = (eta @ T).astype(np.float32)
    return noise.inject(true, T, 1), f, names

"""A real data set with known label errors, small enough to refit many times."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from adacorr import noise


@pytest.fixture(scope="session")
def iris():
    """Features, true labels, and labels of which 20% are wrong."""
    X, truth = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    order = np.random.default_rng(0).permutation(len(X))
    X, truth = X[order], truth[order]
    return X, truth, noise.inject(truth, noise.uniform(3, 0.2), rng=3)

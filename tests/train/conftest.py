import numpy as np
import pytest
import torch
from torch import nn

from adacorr.core import noise


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small nets are faster so, and nothing else shares the cores."""
    torch.set_num_threads(1)


@pytest.fixture
def blobs():
    """Three groups of points, 30% of their labels wrong: X, truth, given."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 150)
    X = (rng.normal(size=(150, 4)) + 4 * np.eye(3, 4)[truth]).astype(np.float32)
    return X, truth, noise.inject(truth, noise.uniform(3, 0.3), rng)


@pytest.fixture
def images():
    """Random colour images and labels, for plumbing only."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (90, 8, 8, 3), dtype=np.uint8), rng.integers(0, 3, 90)


def small_mlp(k: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, k))


def small_cnn(k: int) -> nn.Module:
    """Everything that makes an exact resumption hard: batch norm, dropout, channels last."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Conv2d(6, 6, 3, stride=2, padding=1),
        nn.Flatten(),
        nn.Linear(96, k),
    )


@pytest.fixture
def mlp():
    return small_mlp


@pytest.fixture
def cnn():
    return small_cnn

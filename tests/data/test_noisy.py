import numpy as np
import pytest

from adacorr.core.noise import inject, uniform
from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset
from adacorr.data.noisy import with_noise


def dataset(truth=None):
    labels = np.arange(300) % 3
    return Dataset("toy", np.zeros((300, 2), np.float32), labels, ("a", "b", "c"), truth=truth)


def test_no_noise_is_the_data_as_they_are():
    data = dataset()
    assert with_noise(data, None, seed=1) == (data, None)


def test_labels_are_the_truth_where_the_source_knows_no_other():
    data = dataset()
    noisy, truth = with_noise(data, "uniform:0.4", seed=1)
    assert truth is data.labels
    wanted = inject(data.labels, uniform(3, 0.4), np.random.default_rng([1, 1]))
    assert noisy.labels.tolist() == wanted.tolist()
    assert 0.2 < (noisy.labels != truth).mean() < 0.5


def test_noise_is_put_on_the_truth_and_training_never_sees_it():
    truth = (np.arange(300) + 1) % 3
    noisy, found = with_noise(dataset(truth), "pair:0.2", seed=0)
    assert found is truth
    assert noisy.truth is None
    assert 0.7 < (noisy.labels == truth).mean() < 0.9


def test_unknown_noise_is_named():
    with pytest.raises(InputError, match="salt"):
        with_noise(dataset(), "salt:0.2", seed=0)

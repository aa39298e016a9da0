import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.review.beside import Beside
from adacorr.review.queue import load_rows
from adacorr.runs.reader import RunData


@pytest.fixture
def opened(make_run):
    def start(features=None, **options):
        run = make_run(n=50, **options)
        if features is not None:
            np.save(run.path / "features.npy", features)
        data = RunData.open(run)
        return Beside.open(data, load_rows(data))

    return start


def test_the_nearest_rows_by_cosine(opened):
    features = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    features[9] = 0  # has no direction: it is nobody's neighbour
    beside = opened(features)
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
    for row in range(0, 50, 7):
        near = unit @ unit[row]
        near[[row, 9]] = -2
        assert beside.nearest(row, 6).tolist() == np.argsort(-near)[:6].tolist()
    assert 9 not in beside.nearest(3, 49)


def test_examples_are_of_the_class_and_sure(opened):
    beside = opened()
    f, given = np.asarray(beside.data.pred_probs), beside.rows.given
    rows = np.flatnonzero(given == 2)
    best = rows[np.argsort(-f[rows, 2], kind="stable")]
    assert beside.examples(2, apart_from=-1).tolist() == best[:3].tolist()
    assert beside.examples(2, apart_from=int(best[0])).tolist() == best[1:4].tolist()
    assert beside.nearest(0).tolist() == []  # the run has no features
    told = beside.of(0, [1, 2])
    assert [part["label"] for part in told["examples"]] == [1, 2]
    assert all(given[one["sample"]] == 1 for one in told["examples"][0]["rows"])


@pytest.mark.parametrize("wrong", [np.zeros((49, 5)), np.zeros(50), np.zeros((50, 5), int)])
def test_other_features_are_named(opened, wrong):
    with pytest.raises(InputError, match=r"features\.npy: expected floats of shape \(50, D\)"):
        opened(wrong)

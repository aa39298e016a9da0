import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from adacorr import noise
from adacorr.estimators import AdaCorrClassifier
from adacorr.train import AdaCorr

QUICK = {"epochs": 10, "lr": 0.02, "batch_size": 64}
ENOUGH = {"epochs": 40, "lr": 0.01, "batch_size": 32}


@parametrize_with_checks([AdaCorrClassifier(**QUICK)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_corrects_labels_with_names():
    X, truth = make_blobs(450, centers=[[-4, -4], [4, 4], [4, -4]], random_state=0)
    given = noise.inject(truth, noise.uniform(3, 0.2), rng=0)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = AdaCorrClassifier(**ENOUGH).fit(X, names[given])
    assert (model.corrected_labels_ == names[truth]).mean() > (given == truth).mean() + 0.1
    assert model.score(X, names[truth]) > 0.8  # 45 noisy rows choose the epoch
    assert model.pred_probs_.shape == (450, 3)
    assert len(model.history_) == 40


def test_in_pipeline_search_clone_and_pickle(iris):
    X, _, given = iris
    pipe = make_pipeline(StandardScaler(), AdaCorrClassifier(**QUICK))
    assert cross_val_score(pipe, X, given, cv=2).mean() > 0.5
    grid = {"adacorrclassifier__method": ["standard", AdaCorr(recipe="released")]}
    search = GridSearchCV(pipe, grid, cv=2).fit(X, given)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))
    assert clone(pipe).get_params()["adacorrclassifier__epochs"] == 10


def test_any_module_and_images():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.integers(0, 100, (60, 8, 8, 1)).astype(np.uint8)
    X[y == 1, :4] += 150
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    model = AdaCorrClassifier(net, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.9
    assert isinstance(model.model_.nets[0], torch.nn.Sequential)
    named = AdaCorrClassifier("cnn:filters=8,hidden=16", **ENOUGH).fit(X, y)
    assert named.score(X, y) > 0.9


def test_same_seed_same_model(iris):
    X, _, given = iris
    probs = [
        AdaCorrClassifier(**QUICK, random_state=seed).fit(X, given).predict_proba(X)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(probs[0], probs[1])
    assert not np.array_equal(probs[0], probs[2])


def test_unknown_method_is_refused(iris):
    X, _, given = iris
    with pytest.raises(ValueError, match="method: expected one of standard"):
        AdaCorrClassifier(method="magic").fit(X, given)


def test_torch_is_imported_by_fit_only_and_its_absence_explained():
    code = """
import sys
class NoTorch:  # as if it were not installed
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
sys.meta_path.insert(0, NoTorch())
from adacorr import noise
from adacorr.estimators import AdaCorrClassifier
try:
    AdaCorrClassifier().fit([[0.0], [1.0]], [0, 1])
except ImportError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'adacorr[train]'" in out.stdout


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x[..., None] / 16,
        lambda x: x / 16,
        lambda x: (x[:, None] * 15).astype(np.uint8),
        lambda x: x[..., None],
    ],
    ids=["floats", "no channel", "channels first", "floats up to 16"],
)
def test_images_in_every_form(form):
    data = load_digits()
    X, y = form(data.images[:300]), data.target[:300]
    model = AdaCorrClassifier(epochs=2).fit(X, y)
    assert type(model.model_.nets[0]).__name__ == "SmallCNN"
    some = np.argmin(X.reshape(len(X), -1).max(axis=1))  # a batch may be darker than the rest
    alone = model.predict_proba(X[some : some + 1] / (4 if X.dtype.kind == "f" else 1))
    assert alone.shape == (1, 10)
    np.testing.assert_allclose(model.predict_proba(X)[:5], model.predict_proba(X[:5]), atol=1e-4)


def test_the_scale_of_the_pixels_is_that_of_fit():
    data = load_digits()
    model = AdaCorrClassifier(epochs=1).fit(data.images[:100, :, :, None] / 16, data.target[:100])
    with pytest.raises(ValueError, match=r"expected pixels in \[0, 1\], got 0 to 16"):
        model.predict(data.images[:5, :, :, None])


def test_verified_rows_keep_their_label():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 60)
    X = (rng.normal(size=(120, 2)) + np.where(y == "a", -3, 3)[:, None]).astype(np.float32)
    model = AdaCorrClassifier(epochs=2, method="standard").fit(X, y, verified={3: "b", 70: "a"})
    assert model.corrected_labels_[[3, 70]].tolist() == ["b", "a"]
    assert model.correction_.certificate.fixed == 2

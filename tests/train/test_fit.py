import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import adacorr
from adacorr.core import noise
from adacorr.core.validation import InputError
from adacorr.data import Dataset
from adacorr.runs.directory import Run
from adacorr.train import AdaCorr, CoTeaching, Settings, Standard, fit
from adacorr.train.fitting import default_method
from adacorr.train.output import PREDICTED_BY
from adacorr.train.saved import load_model

QUICK = {"epochs": 4, "batch_size": 32}


class Lazy:
    def __init__(self, X):
        self.X = X

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i], None


def test_adacorr_corrects_labels(mlp):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    X = (rng.normal(size=(400, 4)) + 4 * np.eye(3, 4)[truth]).astype(np.float32)
    given = noise.inject(truth, noise.uniform(3, 0.3), rng)
    result = fit(mlp, X, given, epochs=40, lr=0.01, batch_size=32)
    assert (result.labels == truth).mean() > 0.93 > (given == truth).mean() + 0.2
    assert (result.predict_proba(X).argmax(axis=1) == truth).mean() > 0.93
    np.testing.assert_allclose(result.pred_probs.sum(axis=1), 1, rtol=1e-5)
    assert result.history[-1]["changed"] > 0
    assert any("burn-in ends" in note for r in result.history for note in r.get("notes", []))


def test_same_seed_same_result_and_nothing_of_the_users_changes(images, cnn):
    X, y = images
    X.setflags(write=False)
    y.setflags(write=False)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    method = AdaCorr(burn_in=1)
    results = [fit(cnn, X, y, method=method, seed=s, **QUICK) for s in (1, 1, 2)]
    assert torch.random.get_rng_state().equal(before)
    assert method == AdaCorr(burn_in=1)
    assert vars(method) == vars(AdaCorr(burn_in=1))
    a, b, c = (r.pred_probs for r in results)
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


@pytest.mark.parametrize("workers", [0, 2])
def test_lazy_data_and_workers_change_nothing(images, cnn, workers):
    X, y = images
    memory = fit(cnn, X, y, method=Standard(), epochs=2)
    lazy = fit(cnn, Lazy(X), y, method=Standard(), epochs=2, workers=workers)
    np.testing.assert_array_equal(memory.pred_probs, lazy.pred_probs)


def test_names_in_names_out(blobs, mlp):
    X, _, given = blobs
    names = np.array(["ash", "elm", "oak"])
    result = fit(mlp, X, names[given], method=Standard(), **QUICK)
    np.testing.assert_array_equal(result.labels, names[given])
    assert result.correction is not None
    assert result.correction.note in repr(result)
    assert "<td" in result._repr_html_()
    assert set(re.findall(r">(ash|elm|oak)<", result._repr_html_()))
    assert result.plot().axes
    numbers = fit(mlp, X, given, method=Standard(), **QUICK)
    np.testing.assert_array_equal(result.pred_probs, numbers.pred_probs)


def test_verified_rows_keep_their_label_and_the_net_is_the_same(blobs, mlp):
    X, truth, given = blobs
    said = {int(row): int(truth[row]) for row in np.flatnonzero(given != truth)[:20]}
    plain = fit(mlp, X, given, method=Standard(), **QUICK)
    asked = fit(mlp, X, given, method=Standard(), verified=said, **QUICK)
    assert asked.labels[list(said)].tolist() == list(said.values())
    assert asked.correction is not None
    assert asked.correction.certificate is not None
    assert asked.correction.certificate.fixed == 20
    np.testing.assert_array_equal(asked.pred_probs, plain.pred_probs)
    with pytest.raises(InputError, match="verified: expected only where labels are corrected"):
        fit(mlp, X, given, method=Standard(), verified=said, correct=False, **QUICK)


class Secret(Dataset):
    """A dataset that knows the truth and does not tell."""

    def __getattribute__(self, name):
        if name == "truth":
            raise AssertionError("training looked at the truth")
        return super().__getattribute__(name)


def test_the_truth_is_never_looked_at(blobs, mlp):
    X, truth, given = blobs
    data = Secret("toy", X, given, ("a", "b", "c"), truth)
    plain = Dataset("toy", X, given, ("a", "b", "c"))
    results = [fit(mlp, d, **QUICK) for d in (data, plain)]
    np.testing.assert_array_equal(results[0].labels, results[1].labels)


def test_clean_validation_trains_on_every_sample(blobs, mlp):
    X, truth, given = blobs
    result = fit(mlp, X, given, method=Standard(), validation=(X[:30], truth[:30]), **QUICK)
    assert len(result.validation_index) == 0
    right = result.predict_proba(X[:30]).argmax(axis=1) == truth[:30]
    best = result.history[result.selected_epoch - 1]["val_accuracy"]
    assert best == pytest.approx(right.mean(), abs=1e-5)


def test_the_run_directory(blobs, mlp, tmp_path):
    X, _, given = blobs
    result = fit(
        mlp,
        X,
        given,
        run_dir=tmp_path / "run",
        class_names=["a", 'b "quoted"', "c"],
        on_epoch=lambda end: {"twice": 2 * end.epoch, "rows": len(end.labels)},
        config={"data": {"source": "toy"}},
        **QUICK,
    )
    run = Run.open(tmp_path / "run")
    assert run.class_names() == ["a", 'b "quoted"', "c"]
    assert run.config()["data"]["source"] == "toy"
    assert run.config()["train"]["epochs"] == 4
    assert run.metrics() == json.loads(json.dumps(result.history))
    assert [r["twice"] for r in run.metrics()] == [2, 4, 6, 8]
    assert {r["rows"] for r in run.metrics()} == {150}
    table = run.labels().to_pydict()
    np.testing.assert_array_equal(table["given"], given)
    np.testing.assert_array_equal(table["corrected"], result.labels)
    np.testing.assert_array_equal(table["flipped"], result.labels != given)
    np.testing.assert_array_equal(table["ratio"], result.correction.ratio)
    held = [i for i, part in enumerate(table["split"]) if part == "validation"]
    np.testing.assert_array_equal(held, result.validation_index)
    np.testing.assert_array_equal(run.pred_probs(), result.out_of_fold)
    np.testing.assert_array_equal(load_model(run, mlp).predict_proba(X), result.pred_probs)
    assert run.config()["result"]["flipped"] == result.correction.n_flipped
    assert run.config()["correct"] == {"delta": "auto"}


def test_the_labels_handed_out_are_the_rules_word_on_unlearnt_predictions(blobs, mlp, tmp_path):
    """Whatever the method: the same labels, and what is stated of them is in the run."""
    X, truth, given = blobs
    options = {"epochs": 40, "lr": 0.01, "batch_size": 32}
    results = [
        fit(mlp, X, given, method=method, run_dir=tmp_path / method.name, **options)
        for method in (AdaCorr(burn_in=1), Standard())
    ]
    np.testing.assert_array_equal(results[0].labels, results[1].labels)
    assert (results[0].trained_labels != results[0].labels).any()
    assert (results[1].trained_labels == given).all()
    by_hand = adacorr.correct(given, results[0].out_of_fold)
    np.testing.assert_array_equal(results[0].labels, by_hand.labels)
    assert (by_hand.labels == truth).mean() > (given == truth).mean() + 0.2
    run = Run.open(tmp_path / "standard")
    table, result = run.labels(), run.config()["result"]
    for column, value in (
        ("corrected", "labels"),
        ("ratio", "ratio"),
        ("confidence", "confidence"),
    ):
        np.testing.assert_array_equal(table[column], getattr(by_hand, value))  # of one decision
    assert run.config()["rule"]["decision"] == PREDICTED_BY
    flipped, sure = table["flipped"].to_numpy(), table["confidence"].to_numpy()
    assert result["expected_wrong_flips"] == pytest.approx((1 - sure)[flipped].sum())
    assert result["expected_missed_errors"] == pytest.approx((1 - sure)[~flipped].sum())
    assert result["noise_rate"] == by_hand.noise_rate


def test_training_alone_changes_no_label(blobs, mlp, tmp_path):
    X, _, given = blobs
    method = AdaCorr(burn_in=1)
    result = fit(mlp, X, given, method=method, correct=False, run_dir=tmp_path / "run", **QUICK)
    np.testing.assert_array_equal(result.labels, given)
    assert result.correction is None
    assert result.out_of_fold is None
    run = Run.open(tmp_path / "run")
    assert not run.labels()["flipped"].to_numpy().any()
    np.testing.assert_array_equal(run.pred_probs(), result.pred_probs)
    assert "correct" not in run.config()


@pytest.mark.parametrize("name", ["forgetting", "coteaching", "abstention", "forward"])
def test_every_shape_of_method_comes_back_from_disk(blobs, tmp_path, name):
    from adacorr.train import METHODS

    X, _, given = blobs
    result = fit("mlp:hidden=8", X, given, method=METHODS[name](), run_dir=tmp_path / "r", **QUICK)
    model = load_model(Run.open(tmp_path / "r"))
    np.testing.assert_array_equal(model.predict_proba(X), result.pred_probs)


def test_the_default_is_two_nets_and_of_a_module_there_is_one(mlp):
    assert default_method("mlp").name == default_method(mlp).name == "posterior"
    assert default_method(None).twins
    assert default_method(mlp(3)).name == "adacorr"


def test_a_module_may_be_passed(blobs, mlp):
    X, _, given = blobs
    net = mlp(3)
    before = [p.clone() for p in net.parameters()]
    fit(net, X, given, method=Standard(), **QUICK)
    assert all(a.equal(b) for a, b in zip(before, net.parameters(), strict=True))
    with pytest.raises(InputError, match="expected a factory k -> module for coteaching"):
        fit(net, X, given, method=CoTeaching(), **QUICK)


def test_bfloat16(blobs, mlp):
    X, _, given = blobs
    result = fit(mlp, X, given, method=Standard(), mixed_precision="bf16", **QUICK)
    exact = fit(mlp, X, given, method=Standard(), **QUICK)
    np.testing.assert_allclose(result.pred_probs, exact.pred_probs, atol=0.05)
    assert (result.pred_probs != exact.pred_probs).any()


def test_bad_input_is_one_line(blobs, mlp, tmp_path):
    X, _, y = blobs
    cases = [
        ((X, np.zeros(150, int)), {}, "two classes or more, got one only"),
        ((X, y[:-1]), {}, "one per sample, got 149 for 150 samples"),
        ((X, y), {"class_names": ["a", "b"]}, r"integers in \[0, 2\), got 2"),
        ((X, y - 1), {}, r"got -1 in row"),
        ((X, None), {}, "labels: expected one per sample, got none"),
        ((X, y), {"validation": 1.5}, "fraction between 0 and 1, got 1.5"),
        ((X, y), {"validation": (X[:, :2], y)}, r"samples of shape \(4,\), got \(2,\)"),
        ((X, y), {"validation": (X, y[:5])}, "one label per sample, got 5 for 150"),
        ((X[:2], y[:2] * 0 + [0, 1]), {}, "expected more samples than 2"),
        ((X, y), {"resume": True}, "expected run_dir to resume from"),
        ((X, y), {"resume": True, "run_dir": tmp_path}, "got no usable one"),
        ((X, y), {"lr": -1.0}, "lr: expected a positive number, got -1"),
        ((X, y), {"batch_size": 1}, "batch_size: expected at least 2, got 1"),
    ]
    for (data, labels), options, message in cases:
        with pytest.raises(InputError, match=message):
            fit(mlp, data, labels, method=Standard(), **{"epochs": 1, **options})


def test_a_run_directory_is_not_overwritten(blobs, mlp, tmp_path):
    X, _, y = blobs
    fit(mlp, X, y, method=Standard(), epochs=1, run_dir=tmp_path)
    with pytest.raises(InputError, match="expected a new run directory, got one with a run in it"):
        fit(mlp, X, y, method=Standard(), epochs=1, run_dir=tmp_path)


def test_settings_are_checked_once():
    assert replace(Settings(), lr=0.1).lr == 0.1
    for bad in ({"epochs": 0}, {"optimizer": "adam"}, {"seed": -1}, {"mixed_precision": "fp8"}):
        with pytest.raises(InputError, match=next(iter(bad))):
            Settings(**bad)


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (np.zeros((20, 8, 8, 1)), r"samples of \(8, 8, 1\), floats"),
        (np.zeros((20, 8, 8)), r"samples of \(8, 8\), floats"),
        (np.zeros((20, 1, 8, 8), np.uint8), r"samples of \(1, 8, 8\), channels first"),
    ],
)
def test_images_that_no_net_by_name_takes_are_one_line(data, got):
    with pytest.raises(ValueError, match=f"data: expected uint8 images .*{got}"):
        fit(None, data, np.arange(20) % 2, epochs=1)

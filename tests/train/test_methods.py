"""One contract for every method, and what each promises beyond its loss."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
import torch
from torch import nn

from adacorr.core import noise
from adacorr.core.validation import InputError
from adacorr.train import fit
from adacorr.train.methods import (
    METHODS,
    Abstention,
    AdaCorr,
    Backward,
    CoTeaching,
    Forward,
    MentorNet,
    Posterior,
)
from adacorr.train.methods.base import DROPPED, EpochEnd, Setting, Step
from adacorr.train.methods.parts.guard import LabelGuard
from adacorr.train.methods.parts.halves import Halves
from adacorr.train.methods.parts.noise_rate import (
    disagreement,
    estimate_noise_rate,
    sure_as_right,
    surest_noise_rate,
)
from adacorr.train.methods.parts.plateau import Plateau
from adacorr.train.methods.parts.snapshot import Snapshot
from adacorr.train.methods.posterior import estimate_sources, sources_are_named

N, D, K, EPOCHS = 120, 5, 3, 12
CPU = torch.device("cpu")
ONE = torch.ones(())


def make_net(k: int) -> nn.Module:
    return nn.Sequential(nn.Linear(D, 16), nn.ReLU(), nn.Linear(16, k))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    truth = np.arange(N) % K
    x = (rng.normal(size=(N, D)) + 2.5 * np.eye(K, D)[truth]).astype(np.float32)
    return x, noise.inject(truth, noise.uniform(K, 0.3), rng), truth


def started(method, labels: torch.Tensor, epochs: int = EPOCHS):
    method.start(Setting(labels, K, epochs, CPU))
    return method


def step(method, epoch: int, labels: torch.Tensor, seed: int = 0):
    """A batch through fresh nets of the stage that `epoch` belongs to."""
    torch.manual_seed(seed)
    first = method.stages(EPOCHS)[0]
    method.stage = int(epoch > first)
    nets = method.build(make_net, K)
    index = torch.arange(32)
    x = torch.randn(32, D)
    logits = tuple(net(x) for net in nets)
    generator = torch.Generator().manual_seed(seed)
    forward = lambda i, x: nets[i](x)  # noqa: E731
    return nets, logits, Step(logits, labels[index], index, epoch, generator, x, forward)


def bare_step(logits, labels, epoch: int = 6):
    """A whole data set as one batch of one net, whose input nobody asks for."""
    index = torch.arange(len(labels))
    nothing = torch.empty(len(labels), 0)
    return Step((logits,), labels, index, epoch, torch.Generator(), nothing, lambda i, x: x)


def finished_epochs(method, labels: torch.Tensor, until: int) -> torch.Tensor:
    """Let the method see the ends of epochs 1..until with fixed, plausible predictions."""
    g = torch.Generator().manual_seed(1)
    f = (2 * torch.randn(N, K, generator=g)).softmax(dim=1)
    history = []
    for epoch in range(1, until + 1):
        _, _, s = step(method, epoch, labels.clamp_min(0))
        method.loss(s)
        history.append(
            {"epoch": epoch, "loss": 1.0, "train_accuracy": 0.6}
            | {"steps": 100 * epoch, "confidence": 0.6}
            | {"val_accuracy": 0.6, "val_loss": 1.0 + 0.1 * epoch}
        )
        before = labels.clone()
        end = EpochEnd(epoch, labels, f, lambda: f, tuple(history), lambda line: None)
        out = method.end_epoch(end)
        assert torch.equal(labels, before), "end_epoch must not write into the labels it is given"
        if not torch.equal(out, labels):
            assert out.data_ptr() != labels.data_ptr()
        labels = out
    return labels


@pytest.fixture(params=METHODS, ids=str)
def make(request):
    return METHODS[request.param]


# -- the contract, over every method -------------------------------------------------------------


def test_names_are_those_of_the_design():
    design = "standard forgetting forward backward decoupling mentornet coteaching abstention"
    assert {*design.split(), "adacorr"} <= set(METHODS)
    for name, cls in METHODS.items():
        assert cls.name == name
        assert dataclasses.is_dataclass(cls)
        assert cls.__doc__
        source = inspect.getmodule(cls).__doc__ or ""
        assert name == "standard" or "20" in source, "the module names its source and year"


@pytest.mark.parametrize("epoch", [1, 4, 8, 12])
def test_a_gradient_reaches_each_net(make, epoch):
    labels = torch.arange(N) % K
    method = started(make(), labels)
    finished_epochs(method, labels, epoch - 1)
    nets, _, s = step(method, epoch, labels)
    loss = method.loss(s)
    assert loss.ndim == 0
    assert loss.isfinite()
    loss.backward()
    for net in nets:
        grads = [p.grad for p in net.parameters()]
        assert all(g is not None for g in grads)
        assert any(g.abs().sum() > 0 for g in grads)


def test_inputs_stay_unchanged(make):
    labels = torch.arange(N) % K
    method = started(make(), labels)
    for epoch in (1, 6, 12):
        _, logits, s = step(method, epoch, labels)
        before = [z.detach().clone() for z in logits]
        y, index = s.labels.clone(), s.index.clone()
        method.loss(s)
        method.proba(tuple(z.detach() for z in logits))
        assert all(torch.equal(a, b) for a, b in zip(before, logits, strict=True))
        assert torch.equal(y, s.labels)
        assert torch.equal(index, s.index)
    assert torch.equal(labels, torch.arange(N) % K)


def test_proba_rows_sum_to_one(make):
    labels = torch.arange(N) % K
    method = started(make(), labels)
    for epoch in (1, 12):
        _, logits, _ = step(method, epoch, labels)
        f = method.proba(logits)
        assert f.shape == (32, K)
        assert (f >= 0).all()
        torch.testing.assert_close(f.sum(dim=1), torch.ones(32))


def test_labels_end_as_classes_or_dropped(make):
    labels = torch.arange(N) % K
    out = finished_epochs(started(make(), labels), labels, EPOCHS)
    assert out.shape == (N,)
    assert out.dtype == torch.int64
    assert (out >= (DROPPED if make is Abstention else 0)).all()
    assert (out < K).all()


@pytest.mark.parametrize("until", [1, 3, 6, 9])
def test_state_round_trips(make, until):
    """A copy that got the state goes on exactly as the original does."""
    labels = torch.arange(N) % K
    first, second = started(make(), labels), started(make(), labels)
    current = finished_epochs(first, labels, until)
    second.load_state({name: tensor.clone() for name, tensor in first.state().items()})
    assert first.state().keys() == second.state().keys()
    for name, tensor in first.state().items():
        assert isinstance(tensor, torch.Tensor)
        torch.testing.assert_close(second.state()[name], tensor, rtol=0, atol=0, equal_nan=True)
    losses = []
    for method in (first, second):
        _, _, s = step(method, until + 1, current.clamp_min(0))
        losses.append(method.loss(s).item())
    assert losses[0] == losses[1]


def test_same_seed_same_result(make, problem):
    x, given, _ = problem
    runs = [
        fit(make_net, x, given, method=make(), epochs=EPOCHS, batch_size=32, seed=3)
        for _ in range(2)
    ]
    assert np.array_equal(runs[0].labels, runs[1].labels)
    assert np.array_equal(runs[0].pred_probs, runs[1].pred_probs)
    np.testing.assert_allclose(runs[0].pred_probs.sum(axis=1), 1, atol=1e-5)
    assert runs[0].history[-1]["loss"] == runs[1].history[-1]["loss"]


def test_stages_fill_the_run(make):
    for epochs in (6, 30, 180):
        lengths = make().stages(epochs)
        assert sum(lengths) == epochs
        assert min(lengths) >= 1


# -- burn-in -------------------------------------------------------------------------------------


def lines(accuracy, loss, train=0.5, *, confidence=0.5, steps=100):
    return [
        {"val_accuracy": a, "val_loss": b, "train_accuracy": train}
        | {"confidence": confidence, "steps": steps}
        for a, b in zip(accuracy, loss, strict=True)
    ]


def ends_at(history):
    rule = Plateau.for_run(30, torch.arange(10))
    for epoch in range(1, len(history) + 1):
        if why := rule.reason(history[:epoch]):
            return epoch, why
    return None


def test_plateau_ends_where_accuracy_stands():
    # noisy validation of a small net on MNIST with uniform noise 0.4, then of one with 0.8
    accuracy = [0.472, 0.539, 0.556, 0.566, 0.569, 0.568, 0.570, 0.561]
    loss = [1.935, 1.769, 1.702, 1.686, 1.684, 1.682, 1.688, 1.705]
    epoch, why = ends_at(lines(accuracy, loss))
    assert epoch == 6
    assert "stands at 0.569" in why
    accuracy = [0.127, 0.139, 0.154, 0.162, 0.165, 0.162]
    loss = [2.293, 2.294, 2.292, 2.298, 2.300, 2.321]
    epoch, why = ends_at(lines(accuracy, loss))
    assert epoch == 5
    assert "rises" in why


def test_plateau_waits_while_only_the_loss_still_falls():
    """With few validation samples accuracy stands by chance; the loss tells."""
    falling = [2 * 0.9 ** min(e, 12) for e in range(16)]
    epoch, why = ends_at(lines([0.5] * 16, falling))
    assert epoch == 15
    assert "stands" in why


def test_plateau_ends_late_though_accuracy_still_rises_a_little():
    slowly = [2 * 0.99**e for e in range(12)]
    epoch, why = ends_at(lines([0.4 + 0.01 * e for e in range(12)], slowly))
    assert epoch == 10
    assert "third" in why


def test_plateau_is_not_the_slow_start():
    nothing_learnt = lines([0.1] * 9, [2.3] * 9, train=0.1)
    assert ends_at(nothing_learnt) is None
    hardly = lines([0.11] * 30, [2.3] * 30, train=0.12)  # not even where a third is over
    assert ends_at(hardly) is None
    assert ends_at(lines([0.1] * 9, [2.3] * 9, train=0.2))[0] == 3


def test_plateau_waits_through_one_bad_epoch():
    rising = [0.1 + 0.02 * e - (0.03 if e == 5 else 0) for e in range(9)]
    assert ends_at(lines(rising, [2 - 0.05 * e for e in range(9)])) is None


def test_plateau_without_validation_ends_at_a_third():
    unknown = lines([None] * 10, [None] * 10)
    assert ends_at(unknown[:9]) is None
    assert "third" in ends_at(unknown)[1]


def test_auto_burn_in_is_logged_and_found_before_memorising(problem):
    x, given, _ = problem
    notes = []

    class Listener:
        def batch(self, *_): ...
        def epoch(self, *_): ...
        def log(self, line):
            notes.append(line)

    settings = {"epochs": 30, "batch_size": 8, "lr": 0.01}
    fit(make_net, x, given, method=AdaCorr(), progress=Listener(), **settings)
    (line,) = [note for note in notes if "burn-in ends" in note]
    assert int(line.split()[1].rstrip(":")) <= 10


def test_plateau_waits_for_a_net_that_still_learns_fast():
    rising = lines([None] * 14, [None] * 14)
    for epoch, line in enumerate(rising):
        line["train_accuracy"] = line["confidence"] = min(0.1 * 1.2**epoch, 0.8)
    epoch, _ = ends_at(rising)
    assert rising[epoch - 1]["train_accuracy"] == 0.8


def test_plateau_does_not_take_learning_by_heart_for_learning():
    # a small net on Fashion-MNIST with uniform noise 0.8, where it went on to the last epoch
    train = [0.114, 0.156, 0.172, 0.183, 0.201, 0.225, 0.257, 0.289]
    accuracy = [0.143, 0.177, 0.187, 0.184, 0.171, 0.148, 0.168, 0.142]
    loss = [2.288, 2.283, 2.2748, 2.2751, 2.288, 2.306, 2.296, 2.326]
    history = lines(accuracy, loss, confidence=0.18)
    for line, share in zip(history, train, strict=True):
        line["train_accuracy"] = share
    epoch, why = ends_at(history)
    assert epoch == 5
    assert "rises" in why


@pytest.mark.parametrize("unready", [{"confidence": 0.2}, {"steps": 20}])
def test_plateau_waits_for_a_net_that_is_unsure_or_hardly_trained(unready):
    standing = [0.5] * 12, [1.0] * 12
    assert ends_at(lines(*standing))[0] == 3
    assert ends_at(lines(*standing, **unready)) is None


def unseen_ends_at(accuracy, n=9000, **more):
    rule = Plateau.for_run(30, torch.arange(10))
    history = [lines([0.5], [1.0], train, **more)[0] for train in accuracy]
    ends = (e for e in range(1, len(history) + 1) if rule.reason_unseen(history[:e], n))
    return next(ends, None)


def test_burn_in_ends_where_accuracy_on_labels_not_learnt_from_stands():
    # two nets on halves of Fashion-MNIST with uniform noise 0.4, then of another draw with 0.8
    accuracy = [0.284, 0.449, 0.477, 0.491, 0.494, 0.495, 0.490, 0.486]
    assert unseen_ends_at(accuracy) == 6
    weak = [0.105, 0.129, 0.136, 0.136, 0.131, 0.126, 0.120, 0.119]
    assert unseen_ends_at(weak) == 5  # not at 4, when a fifth of what it knows is two epochs old
    assert unseen_ends_at(weak, steps=20) is None
    assert unseen_ends_at([0.102, 0.108, 0.104, 0.106, 0.103] * 6) is None
    rising = [0.4 + 0.01 * epoch for epoch in range(1, 20)]
    assert unseen_ends_at(rising) == 10  # a third of the run
    slow = [0.112, 0.114, 0.119, 0.131, 0.136, 0.143, 0.150, 0.158, 0.168, 0.181, 0.196, 0.213]
    assert unseen_ends_at(slow, n=2700) is None  # 2,700 labels: no step of it is clear, all are


def test_halves_give_each_net_half_of_each_class():
    labels = torch.arange(4000) % 4  # sorted like a pattern: a plain alternation would fail
    halves, index = Halves(labels), torch.arange(4000)
    first, second = halves.weight(index, 0), halves.weight(index, 1)
    torch.testing.assert_close(first + second, torch.full((4000,), 2.0))
    for k in range(4):
        assert first[labels == k].mean().item() == pytest.approx(1, abs=0.01)
    a, b = torch.zeros(4000, 2), torch.ones(4000, 2)
    assert torch.equal(halves.unseen(a, b, index)[:, 0] == 1, first > 0)


def test_posterior_predicts_labels_that_it_did_not_learn_from():
    """Labels drawn by lot can only be learnt by heart: burn-in sees none of that."""
    rng = np.random.default_rng(0)
    x, given = rng.normal(size=(600, D)).astype(np.float32), rng.integers(0, K, 600)
    hard = {"epochs": 60, "batch_size": 16, "lr": 1e-2}
    net = lambda k: nn.Sequential(nn.Linear(D, 128), nn.ReLU(), nn.Linear(128, k))  # noqa: E731
    learnt = [
        fit(net, x, given, method=method, **hard).history[-1]["train_accuracy"]
        for method in (METHODS["standard"](), Posterior(burn_in=60))
    ]
    assert learnt[0] > 0.5
    assert learnt[1] == pytest.approx(1 / K, abs=0.06)


def test_posterior_that_learns_nothing_ends_like_standard_training():
    """Labels by lot: after half of the run both nets learn from all samples, none is corrected."""
    rng = np.random.default_rng(0)
    x, given = rng.normal(size=(600, D)).astype(np.float32), rng.integers(0, K, 600)
    result = fit(make_net, x, given, method=Posterior(), epochs=20, batch_size=16, lr=2e-2)
    assert (result.labels == given).all()
    learnt = [line["train_accuracy"] for line in result.history]
    assert learnt[9] == pytest.approx(1 / K, abs=0.06)
    assert learnt[-1] > 0.42
    (epoch,) = [line["epoch"] for line in result.history if "notes" in line]
    assert epoch == 10


@pytest.mark.parametrize(("errors", "replaced"), [(0.1, True), (0.6, False)])
def test_posterior_of_a_net_worse_than_the_labels_replaces_none(errors, replaced):
    """It leaves labels out while it trains; after the last epoch they are the given ones again."""
    rng = np.random.default_rng(0)
    truth = np.arange(6000) % K
    named = np.where(rng.random(6000) < errors, (truth + rng.integers(1, K, 6000)) % K, truth)
    sure = np.where(named == truth, rng.random(6000), 0.8 * rng.random(6000))  # right where surest
    f = torch.from_numpy((0.4 + 0.5 * sure[:, None]) * np.eye(K)[named] + 0.1 / K).float()
    f /= f.sum(dim=1, keepdim=True)
    given = torch.from_numpy(noise.inject(truth, noise.uniform(K, 0.2), rng))
    method = Posterior(burn_in=1)
    method.start(Setting(given, K, 2, CPU))
    (line,) = lines([0.5], [1.0])
    labels = method.end_epoch(EpochEnd(1, given, f, lambda: f, (line,), lambda _: None))
    assert (labels != given).any()
    last = method.end_epoch(EpochEnd(2, labels, f, lambda: f, (line,), lambda _: None))
    assert torch.equal(last, labels if replaced else given)


def surest_first(wrong_sure: int, wrong_unsure: int) -> tuple[torch.Tensor, torch.Tensor]:
    """100 labels of two classes, and predictions that disagree where they are told to."""
    sure = torch.linspace(0.99, 0.51, 100)
    labels = torch.zeros(100, dtype=torch.long)
    labels[:wrong_sure] = 1
    labels[50 : 50 + wrong_unsure] = 1
    return labels, torch.stack([sure, 1 - sure], dim=1)


@pytest.mark.parametrize(
    ("wrong_sure", "wrong_unsure", "withheld"),
    [(10, 12, False), (10, 29, False), (10, 31, True), (0, 10, True), (0, 0, True)],
)
def test_guard_compares_the_nets_errors_with_the_labels(wrong_sure, wrong_unsure, withheld):
    """Wrong labels: the share among the surest half; the net's errors: what comes on top."""
    labels, f = surest_first(wrong_sure, wrong_unsure)
    heard = []
    guard = LabelGuard(active=True)
    end = EpochEnd(1, labels, f, lambda: f, (), heard.append)
    assert guard.withholds(labels, end, first=True) is withheld
    assert [line.split(":")[0] for line in heard] == ["no correction for now"] * withheld
    assert not LabelGuard(active=False).withholds(labels, end, first=True)


def test_guard_stays_open():
    guard, heard = LabelGuard(active=True), []
    for wrong in ((0, 10), (10, 10), (0, 10)):
        labels, f = surest_first(*wrong)
        end = EpochEnd(1, labels, f, f.clone, (), heard.append)
        guard.withholds(labels, end, first=False)
    assert not guard.closed
    assert [line.split(":")[0] for line in heard] == ["correction begins"]


@pytest.mark.parametrize(("sure", "unsure", "withheld"), [(40, 70, False), (24, 300, True)])
def test_guard_asks_the_validation_split_if_that_is_large_enough(sure, unsure, withheld):
    """A weak net disagrees a lot with labels that it has not learnt, if not where it is sure."""
    labels, f = surest_first(10, 12 if withheld else 40)  # the training data say the opposite
    confident = torch.linspace(0.99, 0.2, 1000)
    held = torch.zeros(1000, dtype=torch.long)
    held[:sure], held[200 : 200 + unsure] = 1, 1
    g = torch.full((1000, 10), 0.0) + (1 - confident[:, None]) / 9
    g[:, 0] = confident
    heard = []
    end = EpochEnd(1, labels, f, f.clone, (), heard.append, (held, g))
    assert LabelGuard(active=True).withholds(labels, end, first=True) is withheld
    assert len(heard) == withheld
    few = EpochEnd(1, labels, f, f.clone, (), heard.append, (held[:99], g[:99]))
    assert LabelGuard(active=True).withholds(labels, few, first=True) is not withheld


def test_guard_waits_for_a_net_that_still_learns():
    """Labels with noise 0.4; where the net is surest it is right as often as can be, unsurely."""
    rng = np.random.default_rng(9)
    truth = rng.integers(0, 10, 1000)
    given = torch.from_numpy(noise.inject(truth, noise.uniform(10, 0.4), rng))
    for says, withheld in ((0.14, True), (0.6, False)):
        sure = says + 0.001 * rng.random((1000, 1))
        f = torch.from_numpy(sure * np.eye(10)[truth] + (1 - sure) / 9 * (1 - np.eye(10)[truth]))
        heard = []
        end = EpochEnd(1, given, f, f.clone, (), heard.append, (given, f))
        assert LabelGuard(active=True).withholds(given, end, first=True) is withheld
        assert ["the net still learns" in line for line in heard] == [True] * withheld


@pytest.mark.parametrize("method", [AdaCorr(), AdaCorr(recipe="released"), Posterior()])
def test_few_clean_samples_keep_their_labels(method):
    """300 small images, 30 epochs: the net is right about nine in ten when correction is due."""
    from adacorr.data import load

    data = load("digits", subset=300, seed=100).train
    result = fit(
        None, data.features, data.labels, method=method, epochs=30, seed=100, correct=False
    )
    assert (result.trained_labels == data.labels).mean() >= 0.99


def test_a_net_that_has_learnt_nothing_corrects_nothing():
    """Few epochs, slow steps: the net is hardly better than guessing when correction is due."""
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 10
    x = (rng.normal(size=(300, 20)) + 2.0 * np.eye(10, 20)[truth]).astype(np.float32)
    given = noise.inject(truth, noise.uniform(10, 0.1), rng)
    slow = {"epochs": 12, "lr": 3e-4, "validation": 0.1, "correct": False}
    net = lambda k: nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, k))  # noqa: E731
    result = fit(net, x, given, method=AdaCorr(), **slow)
    train = np.setdiff1d(np.arange(300), result.validation_index)
    assert (result.trained_labels[train] == given[train]).all()
    unguarded = fit(net, x, given, method=AdaCorr(burn_in=4), **slow)
    assert (unguarded.trained_labels[train] == truth[train]).mean() < 0.6


# -- the methods' own promises -------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Forward, Backward])
@pytest.mark.parametrize("estimator", ["anchor", "confident"])
def test_transition_is_estimated_at_the_lowest_validation_loss(cls, estimator):
    labels = torch.arange(N) % K
    method = started(cls(estimator=estimator, estimate_epochs=3), labels)
    good = 0.8 * nn.functional.one_hot(labels, K) + 0.2 / K
    history, notes = [], []
    for epoch, loss in enumerate((1.0, 0.5, 0.9), start=1):
        history.append({"val_loss": loss, "val_accuracy": 0.5})
        f = good if epoch == 2 else torch.full((N, K), 1 / K)
        method.end_epoch(EpochEnd(epoch, labels, f, lambda f=f: f, tuple(history), notes.append))
    T = method.state()["T"]
    torch.testing.assert_close(T.sum(dim=1), torch.ones(K))
    assert (T.diagonal() > 0.8).all()
    assert "epoch 2" in notes[0]


def test_transition_is_estimated_in_half_of_the_run():
    assert Forward().stages(15) == [8, 7]
    assert Backward().stages(2) == [1, 1]


def test_given_transition_needs_no_first_stage():
    T = noise.uniform(K, 0.2)
    method = started(Forward(T=T), torch.arange(N) % K)
    assert method.stages(30) == [30]
    np.testing.assert_allclose(method.state()["T"], T, atol=1e-6)


@pytest.mark.parametrize("rate", [0.2, 0.4, 0.6])
def test_noise_rate_from_exact_noisy_posteriors(rate):
    """With predictions equal to the noisy posterior, the confident joint finds the rate."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 20_000)
    T = noise.uniform(5, rate)
    eta = 0.9 * np.eye(5)[truth] + 0.02
    given = noise.inject(truth, T, rng)
    found = estimate_noise_rate(torch.from_numpy(given), torch.from_numpy(eta @ T))
    assert found == pytest.approx(rate, abs=0.03)


def test_coteaching_keeps_less_and_less():
    method = started(CoTeaching(noise_rate=0.4), torch.arange(N) % K, epochs=200)
    assert [method.keep(e) for e in (5, 10, 11)] == pytest.approx([0.8, 0.6, 0.6])
    auto = started(CoTeaching(), torch.arange(N) % K, epochs=200)
    assert auto.keep(5) == 1.0


def test_mentornet_threshold_is_a_moving_percentile():
    labels = torch.arange(N) % K
    method = started(MentorNet(noise_rate=0.25), labels)
    expected = None
    for seed in range(3):
        _, logits, s = step(method, 1, labels, seed)
        losses = nn.functional.cross_entropy(logits[0], s.labels, reduction="none")
        now = float(np.quantile(losses.detach().numpy(), 0.75))
        expected = now if expected is None else 0.5 * expected + 0.5 * now
        method.loss(s)
    assert method.state()["threshold"].item() == pytest.approx(expected, rel=1e-5)


def test_abstention_price_rises_to_its_end_and_drops_the_abstained_with_another_best_class():
    labels = torch.arange(N) % K
    method = started(Abstention(first_stage=0.5), labels)
    out = finished_epochs(method, labels, 5)
    start = method.alpha(method._warmup + 1)
    assert start.item() == pytest.approx(method.state()["average"].item() / 64)
    assert method.alpha(6).item() == pytest.approx(1.0)
    method.stage = 0
    logits = torch.zeros(N, K + 1)
    logits[:40, K] = 5.0  # abstains on the first 40
    logits[:, 0] = 1.0  # and would call all of them 0
    method.loss(bare_step(logits, labels))
    line = {"val_loss": 1.0, "val_accuracy": 0.5}
    end = EpochEnd(6, out, logits[:, :K], lambda: logits[:, :K], (line,), lambda _: None)
    dropped = method.end_epoch(end)
    assert torch.equal(dropped[:40] == DROPPED, labels[:40] != 0)
    assert torch.equal(dropped[40:], labels[40:])


def test_abstention_never_empties_a_class():
    labels = torch.arange(N) % K
    method = started(Abstention(), labels)
    logits = torch.zeros(N, K + 1)
    logits[:, K] = 5.0 * (labels == 1)
    method._average = torch.tensor(1.0)
    method.loss(bare_step(logits, labels))
    line = {"val_loss": 1.0, "val_accuracy": 0.5}
    end = EpochEnd(6, labels, logits[:, :K], lambda: logits[:, :K], (line,), lambda _: None)
    assert (method.end_epoch(end) == labels).all()


@pytest.mark.parametrize("predictions", ["fresh", "running"])
def test_adacorr_corrects(problem, predictions):
    x, given, truth = problem
    method = AdaCorr(delta=0.9, predictions=predictions)
    quick = {"epochs": 30, "batch_size": 16, "lr": 2e-2, "correct": False}
    result = fit(make_net, x, given, method=method, **quick)
    assert np.mean(result.trained_labels == truth) > np.mean(given == truth) + 0.1


def test_posterior_sees_through_pair_noise():
    """Where the net's argmax is often the wrong class of a pair, T tells which."""
    rng = np.random.default_rng(2)
    truth = np.arange(900) % 4
    x = (rng.normal(size=(900, D)) + 2.5 * np.eye(4, D)[truth]).astype(np.float32)
    given = noise.inject(truth, noise.pair(4, 0.4), rng)
    right = {}
    for method in (AdaCorr(), Posterior()):
        quick = {"epochs": 30, "batch_size": 32, "lr": 1e-2, "correct": False}
        result = fit(make_net, x, given, method=method, **quick)
        right[method.name] = np.mean(result.trained_labels == truth)
    assert right["posterior"] > 0.85
    assert right["posterior"] > right["adacorr"]


@pytest.mark.parametrize("T", [noise.uniform(K, 0.4), noise.pair(K, 0.4)], ids=["uniform", "pair"])
def test_posterior_teaches_only_what_T_knows_of_a_wrong_label(T):
    """Exact noisy posteriors: as many labels are corrected as are wrong, and counted by source."""
    rng = np.random.default_rng(0)
    truth = np.arange(6000) % K
    given = torch.from_numpy(noise.inject(truth, T, rng))
    f = torch.from_numpy((0.94 * np.eye(K)[truth] + 0.06 / K) @ T).float()
    method = Posterior(burn_in=1)
    method.start(Setting(given, K, EPOCHS, CPU))
    (line,) = lines([0.5], [1.0])
    before = given.clone()
    labels = method.end_epoch(EpochEnd(1, given, f, lambda: f, (line,), lambda _: None))
    assert torch.equal(given, before)
    assert method.state()["rate"].item() == pytest.approx(0.4, abs=0.02)
    assert (labels.numpy() == truth).mean() > 0.97
    weight, flipped = method.state()["weight"], labels != given
    relative = (weight[flipped].mean() / weight[~flipped].max()).item()
    assert weight.mean().item() == pytest.approx(1, abs=1e-5)
    # uniform: the noise rate times how sure the net is; pair: in full
    assert relative == pytest.approx(1.0 if T[0, 1] == 0.4 else 0.4 * f.max().item(), abs=0.05)


def test_posterior_tests_a_label_that_failed_again():
    """What was corrected by mistake comes back: every epoch starts from the given labels."""
    given = torch.arange(3000) % K
    right = torch.nn.functional.one_hot(given, K).float() * 0.9 + 0.1 / K
    wrong = right.roll(1, dims=1)
    doubted = torch.randperm(3000, generator=torch.Generator().manual_seed(0)) < 600
    f = torch.where(doubted[:, None], wrong, right)
    method = Posterior(burn_in=1, window=1)
    method.start(Setting(given, K, EPOCHS, CPU))
    (line,) = lines([0.5], [1.0])
    first = method.end_epoch(EpochEnd(1, given, f, lambda: f, (line,), lambda _: None))
    assert ((first != given) == doubted).float().mean() > 0.95
    again = method.end_epoch(EpochEnd(2, first, right, lambda: right, (line,), lambda _: None))
    assert torch.equal(again, given)


def predictions(pred, sure):
    """(N, 10) that name `pred`, the surer the larger `sure`."""
    return torch.from_numpy((0.5 + 0.4 * sure[:, None]) * np.eye(10)[pred] + 0.01)


def test_sources_of_wrong_labels_are_not_what_the_net_confuses():
    """Each class is taken for the next where the net is less sure; noise is another matter."""
    rng = np.random.default_rng(5)
    truth, sure = rng.integers(0, 10, 20_000), rng.random(20_000)
    pred = np.where(sure < 0.5, (truth + 1) % 10, truth)
    even = torch.from_numpy(noise.inject(truth, noise.uniform(10, 0.3), rng))
    everywhere = torch.zeros(10, 10).index_put_((torch.from_numpy(pred), even), ONE, True)
    assert sources_are_named(everywhere)  # confusion looks like noise unless the net is sure
    found = estimate_sources(even, predictions(pred, sure))
    assert found.numpy() == pytest.approx(np.full((10, 10), 0.1))
    pair = noise.pair(10, 0.3)
    given = torch.from_numpy(noise.inject(truth, pair, rng))
    found = estimate_sources(given, predictions(pred, sure))
    assert found.numpy() == pytest.approx(pair, abs=0.06)


@pytest.mark.parametrize("noisy", [1, 3, 10])
def test_sources_are_named_where_noise_sits_in_some_classes(noisy):
    rng = np.random.default_rng(7)
    T = np.eye(10)
    T[:noisy] = noise.pair(10, 0.4)[:noisy]
    truth = rng.integers(0, 10, 9000)
    given = torch.from_numpy(noise.inject(truth, T, rng))
    found = estimate_sources(given, predictions(truth, rng.random(9000)))
    assert found.numpy() == pytest.approx(T, abs=0.12)


@pytest.mark.parametrize(("n", "rate"), [(40, 0.4), (400, 0.1), (1000, 0.05)])
@pytest.mark.parametrize("k", [3, 4, 10])
def test_few_wrong_labels_hardly_ever_name_a_source(n, rate, k):
    """They have their sources by chance."""
    rng = np.random.default_rng(6)
    named = 0
    for _ in range(40):
        truth = rng.integers(0, k, n)
        given = torch.from_numpy(noise.inject(truth, noise.uniform(k, rate), rng))
        f = predictions(truth, rng.random(n))[:, :k]
        named += estimate_sources(given, f).max().item() > 0.5
    assert named <= 6


def test_a_class_never_predicted_is_no_ones_source():
    """A weak net that knows nothing of class 7: clean labels show no noise towards it."""
    rng = np.random.default_rng(8)
    truth, sure = rng.integers(0, 10, 20_000), rng.random(20_000)
    pred = np.where(sure < 0.4, rng.integers(0, 10, 20_000), truth)
    pred[pred == 7] = 9
    found = estimate_sources(torch.from_numpy(truth), predictions(pred, sure))
    assert found.numpy() == pytest.approx(np.full((10, 10), 0.1))


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_surest_noise_rate_does_not_count_the_nets_own_errors(rate):
    """The less sure half of every class is mistaken by the net; the noise is in all of it."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, K, 20_000)
    sure = rng.random(20_000)
    named = np.where(sure < 0.4, rng.integers(0, K, 20_000), truth)
    f = (0.5 + 0.4 * sure[:, None]) * np.eye(K)[named] + 0.01
    given = noise.inject(truth, noise.uniform(K, rate), rng)
    found = surest_noise_rate(torch.from_numpy(given), torch.from_numpy(f))
    assert found.item() == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_surest_noise_rate_of_a_net_that_errs_among_its_surest(rate):
    """Right about the surest tenth alone, less and less often after it: a fifth has its errors."""
    rng = np.random.default_rng(5)
    truth, place = rng.integers(0, 10, 9000), rng.random(9000)
    right = rng.random(9000) < np.clip(1.4 - 4 * place, 0.1, 1)
    f = predictions(np.where(right, truth, (truth + rng.integers(1, 10, 9000)) % 10), 1 - place)
    given = torch.from_numpy(noise.inject(truth, noise.uniform(10, rate), rng))
    fifth = disagreement(given, f, part=5)[1]
    assert fifth > rate + 0.03
    assert surest_noise_rate(given, f).item() == pytest.approx(rate, abs=0.03)


@pytest.mark.parametrize(("says", "learnt"), [(1.0, True), (0.9, True), (0.5, False)])
def test_a_net_that_is_less_sure_than_right_has_not_learnt_what_it_can(says, learnt):
    """Of labels with noise 0.4 it is right about 0.6, however well it knows the classes."""
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 10, 5000)
    given = torch.from_numpy(noise.inject(truth, noise.uniform(10, 0.4), rng))
    sure = np.full(5000, 0.1 + says * (0.6 - 0.1))
    f = (sure[:, None] - (1 - sure[:, None]) / 9) * np.eye(10)[truth] + (1 - sure[:, None]) / 9
    assert sure_as_right(given, torch.from_numpy(f)) is learnt


def test_posterior_of_nets_that_still_learn_leaves_no_label_out():
    """Clean labels and a small step: what the nets cannot say yet is not the labels' fault."""
    rng = np.random.default_rng(7)
    centres, truth = rng.normal(size=(4, 8)), np.arange(2000) % 4
    x = (centres[truth] + 0.8 * rng.normal(size=(2000, 8))).astype(np.float32)

    def net(k: int) -> nn.Module:
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, k))

    result = fit(net, x, truth, method=Posterior(), epochs=20, lr=1e-3, correct=False)
    assert (result.trained_labels == truth).all()
    assert {line["changed"] for line in result.history} == {0}


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_surest_noise_rate_finds_noise_that_spares_the_easiest_classes(rate):
    """Half of the classes are noisy, and the net is less sure of them."""
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 10, 20_000)
    T = np.eye(10)
    T[:5] = noise.pair(10, rate)[:5]
    given = noise.inject(truth, T, rng)
    f = 0.9 * np.eye(10)[truth] @ T + 0.01 * rng.random((20_000, 10))
    found = surest_noise_rate(torch.from_numpy(given), torch.from_numpy(f))
    assert found.item() == pytest.approx(rate / 2, abs=0.02)


# -- memory --------------------------------------------------------------------------------------


def elements(method) -> int:
    return sum(tensor.numel() for tensor in method.state().values())


def test_adacorr_state_is_n_by_k_and_with_top_k_n_by_that():
    n, k = 200, 500
    labels = torch.arange(n) % k
    f = torch.full((n, k), 1 / k)
    for top, bound in ((None, n * k + 2), (4, 2 * 4 * n + 2)):
        method = AdaCorr(burn_in=1, top_k=top)
        method.start(Setting(labels, k, 6, CPU))
        line = {"val_loss": 1.0, "val_accuracy": 0.5}
        method.end_epoch(EpochEnd(1, labels, f, lambda: f, (line,), lambda _: None))
        assert n < elements(method) <= bound


def test_snapshot_keeps_the_largest_and_spreads_the_rest():
    f = torch.tensor([[0.5, 0.3, 0.1, 0.06, 0.04], [0.0, 0.1, 0.2, 0.3, 0.4]])
    snapshot = Snapshot(5, top_k=2)
    snapshot.take(f)
    expected = [[0.5, 0.3, 0.2 / 3, 0.2 / 3, 0.2 / 3], [0.1, 0.1, 0.1, 0.3, 0.4]]
    torch.testing.assert_close(snapshot.rows(torch.tensor([0, 1])), torch.tensor(expected))
    whole = Snapshot(5, top_k=None)
    whole.take(f)
    f[0] = 0.2  # a snapshot is a copy
    assert whole.rows(torch.tensor([0]))[0, 0].item() == 0.5


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make_bad", "message"),
    [
        (lambda: AdaCorr(recipe="papr"), "recipe: expected paper or released, got 'papr'"),
        (lambda: AdaCorr(burn_in=0), "burn_in: expected a whole number >= 1, got 0"),
        (lambda: AdaCorr(burn_in="late"), "burn_in: expected"),
        (lambda: AdaCorr(delta=0), "delta: expected a number"),
        (lambda: AdaCorr(delta="often"), "delta: expected"),
        (lambda: AdaCorr(predictions="stale"), "predictions: expected fresh or running"),
        (lambda: AdaCorr(window=3), "window: expected 1 with fresh predictions, got 3"),
        (lambda: started(AdaCorr(top_k=3), torch.zeros(4).long()), "top_k: expected 1 to 2"),
        (lambda: CoTeaching(noise_rate=1.2), "noise_rate: expected a number in"),
        (lambda: MentorNet(noise_rate=-0.1), "noise_rate: expected a number in"),
        (lambda: METHODS["forgetting"](dropout=1.0), "dropout: expected a number"),
        (lambda: METHODS["decoupling"](least=0), "least: expected a number"),
        (lambda: Forward(estimator="guess"), "estimator: expected anchor or confident"),
        (lambda: Forward(estimate_epochs=5).stages(5), "epochs: expected more than the 5"),
        (lambda: started(Backward(T=[[1, 0], [0, 1]]), torch.zeros(4).long()), "T: expected"),
        (lambda: Abstention().stages(2), "epochs: expected at least 3"),
    ],
)
def test_bad_values_get_one_clear_line(make_bad, message):
    with pytest.raises(InputError) as caught:
        make_bad()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_math_of_the_schedule_is_finite():
    """A run of one epoch after burn-in never divides by zero."""
    method = started(Abstention(first_stage=0.5), torch.arange(N) % K, epochs=4)
    method._average = torch.tensor(0.5)
    assert math.isfinite(method.alpha(2).item())

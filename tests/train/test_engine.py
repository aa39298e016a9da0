from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from adacorr.core.streams import stream_seed
from adacorr.core.validation import InputError
from adacorr.train import METHODS, Settings, Standard, fit
from adacorr.train.engine import BUILD, NET, ORDER, Engine, learning_rate, make_optimizer
from adacorr.train.fitting import make_job, read_labels
from adacorr.train.methods.base import DROPPED
from adacorr.train.ranks import Ranks
from adacorr.train.state import load_checkpoint, stream


def bare_loop(make_net, X, y, rows, epochs, batch_size, seed):
    """Standard training as one would write it by hand; returns the weights after each epoch."""
    torch.manual_seed(stream_seed(seed, 0, BUILD))
    net = make_net(3)
    optimizer = torch.optim.RAdam(net.parameters(), 1e-3, weight_decay=5e-4)
    mean, std = X[rows].mean(axis=0), X[rows].std(axis=0)
    x, y = torch.from_numpy((X[rows] - mean) / std), torch.from_numpy(y[rows])
    weights = []
    for epoch in range(1, epochs + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(1e-3, epoch, epochs)
        torch.manual_seed(stream_seed(seed, epoch, NET, 0))
        order = torch.randperm(len(x), generator=stream(seed, epoch, ORDER))
        for index in order.split(batch_size):
            optimizer.zero_grad()
            F.cross_entropy(net(x[index]), y[index]).backward()
            optimizer.step()
        weights.append({k: v.clone() for k, v in net.state_dict().items()})
    return weights


def test_the_loop_is_the_one_written_by_hand(blobs, mlp):
    X, _, y = blobs
    result = fit(mlp, X, y, method=Standard(), epochs=6, batch_size=32, seed=3)
    rows = np.setdiff1d(np.arange(150), result.validation_index)
    wanted = bare_loop(mlp, X, y, rows, 6, 32, 3)[result.selected_epoch - 1]
    for name, value in result.model.nets[0].state_dict().items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-5, atol=1e-6)


@dataclass
class Spy(Standard):
    """Standard training that writes down what it is shown."""

    name: ClassVar[str] = "spy"
    drop: tuple[int, ...] = ()
    steps: list = field(default_factory=list)
    ends: list = field(default_factory=list)

    def loss(self, step):
        self.steps.append((step.epoch, step.index.clone()))
        return super().loss(step)

    def end_epoch(self, end):
        first, second = end.fresh(), end.fresh()
        assert first is second
        self.ends.append((end.running.clone(), first.clone(), len(end.history)))
        labels = end.labels.clone()
        labels[list(self.drop)] = DROPPED
        return labels


def rows_of(spy, epoch):
    return sorted(torch.cat([index for e, index in spy.steps if e == epoch]).tolist())


def test_running_and_fresh_predictions(blobs, mlp):
    X, _, y = blobs
    spy = Spy()
    fit(mlp, X, y, method=spy, epochs=2, batch_size=40, lr=1e-12)
    running, fresh, history = spy.ends[0]
    torch.testing.assert_close(running, fresh)  # a net that stands still says the same twice
    torch.testing.assert_close(running.sum(dim=1), torch.ones(135))
    assert history == 1


def test_dropped_labels_leave_the_batches(blobs, mlp):
    X, _, y = blobs
    spy = Spy(drop=(3, 5))
    result = fit(mlp, X, y, method=spy, epochs=2, batch_size=40)
    assert rows_of(spy, 1) == list(range(135))
    assert rows_of(spy, 2) == [i for i in range(135) if i not in (3, 5)]
    np.testing.assert_allclose(spy.ends[1][0][[3, 5]], 1 / 3)
    np.testing.assert_array_equal(
        result.trained_labels, y
    )  # a dropped label is not a corrected one


@dataclass
class TwoStages(Standard):
    name: ClassVar[str] = "stages"
    built: list = field(default_factory=list)

    def stages(self, epochs):
        return [2, epochs - 2]

    def build(self, make_net, n_classes):
        self.built.append(self.stage)
        return [make_net(n_classes)]


def test_a_stage_starts_afresh_and_the_last_one_is_selected(blobs, mlp):
    X, _, y = blobs
    method = TwoStages()
    result = fit(mlp, X, y, method=method, epochs=5)
    assert method.built == [0, 1]
    assert [r["stage"] for r in result.history] == [1, 1, 2, 2, 2]
    assert [r["lr"] for r in result.history] == [1e-3, 5e-4, 1e-3, 5e-4, 2.5e-4]
    assert result.selected_epoch > 2


def test_the_best_epoch_on_validation_is_kept(blobs, mlp):
    X, _, y = blobs
    result = fit(mlp, X, y, method=Standard(), epochs=12, lr=0.03)
    scores = [r["val_accuracy"] for r in result.history]
    assert scores[result.selected_epoch - 1] == max(scores)
    rows = result.validation_index
    again = (result.pred_probs[rows].argmax(axis=1) == y[rows]).mean()
    assert again == pytest.approx(max(scores), abs=1e-5)


@dataclass
class Breaks(Standard):
    """Its loss is not a number in the third batch of the second epoch."""

    name: ClassVar[str] = "breaks"
    calls: int = 0

    def loss(self, step):
        self.calls = self.calls + 1 if step.epoch == 2 else 0
        return super().loss(step) * (float("nan") if self.calls == 3 else 1)


def test_nan_stops_with_epoch_and_batch_and_keeps_the_last_good_checkpoint(blobs, mlp, tmp_path):
    X, _, y = blobs
    with pytest.raises(InputError, match="got nan in epoch 2, batch 3"):
        fit(mlp, X, y, method=Breaks(), epochs=4, batch_size=32, run_dir=tmp_path / "run")
    saved = load_checkpoint(tmp_path / "run" / "checkpoint", pytest.fail)
    assert saved.epoch == 1
    assert all(v.isfinite().all() for v in saved.group("nets").values())


def test_a_batch_of_one_does_not_meet_batch_norm(images, cnn):
    X, y = images
    # 81 training samples in batches of 40 leave one over
    result = fit(cnn, X, y, method=Standard(), epochs=1, batch_size=40)
    assert np.isfinite(result.history[0]["loss"])


def test_the_output_of_the_net_is_checked(blobs):
    X, _, y = blobs
    with pytest.raises(InputError, match=r"shape \(batch, 3\) for input \(4,\), got \(2, 5\)"):
        fit(lambda _: torch.nn.Linear(4, 5), X, y, method=Standard(), epochs=1)


@pytest.mark.parametrize(("method", "chosen"), [("standard", 1), ("adacorr", 3)])
def test_the_later_of_nearly_equal_epochs_for_a_method_that_corrects(method, chosen, blobs, mlp):
    """Right on 80, 79, 78 and 40 of 100: three differ by chance, the last does not."""
    X, _, given = blobs
    selected = []

    class Told(Engine):
        def _validate(self):
            right = torch.zeros(100, dtype=torch.bool)
            epoch = self.state.epoch
            start = 3 * epoch  # which ones are predicted moves a little
            right[start : start + (80, 79, 78, 40)[epoch]] = True
            labels = torch.zeros(100, dtype=torch.long)
            self.validation = labels, torch.stack([right, ~right], dim=1).float()
            return float(right.float().mean()), 1.0

    ranks = Ranks()
    job = make_job(X, read_labels(X, given, None), 0.1, Settings(), ranks.device)
    engine = Told(job, METHODS[method](), mlp, Settings(epochs=4), ranks)
    engine.run(lambda e: selected.append(e.state.best_epoch))
    assert selected == [1, chosen if chosen == 1 else 2, chosen, chosen]


class DeadWorker:
    """torch's words when a process that loads data was killed, raised in the middle of a step."""

    def batch(self, epoch, done, total):
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")

    def epoch(self, record, epochs): ...
    def log(self, line): ...


def test_a_worker_that_dies_during_a_step_is_one_line(blobs, mlp):
    X, _, y = blobs
    with pytest.raises(InputError, match=r"workers: expected .*, got: DataLoader worker \(pid 7\)"):
        fit(mlp, X, y, method=Standard(), epochs=2, progress=DeadWorker())


def test_radamw_takes_the_decay_apart_from_the_gradient():
    """Where the gradient is zero only the decay is left: weights shrink by 1 - lr * decay."""
    weights = {}
    for name in ("radam", "radamw"):
        net = torch.nn.Linear(3, 2)
        torch.nn.init.ones_(net.weight)
        settings = Settings(optimizer=name, lr=0.1, weight_decay=0.5)
        optimizer = make_optimizer(settings, [net])
        (0 * net(torch.ones(1, 3)).sum()).backward()
        for _ in range(20):  # the first few steps of RAdam are plain ones
            optimizer.step()
        weights[name] = net.weight[0, 0].item()
    assert weights["radamw"] == pytest.approx((1 - 0.1 * 0.5) ** 20)
    assert weights["radam"] != pytest.approx(weights["radamw"], abs=0.01)


def test_the_users_cudnn_stays_on_while_training(blobs, mlp):
    """Flags that are not named would be switched off by torch for the length of the run."""
    X, _, given = blobs
    cudnn, seen = torch.backends.cudnn, []

    def look(_):
        seen.append((cudnn.enabled, cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32))

    before = cudnn.enabled, cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32
    fit(mlp, X, given, method=Standard(), epochs=1, on_epoch=look)
    assert seen == [(True, True, False, before[3])]
    assert (cudnn.enabled, cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32) == before

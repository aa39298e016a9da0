"""The epoch loop. It owns nets, optimiser, labels and history, and never names a method.

``Engine.run`` -> ``run_epoch`` -> ``train_step``. All randomness of an epoch is seeded by (seed,
epoch), so a run that goes on from a checkpoint does what the uninterrupted one did, bit by bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacorr.core.streams import AUGMENT, BUILD, METHOD, NET, ORDER, stream_seed
from adacorr.core.validation import InputError
from adacorr.train.batches import Feed, Scaling, epoch_batches, make_batches, worker_errors
from adacorr.train.methods.base import DROPPED, EpochEnd, Method, Setting, Step
from adacorr.train.ranks import Ranks
from adacorr.train.settings import Settings
from adacorr.train.state import (
    Checkpoint,
    flatten,
    load_optimizer,
    optimizer_tensors,
    stream,
)
from adacorr.train.sync_norm import synchronise

EVAL_BATCH = 128  # on CPUs activations then stay in cache: twice as fast as 512
EVAL_BATCH_GPU = 1024
NAN_CHECK = 32  # batches between looks at the loss: a look makes a GPU wait


class Progress(Protocol):
    """Who follows a run: the command line, a notebook, nobody."""

    def batch(self, epoch: int, done: int, total: int) -> None: ...
    def epoch(self, record: dict[str, Any], epochs: int) -> None: ...
    def log(self, line: str) -> None: ...


class Silent:
    """Follows nothing: for ``--quiet``, and for all ranks but the first."""

    def batch(self, epoch: int, done: int, total: int) -> None: ...
    def epoch(self, record: dict[str, Any], epochs: int) -> None: ...
    def log(self, line: str) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class EpochInfo:
    """What ``on_epoch`` is called with; the dict it returns is merged into the epoch's record.

    ``labels`` are the current labels of all N samples in the order of the data, the given ones for
    the validation part; ``train_index`` says which rows were trained on.
    """

    epoch: int
    labels: NDArray[np.int64]
    train_index: NDArray[np.int64]
    predict: Callable[[Any], NDArray[np.float32]]
    history: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """What a run works on; rows are positions in the data."""

    feed: Feed
    labels: NDArray[np.int64]  # (N,) given
    train: NDArray[np.int64]
    n_classes: int
    validation: tuple[Feed, NDArray[np.int64], NDArray[np.int64]]  # feed, rows, labels


@dataclass
class Model:
    """Nets, the method's view of their outputs, and the scaling of their input."""

    nets: list[nn.Module]
    method: Method
    scaling: Scaling
    ranks: Ranks

    def logits(self, x: Tensor) -> tuple[Tensor, ...]:
        with self.ranks.autocast():
            return tuple(net(x) for net in self.nets)

    def forward(self, net: int, x: Tensor) -> Tensor:
        """Logits of one net."""
        with self.ranks.autocast():
            return self.nets[net](x).float()

    @torch.inference_mode()
    def proba(self, x: Tensor) -> Tensor:
        """Probabilities for a batch of network input; the nets must be in eval mode."""
        return self.method.proba(tuple(z.float() for z in self.logits(x)))

    def predict(self, feed: Feed, rows: Tensor) -> Iterator[Tensor]:
        """Probabilities for rows of the feed, a piece at a time, in eval mode."""
        for net in self.nets:
            net.eval()
        size = EVAL_BATCH if self.ranks.device.type == "cpu" else EVAL_BATCH_GPU
        for x in feed.evaluation(rows.split(size)):
            yield self.proba(x)

    def stream(self, data: Any, workers: int = 0) -> Iterator[NDArray[np.float32]]:
        """Probabilities for raw samples, a piece at a time, on this rank alone."""
        source = make_batches(data, self.ranks.device, workers)
        feed = Feed(source, self.scaling, augment=False)
        for f in self.predict(feed, torch.arange(len(source))):
            yield f.cpu().numpy()

    def predict_proba(self, data: Any, workers: int = 0) -> NDArray[np.float32]:
        """(M, K) for raw samples."""
        return np.concatenate(list(self.stream(data, workers)))

    def weights(self) -> dict[str, Tensor]:
        """A copy of the nets' weights, named ``net index . parameter``."""
        return {
            f"{i}.{name}": tensor.detach().clone()
            for i, net in enumerate(self.nets)
            for name, tensor in net.state_dict().items()
        }

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        for i, net in enumerate(self.nets):
            start = len(f"{i}.")
            own = {name[start:]: w for name, w in weights.items() if name.startswith(f"{i}.")}
            net.load_state_dict(own)


@dataclass
class State:
    """All that changes during a run, in one place."""

    epoch: int
    labels: Tensor  # (n_train,) current
    model: Model
    optimizer: torch.optim.Optimizer
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_right: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    best_weights: dict[str, Tensor] = field(default_factory=dict)


class Engine:
    """One run of one method on one job."""

    def __init__(
        self,
        job: Job,
        method: Method,
        make_net: Callable[[int], nn.Module],
        settings: Settings,
        ranks: Ranks,
        *,
        progress: Progress | None = None,
        on_epoch: Callable[[EpochInfo], dict[str, Any] | None] | None = None,
    ) -> None:
        assert settings.epochs is not None
        self.job, self.method, self.make_net = job, method, make_net
        self.settings, self.ranks = settings, ranks
        self.progress = progress or Silent()
        self.on_epoch = on_epoch
        self.stages = method.stages(settings.epochs)
        self.epochs = sum(self.stages)
        self.given = torch.from_numpy(job.labels[job.train]).to(ranks.device)
        method.start(Setting(self.given.clone(), job.n_classes, self.epochs, ranks.device))
        self.state = self._begin_stage(0, self.given.clone(), [])

    # -- the loop, from the outside in ----------------------------------------------------------

    def run(self, after_epoch: Callable[[Engine], None]) -> State:
        """All remaining epochs; `after_epoch` may write a checkpoint."""
        while self.state.epoch < self.epochs:
            stage, first = self._stage_of(self.state.epoch + 1)
            if self.state.epoch + 1 == first and stage > 0:
                self.state = self._begin_stage(stage, self.state.labels, self.state.history)
            with worker_errors():
                self.run_epoch(self.state.epoch + 1)
            after_epoch(self)
        return self.state

    def run_epoch(self, epoch: int) -> None:
        """Train on every batch once, evaluate, let the method look at its labels, record."""
        began = time.perf_counter()
        running, losses = self._train_batches(epoch)
        record = self._record(epoch, running, losses)
        state = self.state
        state.history.append(record)
        self._let_method_correct(epoch, running, record)
        self._select(record)
        state.epoch = epoch
        record["changed"] = int((state.labels != self.given).sum())
        record["seconds"] = round(time.perf_counter() - began, 4)
        if self.on_epoch is not None:
            record.update(self.on_epoch(self._info()) or {})
        self.progress.epoch(record, self.epochs)

    def _train_batches(self, epoch: int) -> tuple[Tensor, Tensor]:
        seed, device = self.settings.seed, self.ranks.device
        rows = (self.state.labels != DROPPED).nonzero().flatten().cpu()
        if len(rows) < 2:
            raise InputError(f"labels: expected two or more samples to train on, got {len(rows)}")
        batches = epoch_batches(
            rows, self.settings.batch_size, self.ranks.size, stream(seed, epoch, ORDER)
        )
        running = torch.zeros(len(self.given), self.job.n_classes, device=device)
        losses = torch.zeros(len(batches), device=device)
        self._prepare_epoch(epoch)
        own = stream(seed, epoch, METHOD, self.ranks.rank)
        for b, (index, x) in enumerate(self._inputs(epoch, batches)):
            share = len(index) * self.ranks.size / len(batches[b])
            step = (index.to(device), epoch, own)
            losses[b], running[step[0]] = self.train_step(x, *step, share)
            if b % NAN_CHECK == NAN_CHECK - 1 or b == len(batches) - 1:
                _check_finite(losses[: b + 1], epoch)
            self.progress.batch(epoch, b + 1, len(batches))
        self.ranks.share_buffers(self.state.model.nets)
        self.ranks.sum_(running)[self.state.labels == DROPPED] = 1 / self.job.n_classes
        return running, self.ranks.sum_(losses) / self.ranks.size

    def train_step(
        self, x: Tensor, index: Tensor, epoch: int, generator: torch.Generator, share: float
    ) -> tuple[Tensor, Tensor]:
        """One optimiser step; gives the loss and the probabilities seen on the way.

        `share` is this rank's part of the batch relative to an even split, so that the mean of the
        ranks' gradients is the gradient of the mean over the whole batch.
        """
        state = self.state
        logits = tuple(z.float() for z in state.model.logits(x))
        forward = state.model.forward
        step = Step(logits, state.labels[index], index, epoch, generator, x, forward)
        loss = self.method.loss(step) * share
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.ranks.average_gradients(p for net in state.model.nets for p in net.parameters())
        state.optimizer.step()
        with torch.no_grad():
            return loss.detach(), self.method.seen(step).detach()

    # -- parts of an epoch ----------------------------------------------------------------------

    def _inputs(self, epoch: int, batches: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """This rank's (training rows, network input) of each batch."""
        to_data = torch.from_numpy(self.job.train)
        generator = stream(self.settings.seed, epoch, AUGMENT)
        rows = [to_data[index] for index in batches]
        inputs = self.job.feed.training(rows, self.ranks.part, generator)
        return zip((self.ranks.part(index) for index in batches), inputs, strict=True)

    def _prepare_epoch(self, epoch: int) -> None:
        stage, first = self._stage_of(epoch)
        for group in self.state.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings.lr, epoch - first + 1, self.stages[stage])
        for net in self.state.model.nets:
            net.train()
        torch.manual_seed(stream_seed(self.settings.seed, epoch, NET, self.ranks.rank))

    def _record(self, epoch: int, running: Tensor, losses: Tensor) -> dict[str, Any]:
        kept = self.state.labels != DROPPED
        right = (running.argmax(dim=1) == self.state.labels)[kept]
        before = self.state.history[-1]["steps"] if self.state.history else 0
        val_accuracy, val_loss = self._validate()
        return {
            "epoch": epoch,
            "stage": self._stage_of(epoch)[0] + 1,
            "lr": self.state.optimizer.param_groups[0]["lr"],
            "loss": round(float(losses.mean()), 6),
            "steps": before + len(losses),
            "train_accuracy": round(float(right.float().mean()), 6),
            "confidence": round(float(running[kept].amax(dim=1).mean()), 6),
            "val_accuracy": val_accuracy,
            "val_loss": val_loss,
        }

    def _validate(self) -> tuple[float, float]:
        """Accuracy and loss on the validation labels; keeps the predictions for this epoch."""
        feed, rows, labels = self.job.validation
        f = self.predict_rows(feed, rows)
        y = torch.from_numpy(labels).to(f.device)
        self.validation = y, f
        own = f.gather(1, y[:, None]).clamp_min(1e-12)
        accuracy = (f.argmax(dim=1) == y).float().mean()
        return round(float(accuracy), 6), round(float(-own.log().mean()), 6)

    def _let_method_correct(self, epoch: int, running: Tensor, record: dict[str, Any]) -> None:
        def log(line: str) -> None:
            record.setdefault("notes", []).append(line)
            self.progress.log(f"epoch {epoch}: {line}")

        cached: list[Tensor] = []

        def fresh() -> Tensor:
            if not cached:
                cached.append(self.predict_rows(self.job.feed, self.job.train))
            return cached[0]

        state = self.state
        with torch.no_grad():
            history = tuple(state.history)
            end = EpochEnd(epoch, state.labels, running, fresh, history, log, self.validation)
            state.labels = self.method.end_epoch(end)

    def _select(self, record: dict[str, Any]) -> None:
        """Keep the weights of the best epoch on the noisy validation split (the last of ties).

        A method that corrects labels gets better to its end, and what is left between its epochs
        on some noisy labels is mostly chance: there an epoch also ties when it is behind by no
        more than a standard error of the (paired) difference.
        """
        state, (labels, f) = self.state, self.validation
        right = f.argmax(dim=1) == labels
        best = state.best_right if len(state.best_right) else right  # which labels it predicts
        behind = int(best.sum()) - int(right.sum())
        margin = float((best != right).sum()) ** 0.5 if self.method.corrects else 0.0
        if behind <= 0:
            state.best_right = right
        if behind <= margin:
            state.best_epoch = record["epoch"]
            state.best_weights = state.model.weights()

    def predict_rows(self, feed: Feed, rows: NDArray[np.int64]) -> Tensor:
        """(len(rows), K) probabilities in eval mode; each rank does its share."""
        place = self.ranks.part(torch.arange(len(rows)))
        out = torch.zeros(len(rows), self.job.n_classes, device=self.ranks.device)
        at = int(place[0]) if len(place) else 0
        for f in self.state.model.predict(feed, torch.from_numpy(rows)[place]):
            out[at : at + len(f)] = f
            at += len(f)
        return self.ranks.sum_(out)

    # -- stages, checkpoints --------------------------------------------------------------------

    def _stage_of(self, epoch: int) -> tuple[int, int]:
        """The stage of an epoch and that stage's first epoch."""
        first = 1
        for stage, length in enumerate(self.stages):
            if epoch < first + length:
                return stage, first
            first += length
        raise AssertionError(f"epoch {epoch} is beyond the last stage")

    def _begin_stage(self, stage: int, labels: Tensor, history: list[dict[str, Any]]) -> State:
        self.method.stage = stage
        torch.manual_seed(stream_seed(self.settings.seed, stage, BUILD))
        nets = build_nets(self.method, self.make_net, self.job, self.ranks.device)
        if self.ranks.size > 1:
            nets = [synchronise(net) for net in nets]
        model = Model(nets, self.method, self.job.feed.scaling, self.ranks)
        optimizer = make_optimizer(self.settings, nets)
        epoch = history[-1]["epoch"] if history else 0
        return State(epoch, labels, model, optimizer, history)

    def checkpoint(self) -> Checkpoint:
        state = self.state
        tensors = flatten(
            nets=state.model.weights(),
            best=state.best_weights,
            optimizer=optimizer_tensors(state.optimizer),
            method=self.method.state(),
            labels={"current": state.labels, "validated": state.best_right},
        )
        values = {
            "history": state.history,
            "best_epoch": state.best_epoch,
        }
        return Checkpoint(state.epoch, tensors, values)

    def restore(self, saved: Checkpoint) -> None:
        """Go on from a checkpoint as if there had been no break."""
        device = self.ranks.device
        self.method.stage, _ = self._stage_of(saved.epoch)
        self.method.load_state({k: v.to(device) for k, v in saved.group("method").items()})
        labels = saved.group("labels")["current"].to(device)
        state = self._begin_stage(self.method.stage, labels, saved.values["history"])
        state.model.load_weights(saved.group("nets"))
        load_optimizer(state.optimizer, saved.group("optimizer"))
        state.best_epoch = saved.values["best_epoch"]
        state.best_right = saved.group("labels")["validated"].to(device)
        state.best_weights = {k: v.to(device) for k, v in saved.group("best").items()}
        self.state = state

    def _info(self) -> EpochInfo:
        state = self.state
        return EpochInfo(
            epoch=state.epoch,
            labels=self.labels(),
            train_index=self.job.train,
            predict=state.model.predict_proba,
            history=tuple(state.history),
        )

    def labels(self) -> NDArray[np.int64]:
        """Current labels of all N samples; those left out of training keep the given one."""
        out = self.job.labels.copy()
        current = self.state.labels.cpu().numpy()
        out[self.job.train] = np.where(current == DROPPED, out[self.job.train], current)
        return out


def learning_rate(lr: float, epoch: int, length: int) -> float:
    """Halved after each third of a stage: every 60 epochs of the paper's 180.

    >>> [learning_rate(1.0, e, 180) for e in (1, 60, 61, 121, 180)]
    [1.0, 1.0, 0.5, 0.25, 0.25]
    """
    return lr * 0.5 ** ((epoch - 1) // math.ceil(length / 3))


def make_optimizer(settings: Settings, nets: list[nn.Module]) -> torch.optim.Optimizer:
    parameters = [p for net in nets for p in net.parameters() if p.requires_grad]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, settings.lr, momentum=0.9, weight_decay=settings.weight_decay
        )
    return torch.optim.RAdam(
        parameters,
        settings.lr,
        weight_decay=settings.weight_decay,
        decoupled_weight_decay=settings.optimizer == "radamw",
        foreach=True,
    )


def build_nets(
    method: Method, make_net: Callable[[int], nn.Module], job: Job, device: torch.device
) -> list[nn.Module]:
    """The nets of a stage on the device, tried once on real input."""
    asked: list[int] = []

    def counted(k: int) -> nn.Module:
        asked.append(k)
        return make_net(k)

    nets = [net.to(device) for net in method.build(counted, job.n_classes)]
    if job.feed.source.kind == "image":
        nets = [net.to(device, memory_format=torch.channels_last) for net in nets]  # pyright: ignore[reportCallIssue]
    rows = torch.from_numpy(job.train[:2])
    x = next(iter(job.feed.evaluation([rows])))
    for net, k in zip(nets, asked, strict=True):
        with torch.no_grad():
            shape = tuple(net.eval()(x).shape)
        if shape != (len(x), k):
            raise InputError(
                f"net: expected output of shape (batch, {k}) for input {tuple(x.shape[1:])}, "
                f"got {shape}"
            )
    return nets


def _check_finite(losses: Tensor, epoch: int) -> None:
    bad = ~losses.isfinite()
    if bad.any():
        b = int(bad.int().argmax())
        raise InputError(
            f"loss: expected a finite number, got {float(losses[b])} in epoch {epoch}, "
            f"batch {b + 1}; a smaller lr may help"
        )

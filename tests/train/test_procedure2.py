"""AdaCorr in the engine does what Procedure 2 says, epoch by epoch.

The oracle is a slow training loop written from the paper, one sample at a time; it shares nothing
with the engine but the random streams (initial weights and order of batches) and the optimiser.
"""

import numpy as np
import pytest
import torch
from torch import nn

from adacorr.core.streams import stream_seed
from adacorr.train import fit
from adacorr.train.engine import BUILD, ORDER
from adacorr.train.methods import AdaCorr
from adacorr.train.state import stream

N, D, K, EPOCHS, BATCH, SEED = 90, 4, 3, 12, 16, 5
M, CORRECT_AFTER, REFRESH_AFTER = 3, 2, 6  # Procedure 2
START, UPDATE, INTERVAL = 3, 4, 5  # the released code's names


def make_net(k: int) -> nn.Module:
    # batch norm makes predictions in eval mode differ from those in train mode
    return nn.Sequential(nn.Linear(D, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, k))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, N)
    x = rng.normal(size=(N, D)) + 2.0 * np.eye(K, D)[truth]
    given = np.where(rng.random(N) < 0.35, rng.integers(0, K, N), truth)
    return torch.tensor(x, dtype=torch.float32), given


def predict(net: nn.Module, x: torch.Tensor) -> list[list[float]]:
    net.eval()
    with torch.no_grad():
        rows = [net(x[i : i + 1]).softmax(dim=1)[0].tolist() for i in range(len(x))]
    net.train()
    return rows


def flip(labels: list[int], f: list[list[float]], delta: float) -> list[int]:
    """Procedure 1, sample by sample."""
    new = []
    for label, row in zip(labels, f, strict=True):
        best = row.index(max(row))
        new.append(best if row[label] / row[best] < delta else label)
    return new


class Oracle:
    """A training loop of its own; subclass-free, each recipe is one method below."""

    def __init__(self, x: torch.Tensor, given: np.ndarray) -> None:
        torch.manual_seed(stream_seed(SEED, 0, BUILD))
        self.x, self.labels, self.net = x, [int(c) for c in given], make_net(K)
        self.optimizer = torch.optim.RAdam(self.net.parameters(), 0.01, weight_decay=5e-4)
        self.seen: list[list[float]] = [[0.0] * K for _ in range(N)]

    def train(self, epoch: int, extra: list[list[float]] | None, weight: float) -> float:
        """One epoch of cross-entropy + weight * cross-entropy to the rows of `extra`."""
        for group in self.optimizer.param_groups:
            group["lr"] = 0.01 * 0.5 ** ((epoch - 1) // (EPOCHS // 3))
        self.net.train()
        order = torch.randperm(N, generator=stream(SEED, epoch, ORDER)).tolist()
        losses = []
        for start in range(0, N, BATCH):
            batch = order[start : start + BATCH]
            log_p = self.net(self.x[batch]).log_softmax(dim=1)
            total = torch.zeros(())
            for row, i in zip(log_p, batch, strict=True):
                self.seen[i] = row.detach().exp().tolist()
                total = total - row[self.labels[i]]
                for c in range(K if extra is not None else 0):
                    total = total - weight * extra[i][c] * row[c]
            loss = total / len(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    def paper(self, delta: float):
        """Procedure 2, with f_r renewed once at epoch m + 40 (here m + REFRESH_AFTER)."""
        f_r = None
        for epoch in range(1, EPOCHS + 1):
            if epoch == M + 1:
                f_r = predict(self.net, self.x)
            if epoch >= M + CORRECT_AFTER:
                self.labels = flip(self.labels, predict(self.net, self.x), delta)
            if epoch == M + REFRESH_AFTER:
                f_r = predict(self.net, self.x)
            used = list(self.labels)
            yield used, f_r, self.train(epoch, f_r, 1.0)

    def released(self):
        """The released code's loop: epochs from 0, labels and snapshot change after an epoch."""
        held, last = None, [None] * 10
        for epoch in range(EPOCHS):
            used, target = list(self.labels), held
            loss = self.train(epoch + 1, target, 0.9)
            last[epoch % 10] = [list(row) for row in self.seen]
            if epoch in (START - 1, START + INTERVAL - 1):
                held = [[float(c == label) for c in range(K)] for label in self.labels]
            if epoch >= UPDATE:
                seen = [f for f in last if f is not None]
                mean = [
                    [sum(f[i][c] for f in seen) / len(seen) for c in range(K)] for i in range(N)
                ]
                step = 0.02 * 180 / EPOCHS
                self.labels = flip(self.labels, mean, 1 / (1.2 + step * (epoch - UPDATE + 1)))
            yield used, target, loss


def engine_run(problem, method):
    """Per epoch: the labels it was trained with, what the retroactive term used, the loss."""
    x, given = problem
    lines = []

    class Recorded(type(method)):
        def end_epoch(self, end):
            target = None
            if self._held is not None:
                target = nn.functional.one_hot(self._held, K).double()
            elif self._snapshot.taken:
                target = self._snapshot.rows(torch.arange(N)).double()
            lines.append((end.labels.tolist(), target, end.history[-1]["loss"]))
            return super().end_epoch(end)

    recorded = Recorded(**vars(method))
    fit(
        make_net,
        x,
        given,
        method=recorded,
        epochs=EPOCHS,
        batch_size=BATCH,
        lr=0.01,
        seed=SEED,
        validation=(x[:9], given[:9]),
    )
    return lines


METHODS = {
    "paper": AdaCorr(burn_in=M, correct_after=CORRECT_AFTER, refresh_after=REFRESH_AFTER),
    "released": AdaCorr(
        recipe="released",
        burn_in=START,
        correct_after=UPDATE + 2 - START,
        refresh_after=INTERVAL + 1,
    ),
}


@pytest.mark.parametrize("recipe", ["paper", "released"])
def test_labels_snapshot_and_losses_equal_the_loop(problem, recipe):
    method = METHODS[recipe]
    got = engine_run(problem, method)
    oracle = Oracle(*problem)
    expected = list(oracle.paper(0.9) if recipe == "paper" else oracle.released())
    assert len(got) == len(expected) == EPOCHS
    for (labels, target, loss), (labels_0, target_0, loss_0) in zip(got, expected, strict=True):
        assert labels == labels_0
        assert (target is None) == (target_0 is None)
        if target_0 is not None:
            np.testing.assert_allclose(target, target_0, atol=1e-4)
        assert loss == pytest.approx(loss_0, rel=1e-4)
    changed = sum(a != b for a, b in zip(expected[-1][0], problem[1].tolist(), strict=True))
    assert changed > 5  # the problem is one where something happens
    assert expected[M][1] != expected[-1][1]  # and the snapshot was renewed


@pytest.mark.parametrize(
    ("recipe", "own"),
    [
        ("paper", (30, 10, 40)),
        # start 25, update 30, interval 40, counted from 0 and applied after the epoch
        ("released", (25, 30 + 2 - 25, 40 + 1)),
    ],
)
def test_epochs_are_the_sources_own_at_180_and_scaled_to_shorter_runs(recipe, own):
    from adacorr.train.methods.base import Setting

    for epochs in (180, 30):
        method = AdaCorr(recipe=recipe, burn_in=None)
        labels = torch.zeros(4, dtype=torch.long)
        method.start(Setting(labels, K, epochs, torch.device("cpu")))
        expected = tuple(max(1, round(e * epochs / 180)) for e in own)
        assert (method._m, method._correct, method._refresh) == expected

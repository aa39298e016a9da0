"""A training epoch through the engine beside a bare loop, AdaCorr beside Standard, and skorch.

    python benchmarks/train.py [--quick] [--memory]

Every figure is a ratio within this run: the contestants take turns, epoch by epoch, and the best of
each counts. Time is CPU time on one thread, which other work on the machine disturbs least. All
contestants train on nine tenths of the samples and evaluate on the last tenth after each epoch;
data is random, since only time is measured. ``--memory`` shows instead what AdaCorr keeps per
sample for a million samples and a thousand classes.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from adacorr.train.batches import Feed, crop_flip, fit_scaling, make_batches
from adacorr.train.engine import Engine, Job
from adacorr.train.methods import AdaCorr, Method, Standard
from adacorr.train.methods.base import EpochEnd, Setting, Step
from adacorr.train.nets import make_factory
from adacorr.train.ranks import Ranks
from adacorr.train.settings import Settings

K = 10
BATCH = 128
Epoch = Callable[[], object]


class Case:
    """A net and data of its kind; every contestant gets the same."""

    def __init__(self, net: str, shape: tuple[int, int, int], n: int, augment: bool) -> None:
        rng = np.random.default_rng(0)
        self.name, self.augment = net, augment
        self.X = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
        self.y: NDArray[np.int64] = rng.integers(0, K, n)
        self.train, self.val = np.split(np.arange(n), [n * 9 // 10])
        self.make_net = make_factory(net, shape)

    def fresh_net(self) -> nn.Module:
        torch.manual_seed(0)
        return self.make_net(K).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]


def engine_epoch(case: Case, method: Method, warm: int) -> Epoch:
    """An epoch of the engine, after `warm` epochs that are not measured."""
    ranks = Ranks()
    source = make_batches(case.X, ranks.device)
    feed = Feed(source, fit_scaling(source, case.train), case.augment)
    job = Job(feed, case.y, case.train, K, (feed, case.val, case.y[case.val]))
    settings = Settings(epochs=1000, batch_size=BATCH)
    engine = Engine(job, method, case.make_net, settings, ranks)
    for _ in range(warm):
        engine.run_epoch(engine.state.epoch + 1)
    return lambda: engine.run_epoch(engine.state.epoch + 1)


def bare_epoch(case: Case) -> Epoch:
    """What one would write by hand: gather, augment, scale, step; then evaluate."""
    x, y = torch.from_numpy(case.X), torch.from_numpy(case.y)
    mean = x.double().mean(dim=(0, 1, 2)).float()
    std = x.double().std(dim=(0, 1, 2)).float()
    net = case.fresh_net()
    optimizer = torch.optim.RAdam(net.parameters(), 1e-3, weight_decay=5e-4)
    rows, held_out = torch.from_numpy(case.train), torch.from_numpy(case.val)
    pad = case.X.shape[1] // 8

    def epoch() -> float:
        net.train()
        for index in rows[torch.randperm(len(rows))].split(BATCH):
            raw = x[index]
            if case.augment:
                shift = torch.randint(0, 2 * pad + 1, (len(index), 2))
                raw = crop_flip(raw, shift, torch.rand(len(index)) < 0.5, pad)
            loss = F.cross_entropy(net(((raw - mean) / std).permute(0, 3, 1, 2)), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.inference_mode():
            scores = [
                net(((x[i] - mean) / std).permute(0, 3, 1, 2)).argmax(1) == y[i]
                for i in held_out.split(BATCH)
            ]
        return float(torch.cat(scores).float().mean())

    return epoch


def skorch_epoch(case: Case) -> Epoch:
    """The same job with skorch: its loop, its loader, tensors scaled beforehand."""
    from skorch import NeuralNetClassifier
    from skorch.dataset import ValidSplit

    x = torch.from_numpy(case.X).float().permute(0, 3, 1, 2)
    x = ((x - x.mean()) / x.std()).contiguous(memory_format=torch.channels_last)
    net = NeuralNetClassifier(
        case.fresh_net(),
        criterion=nn.CrossEntropyLoss,  # pyright: ignore[reportArgumentType]
        optimizer=torch.optim.RAdam,
        lr=1e-3,
        optimizer__weight_decay=5e-4,
        batch_size=BATCH,
        iterator_train__shuffle=True,
        train_split=ValidSplit(10, stratified=False),
        max_epochs=1,
        verbose=0,
    )
    net.initialize()
    return lambda: net.partial_fit(x, case.y)


def measure(contestants: dict[str, Epoch], rounds: int) -> dict[str, list[float]]:
    """CPU seconds per epoch of each, taking turns; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, epoch in contestants.items():
            began = time.process_time()
            epoch()
            if turn:
                seconds[name].append(time.process_time() - began)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, other: str) -> float:
    return min(seconds[name]) / min(seconds[other])


def speed(case: Case, rounds: int) -> None:
    running = AdaCorr(burn_in=1, correct_after=1, refresh_after=2, predictions="running", window=1)
    fresh = AdaCorr(burn_in=1, correct_after=1, refresh_after=2)
    contestants = {
        "bare": bare_epoch(case),
        "standard": engine_epoch(case, Standard(), 1),
        "running": engine_epoch(case, running, 3),
        "fresh": engine_epoch(case, fresh, 3),
    }
    if not case.augment:  # skorch leaves augmentation to the dataset, sample by sample
        contestants["skorch"] = skorch_epoch(case)
    seconds = measure(contestants, rounds)
    kind = "crop and flip" if case.augment else "no augmentation"
    print(f"\n{case.name}, {len(case.train):,} samples {case.X.shape[1:]}, {kind}:")
    show("engine / bare loop", ratio(seconds, "standard", "bare"), 1.03)
    show("AdaCorr, running / Standard", ratio(seconds, "running", "standard"), 1.05)
    show("AdaCorr, fresh (paper) / Standard", ratio(seconds, "fresh", "standard"), 1.40)
    if "skorch" in seconds:
        show("engine / skorch", ratio(seconds, "standard", "skorch"), 1.00)
    print("  CPU seconds: " + ", ".join(f"{k} {min(v):.3f}" for k, v in seconds.items()))


def show(what: str, value: float, target: float) -> None:
    verdict = "PASS" if value <= target else "MISS"
    print(f"  {what:36}{value:6.3f}   target <= {target:.2f}   {verdict}")


def memory(n: int = 1_000_000, k: int = 1000, top: int = 16) -> None:
    """One end of epoch and one step of AdaCorr at full size, with random predictions."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, k, (n,), generator=generator)
    f = torch.empty(n, k)
    for part in f.split(50_000):
        part.uniform_(generator=generator).pow_(8)
        part.div_(part.sum(dim=1, keepdim=True))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    method = AdaCorr(burn_in=1, correct_after=1, top_k=top)
    method.start(Setting(labels, k, 10, f.device))
    new = method.end_epoch(EpochEnd(1, labels, f, lambda: f, [{}], print))
    index = torch.arange(BATCH)
    logits = torch.randn(BATCH, k, generator=generator)
    nothing = torch.empty(BATCH, 0)  # the input; this method asks for its logits alone
    method.loss(Step((logits,), new[index], index, 2, generator, nothing, lambda i, x: x))
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    kept = sum(t.nbytes for t in method.state().values()) / 2**30
    whole = n * k * 4 / 2**30
    print(f"N = {n:,}, K = {k:,}; {int((new != labels).sum()):,} labels changed")
    print(f"  one (N, K) array of predictions      {whole:10.2f} GiB")
    print(f"  AdaCorr keeps per run, top_k={top:<8} {kept:10.2f} GiB")
    print(f"  more at the peak of a correction     {extra:10.2f} GiB")
    print(f"  the released code's (N, K, K)        {whole * k:10.2f} GiB")
    show("kept and peak / N K floats", (kept + extra) / whole, 1.00)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of training.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--memory", action="store_true", help="state for N = 1M, K = 1000")
    arguments = parser.parse_args()
    if arguments.memory:
        memory()
        return
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)
    rounds = 3 if arguments.quick else 10
    speed(Case("cnn", (28, 28, 1), 2560, augment=False), rounds)
    speed(Case("cnn", (28, 28, 1), 2560, augment=True), rounds)
    speed(Case("resnet8", (32, 32, 3), 640, augment=False), rounds)
    speed(Case("resnet8", (32, 32, 3), 640, augment=True), rounds)


if __name__ == "__main__":
    main()

"""``fit``: samples and noisy labels in; a model and corrected labels out.

Two things that are apart: the model comes from the method, which may train on any labels it likes;
the labels come from the rule of ``adacorr.correct``, on predictions of nets that did not learn from
the row (:mod:`adacorr.train.crossfit`), whatever the method.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from adacorr.core.answers import Answers, encode_answers
from adacorr.core.streams import SPLIT, numbers
from adacorr.core.validation import InputError
from adacorr.correction.arrays import Correction
from adacorr.correction.shown import summary, suspect_rows
from adacorr.labels import Codec, Encoded, encode_labels, plain_labels
from adacorr.runs.directory import Run
from adacorr.runs.shown import suspects_html
from adacorr.train.batches import Batches, Feed, Scaling, fit_scaling, make_batches, make_feed
from adacorr.train.crossfit import out_of_fold
from adacorr.train.engine import Engine, EpochInfo, Job, Model, Progress, Silent
from adacorr.train.handout import HandOut, hand_out
from adacorr.train.methods.base import Method
from adacorr.train.output import RunWriter
from adacorr.train.ranks import Ranks
from adacorr.train.settings import Settings, default_epochs
from adacorr.train.state import locked

NetLike = nn.Module | Callable[[int], nn.Module] | str | None
Validation = float | tuple[Any, ArrayLike]


@dataclass(frozen=True)
class FitResult:
    """What :func:`fit` gives back; arrays are in the order of the data.

    Attributes
    ----------
    labels : (N,) corrected labels, of the kind that was passed in; the given ones with
        ``correct=False``.
    correction : the rule's word on every row (class indices): ratio, confidence, noise rate, what
        it would say; None with ``correct=False``.
    withheld : why the rule's changes are not made, in a sentence; empty otherwise.
    out_of_fold : (N, K) what `correction` was made from; None with ``correct=False``.
    trained_labels : (N,) the labels that the method trained on last: its own affair.
    pred_probs : (N, K) probabilities of the selected model, which has learnt from these rows.
    history : one dict per epoch (what ``metrics.jsonl`` holds).
    selected_epoch : whose weights `model` has: the best on the validation split.
    model : the nets, the method's way to probabilities, the scaling of the input.
    validation_index : (V,) rows held out to select the epoch; empty if validation data was passed.
    run : the run directory, if there is one.
    codec : the classes and how the user writes them.
    """

    labels: NDArray[Any]
    correction: Correction | None
    withheld: str
    out_of_fold: NDArray[np.float32] | None
    trained_labels: NDArray[Any]
    pred_probs: NDArray[np.float32]
    history: list[dict[str, Any]]
    selected_epoch: int
    model: Model
    validation_index: NDArray[np.int64]
    run: Run | None
    codec: Codec

    def __repr__(self) -> str:
        return f"FitResult({self._said()})"

    def _repr_html_(self) -> str:
        """What a notebook shows: what was learnt and found, and the first suspects."""
        named = self._named()
        warnings = () if named is None else named.warnings
        return suspects_html(self._said(), warnings, [] if named is None else suspect_rows(named))

    def plot(self) -> Any:
        """As :meth:`adacorr.Correction.plot`."""
        named = self._named()
        if named is None:
            raise InputError("plot: expected a fit that corrects, got one with correct=False")
        return named.plot()

    def _said(self) -> str:
        trained = f"epoch {self.selected_epoch} of {len(self.history)}"
        if self.correction is None:
            return f"{trained}, labels not corrected"
        why = f", no label is changed: {self.withheld}" if self.withheld else ""
        return f"{trained}, {summary(self.correction)}{why}"

    def _named(self) -> Correction | None:
        """The correction in the user's own words."""
        found, decode = self.correction, self.codec.decode
        if found is None:
            return None
        return replace(
            found,
            labels=decode(found.labels),
            suggested=decode(found.suggested),
            alternative=None if found.alternative is None else decode(found.alternative),
            given=None if found.given is None else decode(found.given),
        )

    def predict_proba(self, data: Any, workers: int = 0) -> NDArray[np.float32]:
        """(M, K) class probabilities for new samples."""
        return self.model.predict_proba(data, workers)


def fit(
    net: NetLike,
    data: Any,
    labels: ArrayLike | None = None,
    *,
    method: Method | None = None,
    epochs: int | None = Settings.epochs,
    batch_size: int = Settings.batch_size,
    lr: float = Settings.lr,
    weight_decay: float = Settings.weight_decay,
    optimizer: Literal["radam", "radamw", "sgd"] = Settings.optimizer,
    seed: int = Settings.seed,
    augment: bool | None = Settings.augment,
    workers: int = Settings.workers,
    mixed_precision: Literal["no", "bf16"] = Settings.mixed_precision,
    validation: Validation = 0.1,
    correct: bool = True,
    verified: Any = None,
    class_names: Sequence[str] | Codec | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[EpochInfo], dict[str, Any] | None] | None = None,
    progress: Progress | None = None,
    config: Mapping[str, Mapping[str, Any]] | None = None,
) -> FitResult:
    """Train on noisy labels with `method`, and correct them.

    Parameters
    ----------
    net : a factory ``k -> module`` with k outputs, a module (for methods of one net with K
        outputs), a name or ``package.module:factory``, or None to choose by the input's shape.
    data : (N, ...) array or tensor in memory, or any map-style dataset whose items are arrays or
        tuples that start with one; see :mod:`adacorr.train.batches` for how each is fed.
    labels : (N,) class indices or names; by default ``data.labels`` or ``data.targets``.
    method : one of :data:`adacorr.train.METHODS`; by default Posterior, for a module AdaCorr.
    epochs, batch_size, lr, weight_decay, optimizer, seed, augment, workers, mixed_precision :
        see :class:`adacorr.train.Settings`.
    validation : the fraction of the (noisy) samples held out to select the epoch, or a pair (data,
        labels) that was set aside, preferably clean.
    correct : correct the labels as well: further nets of this kind are trained on parts of the data
        and predict the rest, which takes about as long again (four times with few rows). False
        trains only.
    verified : what people said of single rows, as in :func:`adacorr.correct`: it chooses the rule
        of the correction, and its rows get the verified label. Nothing is trained on it.
    class_names : K names, or the codec of the labels; by default ``data.class_names`` or what
        `labels` holds.
    run_dir : where to write the run; without it nothing is written and nothing can be resumed.
    resume : go on from the last checkpoint in `run_dir` with the same arguments.
    on_epoch : called after each epoch; the dict that it returns joins that epoch's record.
    progress : told of every batch and epoch.
    config : more entries for the run's ``config.toml``, by table.

    Examples
    --------
    >>> import numpy as np
    >>> from adacorr.train import Standard, fit
    >>> x = np.random.default_rng(0).normal(size=(60, 2)).astype("float32")
    >>> result = fit(lambda k: torch.nn.Linear(2, k), x, (x[:, 0] > 0).astype(int),
    ...              method=Standard(), epochs=2)
    >>> result.pred_probs.shape
    (60, 2)
    """
    settings = Settings(
        epochs, batch_size, lr, weight_decay, optimizer, seed, augment, workers, mixed_precision
    )
    method = copy.copy(method) if method is not None else default_method(net)
    if isinstance(net, nn.Module) and method.twins:
        raise InputError(f"net: expected a factory k -> module for {method.name}, got a module")
    given = read_labels(data, labels, class_names)
    answers = encode_answers(verified, len(given.codes), given.codec)
    if answers and not correct:
        raise InputError("verified: expected only where labels are corrected, got correct=False")
    ranks = Ranks(mixed_precision)
    samples = getattr(data, "features", data)
    with torch.random.fork_rng(), _deterministic():
        job = make_job(samples, given, validation, settings, ranks.device)
        settings = replace(settings, epochs=epochs or default_epochs(len(job.train)))
        _check_images(net, job.feed.source)
        make_net = net_factory(net, job.feed.source.shape)
        engine = Engine(
            job, method, make_net, settings, ranks, progress=progress, on_epoch=on_epoch
        )
        if run_dir is None:
            if resume:
                raise InputError("resume: expected run_dir to resume from, got none")
            engine.run(lambda _: None)
            return _finish(engine, given, None, correct, answers)
        asked = {"correct": {"delta": "auto"}} if correct else {}
        extra = {**(config or {}), **asked}
        writer = RunWriter(Path(run_dir), engine, given.codec.names, net, extra)
        with locked(Path(run_dir)) if ranks.first else nullcontext():
            writer.begin(resume, (progress or Silent()).log)
            engine.run(lambda _: writer.after_epoch())
            return _finish(engine, given, writer, correct, answers)


def default_method(net: NetLike) -> Method:
    """The recipe of two nets that came out above Standard most often (docs/results.md).

    Of a module there is one only: it gets AdaCorr.
    """
    from adacorr.train.methods import AdaCorr, Posterior

    return AdaCorr() if isinstance(net, nn.Module) else Posterior()


def _deterministic():
    """The same numbers every time; whatever is not named here would be switched off."""
    cudnn = torch.backends.cudnn
    return cudnn.flags(
        enabled=cudnn.enabled, deterministic=True, benchmark=False, allow_tf32=cudnn.allow_tf32
    )


# -- what the user passed, checked ---------------------------------------------------------------


def read_labels(
    data: Any, labels: ArrayLike | None, class_names: Sequence[str] | Codec | None
) -> Encoded:
    """The given labels as class indices; one per sample, two classes or more."""
    if labels is None:
        labels = getattr(data, "labels", getattr(data, "targets", None))
    if labels is None:
        raise InputError("labels: expected one per sample, got none")
    known = getattr(data, "class_names", None)
    y = plain_labels(labels)
    if len(y) != len(data):
        raise InputError(f"labels: expected one per sample, got {len(y)} for {len(data)} samples")
    integers = y.dtype.kind in "iub"
    if isinstance(class_names, Codec):
        encoded = Encoded(class_names.encode(y), class_names)
    elif class_names is None and known is not None and integers:  # a Dataset's are indices
        codec = Codec.of_indices(known)
        encoded = Encoded(codec.encode(y), codec)
    else:
        names = known if class_names is None else class_names
        k = (int(y.max(initial=0)) + 1) if integers else len(np.unique(y))
        encoded = encode_labels(y, max(k, 1) if names is None else len(names), names)
    if len(np.unique(encoded.codes)) < 2:
        raise InputError("labels: expected two classes or more, got one only")
    return encoded


def make_job(
    samples: Any, given: Encoded, validation: Validation, settings: Settings, device: torch.device
) -> Job:
    """Carve out the validation part, fit the scaling on the rest."""
    source = make_batches(samples, device, settings.workers)
    n = len(given.codes)
    if isinstance(validation, tuple):
        val = np.empty(0, dtype=np.int64)
    else:
        val = validation_rows(n, validation, settings.seed)
    train = np.setdiff1d(np.arange(n), val)
    scaling = fit_scaling(source, train).to(device)
    feed = make_feed(source, scaling, settings.augment)
    held_out = (feed, val, given.codes[val])
    if isinstance(validation, tuple):
        held_out = _passed_validation(validation, given, source, scaling, settings.workers, device)
    return Job(feed, given.codes, train, len(given.codec.names), held_out)


def _passed_validation(
    pair: tuple[Any, ArrayLike],
    given: Encoded,
    like: Batches,
    scaling: Scaling,
    workers: int,
    device: torch.device,
) -> tuple[Feed, NDArray[np.int64], NDArray[np.int64]]:
    source = make_batches(pair[0], device, workers)
    if source.shape != like.shape or source.kind != like.kind:
        raise InputError(f"validation: expected samples of shape {like.shape}, got {source.shape}")
    codes = given.codec.encode(pair[1])
    if len(codes) != len(source):
        raise InputError(
            f"validation: expected one label per sample, got {len(codes)} for {len(source)}"
        )
    return Feed(source, scaling, augment=False), np.arange(len(source)), codes


def validation_rows(n: int, fraction: float, seed: int) -> NDArray[np.int64]:
    """Sorted rows of a random `fraction` of n samples.

    >>> len(validation_rows(50, 0.1, seed=0))
    5
    """
    if not 0 < fraction < 1:
        raise InputError(f"validation: expected a fraction between 0 and 1, got {fraction:g}")
    size = max(1, round(n * fraction))
    if n - size < 2:
        raise InputError(f"data: expected more samples than {n} to hold out {fraction:g} of them")
    return np.sort(numbers(seed, SPLIT).permutation(n)[:size])


def _check_images(net: NetLike, source: Batches) -> None:
    """Nets by name take images as bytes, channels last; say so before a layer does."""
    name = net.partition(":")[0] if isinstance(net, str) else ""
    if (net is not None and not name) or name in ("mlp", "pointnet") or "." in name:
        return
    shape = source.shape
    if source.kind == "as_is":
        wrong = len(shape) == 3 or (len(shape) == 2 and shape[1] != 3)
    else:
        wrong = len(shape) == 3 and shape[2] not in (1, 3) and shape[0] in (1, 3)
    if wrong:
        got = "floats or tensors" if source.kind == "as_is" else "channels first"
        raise InputError(
            f"data: expected uint8 images (N, H, W) or (N, H, W, C) for net {name or None!r}, got "
            f"samples of {shape}, {got}; adacorr.data.from_arrays converts, or pass your own net"
        )


def net_factory(net: NetLike, shape: tuple[int, ...]) -> Callable[[int], nn.Module]:
    """``k -> fresh module``, whatever the user passed."""
    if net is None or isinstance(net, str):
        from adacorr.train.nets import make_factory

        return make_factory(net, shape)
    return (lambda _: copy.deepcopy(net)) if isinstance(net, nn.Module) else net


# -- the end -------------------------------------------------------------------------------------


def _finish(
    engine: Engine, given: Encoded, writer: RunWriter | None, correct: bool, answers: Answers
) -> FitResult:
    """Weights and probabilities of the selected epoch; the labels by the rule."""
    state, job = engine.state, engine.job
    state.model.load_weights(state.best_weights)
    pred_probs = engine.predict_rows(job.feed, np.arange(len(job.labels))).cpu().numpy()
    handed = _hand_out(engine, answers) if correct else None
    codes = job.labels if handed is None else handed.correction.labels
    val = np.setdiff1d(np.arange(len(codes)), job.train)
    run = writer.finish(pred_probs, val, handed) if writer is not None else None
    return FitResult(
        labels=given.decode(codes),
        correction=None if handed is None else handed.correction,
        withheld="" if handed is None else handed.withheld,
        out_of_fold=None if handed is None else handed.pred_probs,
        trained_labels=given.decode(engine.labels()),
        pred_probs=pred_probs,
        history=state.history,
        selected_epoch=state.best_epoch,
        model=state.model,
        validation_index=val,
        run=run,
        codec=given.codec,
    )


def _hand_out(engine: Engine, answers: Answers) -> HandOut:
    f = out_of_fold(engine.job, engine.make_net, engine.settings, engine.ranks, engine.progress)
    handed = hand_out(engine.job.labels, f, answers)
    if handed.withheld:
        engine.progress.log(f"no label is changed: {handed.withheld}")
    return handed

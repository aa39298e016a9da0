"""From the user's samples to batches of network input, in memory or loaded by workers.

NumPy arrays are raw data: uint8 images (H, W) or (H, W, C) are scaled per channel and put channels
first, tables (D,) are scaled per column, everything else (point clouds, ...) is taken as it is.
Torch tensors are taken as they are, always. Whatever is random is drawn here for the whole batch
in the main process, so neither the number of workers nor the number of ranks changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from adacorr.core.validation import InputError

Kind = Literal["image", "table", "as_is"]

SCALING_SAMPLES = 4096  # enough for a mean and a deviation per channel
JITTER, JITTER_LIMIT = 0.01, 0.05  # of a cloud in the unit ball, as in PointNet's own training


def kind_of(sample: NDArray[Any] | Tensor) -> Kind:
    """What a sample is, by its type and shape.

    >>> kind_of(np.zeros((8, 8), np.uint8)), kind_of(np.zeros(5)), kind_of(torch.zeros(3, 8, 8))
    ('image', 'table', 'as_is')
    """
    if isinstance(sample, Tensor):
        return "as_is"
    if sample.dtype == np.uint8 and sample.ndim in (2, 3):
        return "image"
    return "table" if sample.ndim == 1 else "as_is"


def as_sample(item: Any) -> NDArray[Any] | Tensor:
    """The input of a dataset's item: an array, a tensor, a PIL image, or the first of a tuple."""
    if isinstance(item, tuple | list):
        item = item[0]
    return item if isinstance(item, Tensor) else np.asarray(item)


@dataclass(frozen=True)
class Scaling:
    """Raw batch -> network input; saved with the weights, so that predict does the same."""

    kind: Kind
    mean: Tensor
    std: Tensor

    def __call__(self, raw: Tensor) -> Tensor:
        if self.kind == "as_is":
            return raw.float() if raw.dtype == torch.float64 else raw
        x = (raw - self.mean).div_(self.std)  # bytes become floats on the way, in one pass
        # (B, H, W, C) seen as (B, C, H, W) is the channels-last layout, without a copy
        return x.permute(0, 3, 1, 2) if self.kind == "image" else x

    def to(self, device: torch.device) -> Scaling:
        return Scaling(self.kind, self.mean.to(device), self.std.to(device))


def fit_scaling(source: Batches, index: NDArray[np.int64]) -> Scaling:
    """Mean and deviation per channel or column over (at most 4,096 of) the training samples."""
    if source.kind == "as_is":
        return Scaling("as_is", torch.zeros(1), torch.ones(1))
    every = max(1, len(index) // SCALING_SAMPLES)
    chosen = torch.from_numpy(index[::every])
    raw = torch.cat([x.cpu() for x in source.batches(list(chosen.split(256)))]).double()
    if not raw.isfinite().all():
        row = int((~raw.isfinite()).flatten(1).any(dim=1).int().argmax())
        raise InputError(f"data: expected finite numbers, got NaN or infinity in row {chosen[row]}")
    over = tuple(range(raw.ndim - 1))
    std = raw.std(dim=over, correction=0)
    std[std == 0] = 1.0
    return Scaling(source.kind, raw.mean(dim=over).float(), std.float())


class Batches:
    """Samples by position. `batches` yields one raw batch on the device for each index tensor."""

    kind: Kind
    shape: tuple[int, ...]  # of one raw sample; images always (H, W, C)

    def __len__(self) -> int:
        raise NotImplementedError

    def batches(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        raise NotImplementedError


class ArrayBatches(Batches):
    """Everything in memory, kept on the device in its own dtype and gathered by index."""

    def __init__(self, array: NDArray[Any] | Tensor, device: torch.device) -> None:
        self.kind = kind_of(array[0])
        data = array if isinstance(array, Tensor) else torch.from_numpy(_plain(array))
        if self.kind == "image" and data.ndim == 3:
            data = data[..., None]
        self.data = data.to(device)
        self.shape = tuple(data.shape[1:])

    def __len__(self) -> int:
        return len(self.data)

    def batches(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        for index in parts:
            yield self.data[index.to(self.data.device)]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "fiub":
        raise InputError(f"data: expected numbers, got dtype {array.dtype}")
    if array.dtype != np.uint8:
        array = array.astype(np.float32)
    elif not array.flags.writeable:  # a memory map: torch wants to own what it may write
        array = array.copy()
    return np.ascontiguousarray(array)


class LazyBatches(Batches):
    """A map-style dataset, read item by item, by `workers` processes if any."""

    def __init__(self, dataset: Any, device: torch.device, workers: int) -> None:
        sample = as_sample(dataset[0])
        self.dataset, self.device, self.workers = dataset, device, workers
        self.kind = kind_of(sample)
        shape = tuple(sample.shape)
        self.shape = (*shape, 1) if self.kind == "image" and len(shape) == 2 else shape

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        loader = DataLoader(
            _Items(self.dataset, self.shape),
            batch_sampler=[part.tolist() for part in parts],
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator().manual_seed(0),  # leaves the global stream alone
        )
        with worker_errors():
            for raw in loader:
                yield raw.to(self.device, non_blocking=True)


@contextmanager
def worker_errors() -> Iterator[None]:
    """One line for the end of a process that loads data; torch raises it in whatever runs then."""
    try:
        yield
    except (RuntimeError, InputError) as error:
        raise _of_worker(error) from error


def _of_worker(error: Exception) -> Exception:
    """What a process that loads data said, or how it ended, in one line; others as they are."""
    text = str(error)
    if "DataLoader worker" not in text:
        return error
    if isinstance(error, InputError):  # the message comes with the other process's traceback
        last = text.strip().splitlines()[-1]
        return InputError(last.removeprefix(f"{InputError.__module__}.InputError: "))
    reason = " ".join(text.split())
    if "Original Traceback" in text:
        return error
    return InputError(f"workers: expected processes that load data to the end, got: {reason}")


class _Items(Dataset):
    """Each item as a tensor of the one shape that batches need."""

    def __init__(self, dataset: Any, shape: tuple[int, ...]) -> None:
        self.dataset, self.shape = dataset, shape

    def __getitem__(self, i: int) -> Tensor:
        sample = as_sample(self.dataset[i])
        tensor = sample if isinstance(sample, Tensor) else torch.from_numpy(_plain(sample))
        if tensor.ndim == len(self.shape) - 1:
            tensor = tensor[..., None]
        if tuple(tensor.shape) != self.shape:
            raise InputError(
                f"data: expected samples of one shape {self.shape}, got {tuple(tensor.shape)} "
                f"in row {i}"
            )
        return tensor


def make_batches(data: Any, device: torch.device, workers: int = 0) -> Batches:
    """An array or tensor in memory, or anything with ``len()`` and ``[i]``."""
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise InputError(
            f"data: expected an array or a map-style dataset, got {type(data).__name__}"
        )
    if len(data) == 0:
        raise InputError("data: expected at least one sample, got none")
    if isinstance(data, np.ndarray | Tensor):
        if data.ndim < 2:
            raise InputError(f"data: expected shape (N, ...), got {tuple(data.shape)}")
        return ArrayBatches(data, device)
    return LazyBatches(data, device, workers)


def epoch_batches(rows: Tensor, size: int, ranks: int, generator: torch.Generator) -> list[Tensor]:
    """A random order of `rows` in batches of `size`.

    A last batch too small to give every rank two samples (batch norm needs two) joins the one
    before.

    >>> [len(b) for b in epoch_batches(torch.arange(9), 4, 1, torch.Generator())]
    [4, 5]
    """
    order = rows[torch.randperm(len(rows), generator=generator)]
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) < 2 * ranks:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def crop_flip(raw: Tensor, shift: Tensor, flip: Tensor, pad: int) -> Tensor:
    """Cut (B, H, W, C) images out of their zero-padded selves at `shift`, mirror where `flip`."""
    b, h, w, _ = raw.shape
    padded = F.pad(raw, (0, 0, pad, pad, pad, pad))
    column = torch.arange(w, device=raw.device).expand(b, w)
    column = torch.where(flip[:, None], w - 1 - column, column) + shift[:, 1:]
    row = torch.arange(h, device=raw.device) + shift[:, :1]
    batch = torch.arange(b, device=raw.device)[:, None, None]
    return padded[batch, row[:, :, None], column[:, None, :]]


def jitter(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Small moves of every coordinate of (B, P, 3) clouds: normal, cut off."""
    return (JITTER * torch.randn(*shape, generator=generator)).clamp_(-JITTER_LIMIT, JITTER_LIMIT)


@dataclass(frozen=True)
class Feed:
    """A source with its scaling: batches of network input for training and for evaluation."""

    source: Batches
    scaling: Scaling
    augment: bool

    def evaluation(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        for raw in self.source.batches(parts):
            yield self.scaling(raw)

    def training(
        self,
        batches: Sequence[Tensor],
        part: Callable[[Tensor], Tensor],
        generator: torch.Generator,
    ) -> Iterator[Tensor]:
        """`part` cuts this rank's share out of a batch; the draws are made for the whole batch."""
        parts = [part(index) for index in batches]
        if not self.augment:
            yield from self.evaluation(parts)
            return
        for index, raw in zip(batches, self.source.batches(parts), strict=True):
            yield self.scaling(self._augmented(raw, len(index), part, generator))

    def _augmented(
        self, raw: Tensor, n: int, part: Callable[[Tensor], Tensor], generator: torch.Generator
    ) -> Tensor:
        """This rank's samples, changed by its part of what is drawn for all `n` of the batch."""
        if self.source.kind != "image":
            return raw + part(jitter((n, *raw.shape[1:]), generator)).to(raw)
        pad = max(1, self.source.shape[0] // 8)
        shift = torch.randint(0, 2 * pad + 1, (n, 2), generator=generator)
        flip = torch.rand(n, generator=generator) < 0.5
        return crop_flip(raw, part(shift).to(raw.device), part(flip).to(raw.device), pad)


def make_feed(source: Batches, scaling: Scaling, augment: bool | None) -> Feed:
    """`augment` None means: colour images only (digits must not be mirrored)."""
    if augment is None:
        augment = source.kind == "image" and source.shape[-1] == 3
    cloud = source.kind == "as_is" and len(source.shape) == 2 and source.shape[1] == 3
    if augment and not (source.kind == "image" or cloud):
        raise InputError("augment: expected uint8 images or point clouds (P, 3), got other data")
    return Feed(source, scaling, augment)

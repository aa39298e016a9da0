"""What a method remembers of its predictions: a frozen snapshot, and a mean over epochs."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from adacorr.core.validation import InputError


class Snapshot:
    """f_r: probabilities of an earlier epoch, kept whole or as the k largest and the remainder.

    Whole takes N K floats. With `top_k`, N k floats and N k class indices; the remainder is spread
    evenly over the other classes, so rows still sum to one.
    """

    def __init__(self, n_classes: int, top_k: int | None) -> None:
        if top_k is not None and not 1 <= top_k < n_classes:
            raise InputError(f"top_k: expected 1 to {n_classes - 1} (of K classes), got {top_k}")
        self._k, self._top = n_classes, top_k
        self._values: Tensor | None = None
        self._classes: Tensor | None = None

    @property
    def taken(self) -> bool:
        return self._values is not None

    def take(self, pred_probs: Tensor) -> None:
        """Remember these rows instead of any earlier ones."""
        if self._top is None:
            self._values = pred_probs.clone()
            return
        values, classes = pred_probs.topk(self._top, dim=1)
        self._values, self._classes = values, classes.to(torch.int32)

    def rows(self, index: Tensor) -> Tensor:
        """(B, K) probabilities as they are remembered."""
        assert self._values is not None
        values = self._values[index]
        if self._classes is None:
            return values
        rest = (1 - values.sum(dim=1, keepdim=True)).clamp_min(0) / (self._k - values.shape[1])
        whole = rest.expand(-1, self._k).clone()
        return whole.scatter_(1, self._classes[index].long(), values)

    def state(self) -> dict[str, Tensor]:
        parts = {"values": self._values, "classes": self._classes}
        return {f"snapshot_{name}": part for name, part in parts.items() if part is not None}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._values = state.get("snapshot_values")
        self._classes = state.get("snapshot_classes")


class RollingMean:
    """The mean over the last `window` epochs, exactly: window N K floats (none for a window of 1).

    >>> mean = RollingMean(2)
    >>> [mean.add(torch.tensor([[x, 1 - x]]))[0, 0].item() for x in (0.0, 1.0, 1.0)]
    [0.0, 0.5, 1.0]
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._last: list[Tensor] = []

    def add(self, pred_probs: Tensor) -> Tensor:
        """Take in an epoch and give the mean."""
        if self._window == 1:
            return pred_probs
        self._last = [*self._last, pred_probs.clone()][-self._window :]
        return mean_of(self._last)

    def state(self) -> dict[str, Tensor]:
        return {f"epoch_{i}": part for i, part in enumerate(self._last)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._last = [state[f"epoch_{i}"] for i in range(self._window) if f"epoch_{i}" in state]


def mean_of(parts: Iterable[Tensor]) -> Tensor:
    """Mean of equally shaped tensors without stacking them."""
    first, *others = parts
    total = first.clone()
    for part in others:
        total += part
    return total / (1 + len(others))

"""What every encoder has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

OWN = ("efficientnet-lite0", "tfidf")
"""Encoders of adacorr's: no code and no file that a name could choose."""


@dataclass(frozen=True)
class Vectors:
    """Some rows as numbers.

    Attributes
    ----------
    dense : (B, D) float32; zeros where a sample could not be read.
    readable : (B,) False where it could not, or where there is nothing in it.
    sparse : (B, V) CSR, for the encoders that have it.
    """

    dense: NDArray[np.float32]
    readable: NDArray[np.bool_]
    sparse: Any = None


class Encoder(Protocol):
    """What turns contents into rows of numbers.

    Attributes
    ----------
    name : with everything that changes the numbers.
    fitted : whether `fit` learns from the samples; else a row's numbers are its own affair, and
        can be kept when other rows change.
    """

    name: str
    fitted: bool

    def fit(self, content: Any) -> None: ...
    def encode(self, content: Any) -> Vectors: ...

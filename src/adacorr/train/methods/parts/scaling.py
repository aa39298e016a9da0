"""Epoch counts of the sources, carried over to runs of other lengths."""

from __future__ import annotations


def scaled(epochs: float, of: int, run: int) -> int:
    """`epochs` of a run of `of` epochs, as whole epochs (at least one) of a run of `run` epochs.

    >>> scaled(30, of=180, run=180), scaled(30, of=180, run=30), scaled(1, of=180, run=30)
    (30, 5, 1)
    """
    return max(1, round(epochs * run / of))

"""Dropout before the classifier of any net, for Forgetting (Arpit et al. 2017)."""

from __future__ import annotations

from torch import nn

from adacorr.core.validation import InputError


def with_dropout(net: nn.Module, p: float) -> nn.Module:
    """Put ``nn.Dropout(p)`` before the last linear layer of `net`, in place, and return `net`.

    The last linear layer is the one registered last (the classifier in every net here); a net
    without one is refused.

    >>> net = with_dropout(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), 0.5)
    >>> net[2][0].p
    0.5
    """
    last = None
    for parent in net.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                last = (parent, name, child)
    if isinstance(net, nn.Linear):
        return nn.Sequential(nn.Dropout(p), net)
    if last is None:
        raise InputError(f"net: expected a linear layer to drop before, got {type(net).__name__}")
    parent, name, child = last
    setattr(parent, name, nn.Sequential(nn.Dropout(p), child))
    return net

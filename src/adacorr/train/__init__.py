"""Training with noisy labels; the only package that imports torch.

Everything is imported on first use, so that ``adacorr fit --help`` need not wait for torch.
"""

from importlib import import_module

_HOMES = {
    "EpochInfo": "adacorr.train.engine",
    "FitResult": "adacorr.train.fitting",
    "METHODS": "adacorr.train.methods",
    "Settings": "adacorr.train.settings",
    "fit": "adacorr.train.fitting",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name[0].isupper():  # Standard, AdaCorr, ...
        return getattr(import_module("adacorr.train.methods"), name)
    raise AttributeError(f"module 'adacorr.train' has no attribute {name!r}")

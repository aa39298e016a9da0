"""adacorr: find, fix and certify wrong labels.

>>> import adacorr
>>> result = adacorr.correct([0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]], delta=0.9)
>>> result.labels
array([0, 0, 1])

This file alone says what the public surface is; modules that it does not name are private.
Everything is imported on first use, so ``import adacorr`` costs little more than numpy and never
loads torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from adacorr._version import __version__

if TYPE_CHECKING:  # what editors and type checkers see instead of __getattr__
    from adacorr import certificate, data, estimators, noise, theory, train
    from adacorr.cleaning.clean import Cleaned, clean
    from adacorr.core.answers import CANNOT_TELL, Answers
    from adacorr.core.asking import ask
    from adacorr.core.certify import Certificate
    from adacorr.core.transition import estimate_transition
    from adacorr.core.validation import InputError
    from adacorr.correction.arrays import Correction, correct
    from adacorr.correction.frames import correct_frame, to_cleanlab
    from adacorr.correction.tables import correct_table
    from adacorr.train.fitting import fit

_FUNCTIONS = {
    "Answers": "adacorr.core.answers",
    "CANNOT_TELL": "adacorr.core.answers",
    "Certificate": "adacorr.core.certify",
    "Cleaned": "adacorr.cleaning.clean",
    "Correction": "adacorr.correction.arrays",
    "InputError": "adacorr.core.validation",
    "ask": "adacorr.core.asking",
    "clean": "adacorr.cleaning.clean",
    "correct": "adacorr.correction.arrays",
    "correct_frame": "adacorr.correction.frames",
    "correct_table": "adacorr.correction.tables",
    "estimate_transition": "adacorr.core.transition",
    "fit": "adacorr.train.fitting",
    "to_cleanlab": "adacorr.correction.frames",
}
_MODULES = ("certificate", "data", "estimators", "noise", "theory", "train")

__all__ = [
    "CANNOT_TELL",
    "Answers",
    "Certificate",
    "Cleaned",
    "Correction",
    "InputError",
    "__version__",
    "ask",
    "certificate",
    "clean",
    "correct",
    "correct_frame",
    "correct_table",
    "data",
    "estimate_transition",
    "estimators",
    "fit",
    "noise",
    "theory",
    "to_cleanlab",
    "train",
]


def __getattr__(name: str):
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
    if name in _MODULES:
        return import_module(f"adacorr.{name}")
    raise AttributeError(f"module 'adacorr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

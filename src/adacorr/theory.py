"""The paper's bounds, with their conditions, and the Tsybakov fit."""

from adacorr.paper.theory import *  # noqa: F403
from adacorr.paper.theory import __all__ as __all__

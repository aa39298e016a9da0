"""The command line under way, as a run directory records it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

arguments: ContextVar[Sequence[str]] = ContextVar("arguments", default=())


def command_line() -> str:
    """What to type to run this again.

    >>> token = arguments.set(["fit", "my photos"])
    >>> command_line()
    "adacorr fit 'my photos'"
    >>> arguments.reset(token)
    """
    return shlex.join(["adacorr", *arguments.get()])

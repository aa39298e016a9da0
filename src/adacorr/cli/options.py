"""Options that many commands have: how to say what came out, what to replace, where to work."""

from __future__ import annotations

import json as json_lib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from adacorr.core.validation import InputError


def printable(text: str) -> str:
    """Names from files may hold codes that command a terminal: they are shown, not sent.

    >>> print(printable("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


@Parameter(name="*")
@dataclass(frozen=True)
class Printing:
    """How a command says what came out.

    Attributes
    ----------
    json
        Print one JSON object instead of text.
    quiet
        Print nothing but errors.
    """

    json: bool = False
    quiet: bool = False

    @property
    def silent(self) -> bool:
        """No word beside the result: no progress, no advice."""
        return self.json or self.quiet

    def result(self, facts: Any, text: str | Sequence[str]) -> None:
        """Print the facts as JSON or the text; nothing if neither is wanted."""
        if self.json:
            print(json_lib.dumps(facts, default=_plain), flush=True)
        elif text and not self.quiet:
            print(printable(text if isinstance(text, str) else "\n".join(text)), flush=True)

    def say(self, line: str) -> None:
        """A line beside the result."""
        if not self.silent:
            print(printable(line), flush=True)


@Parameter(name="*")
@dataclass(frozen=True)
class Outputs:
    """What may become of files that exist.

    Attributes
    ----------
    overwrite
        Replace an output that exists.
    """

    overwrite: bool = False

    def check(self, output: str | Path, *inputs: str | Path) -> None:
        """Refuse an output that exists, or that is an input, before any work."""
        from adacorr.cli.outputs import check_new

        check_new(output, self.overwrite, *inputs)


@Parameter(name="*")
@dataclass(frozen=True)
class EngineOptions:
    """Where the work is done.

    Attributes
    ----------
    engine
        "dask" spreads the work over worker processes; the result is the same.
    scheduler
        The address of a running Dask scheduler whose workers see the same files. Default: workers
        on this machine.
    """

    engine: Literal["local", "dask"] = "local"
    scheduler: str | None = None

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A Dask client; None for this process."""
        if self.scheduler is not None and self.engine != "dask":
            raise InputError("--scheduler: expected only with --engine dask, got it without")
        if self.engine != "dask":
            yield None
            return
        from adacorr.correction.cluster import connect

        with connect(self.scheduler) as client:
            yield client


TEXT = Printing()
NEW = Outputs()
LOCAL = EngineOptions()


def _plain(value: Any) -> Any:
    """Arrays and numbers of numpy as JSON has them; anything else by its name."""
    return value.tolist() if hasattr(value, "tolist") else str(value)

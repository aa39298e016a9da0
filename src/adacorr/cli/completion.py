"""``adacorr completion``: a script that completes commands and flags in the shell."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the completion script of a shell.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from adacorr.cli import app

    print(app.generate_completion(shell=shell))

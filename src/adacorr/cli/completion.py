"""``adacorr completion``: a script that completes commands and flags in the shell."""

from __future__ import annotations

from typing import Literal

from adacorr.cli.options import TEXT, Printing


def completion(shell: Literal["bash", "zsh", "fish"], *, printing: Printing = TEXT) -> None:
    """Print the completion script of a shell.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from adacorr.cli import app

    script = app.generate_completion(shell=shell)
    # where nothing is known of an argument, the shell's own completion: most are files
    script = script.replace(
        "complete -F _adacorr adacorr", "complete -o default -F _adacorr adacorr"
    )
    printing.result({"shell": shell, "script": script}, script)

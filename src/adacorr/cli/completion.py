"""``adacorr completion``: a script that completes commands and flags in the shell."""

from __future__ import annotations

import json as json_lib
from typing import Literal


def completion(
    shell: Literal["bash", "zsh", "fish"], *, json: bool = False, quiet: bool = False
) -> None:
    """Print the completion script of a shell.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    json
        Print the script as a JSON object.
    quiet
        Print nothing but errors.
    """
    from adacorr.cli import app

    script = app.generate_completion(shell=shell)
    # where nothing is known of an argument, the shell's own completion: most are files
    script = script.replace(
        "complete -F _adacorr adacorr", "complete -o default -F _adacorr adacorr"
    )
    if json:
        print(json_lib.dumps({"shell": shell, "script": script}))
    elif not quiet:
        print(script)

"""The ``adacorr`` command: parse, call, print. Commands are imported when they are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from adacorr._version import __version__

app = App(
    name="adacorr",
    help="""Find, fix and certify wrong labels.

    Example: adacorr correct table.parquet --output corrected.parquet

    Example: adacorr fit digits --noise uniform:0.4
    """,
    version=__version__,
    exit_on_error=False,  # main() words every error alike
    print_error=False,
)
COMMANDS = {  # name -> (where it lives, one line of help)
    "correct": ("adacorr.cli.correct:correct", "Correct labels from predicted probabilities."),
    "fit": ("adacorr.cli.fit:fit", "Train on noisy labels and correct them."),
    "predict": ("adacorr.cli.predict:predict", "Apply a trained model to new data."),
    "report": ("adacorr.cli.report:report", "Write the HTML report of a run."),
    "review": ("adacorr.cli.review:review", "Accept or reject proposed changes in the browser."),
    "export": ("adacorr.cli.export:export", "Export a run for another tool."),
    "theory": ("adacorr.cli.theory:app", "The paper's bounds, fits and figures."),
    "bench": ("adacorr.cli.bench:app", "Run a grid of methods and print the paper's table."),
    "data": ("adacorr.cli.data:app", "List and fetch the named datasets."),
    "doctor": ("adacorr.cli.doctor:doctor", "Show versions, devices, data and missing parts."),
    "completion": ("adacorr.cli.completion:completion", "Print a shell's completion script."),
}
for _name, (_target, _help) in COMMANDS.items():
    app.command(_target, name=_name, help=_help)
app.meta.group_parameters = "Common options"


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    config: Path | None = None,
    print_config: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Find, fix and certify wrong labels.

    Parameters
    ----------
    config
        Settings as TOML, a table per command: [fit] seed = 1. Default: ./adacorr.toml, if any.
        Overruled by the environment (ADACORR_FIT_SEED=1), and that by flags.
    print_config
        Print the settings that the command would run with, as TOML, and stop.
    """
    from adacorr.cli.config import describe, sources

    app.config = sources(config)
    if not print_config:
        app(tokens)
        return
    commands, _, _ = app.parse_commands(tokens)
    _, bound, _ = app.parse_args(tokens)
    print(describe(tuple(commands), bound))


def main(argv: list[str] | None = None) -> None:
    """Run a command; bad input is one line on stderr and exit code 2, never a traceback."""
    try:
        app.meta(argv)
    except KeyboardInterrupt:
        print("adacorr: interrupted; nothing half-written was left behind", file=sys.stderr)
        raise SystemExit(130) from None
    except (ValueError, OSError, CycloptsError) as error:
        print(f"adacorr: {' '.join(str(error).split())}", file=sys.stderr)
        raise SystemExit(2) from None
    except MemoryError:
        print("adacorr: expected enough memory for this input, got none", file=sys.stderr)
        raise SystemExit(2) from None

"""The ``adacorr`` command: parse, call, print. Commands are imported when they are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError

from adacorr._version import __version__
from adacorr.cli.help import Page
from adacorr.cli.invocation import arguments
from adacorr.cli.options import printable
from adacorr.core.validation import InputError

app = App(
    name="adacorr",
    help="""Find, fix and certify wrong labels.

    Example: adacorr correct table.parquet --output corrected.parquet

    Example: adacorr fit digits --noise uniform:0.4
    """,
    version=__version__,
    help_format="plaintext",  # Markdown would swallow the star of "p_*"
    help_formatter=Page(),
    exit_on_error=False,  # main() words every error alike
    print_error=False,
    suppress_keyboard_interrupt=False,
)
COMMANDS = {  # name -> (where it lives, one line of help, an example)
    "clean": (
        "adacorr.cli.clean:clean",
        "Find and correct wrong labels of photos, texts or a table.",
        "clean photos/ --run-dir run",
    ),
    "correct": (
        "adacorr.cli.correct:correct",
        "Correct labels from predicted probabilities.",
        "correct table.parquet --output corrected.parquet",
    ),
    "ask": (
        "adacorr.cli.ask:ask",
        "Say which rows a person should look at.",
        "ask table.parquet --n 50 --output questions.csv",
    ),
    "fit": (
        "adacorr.cli.fit:fit",
        "Train on noisy labels and correct them.",
        "fit digits --noise uniform:0.4",
    ),
    "predict": (
        "adacorr.cli.predict:predict",
        "Apply a trained model to new data.",
        "predict runs/digits-adacorr-1 digits --output predicted.parquet",
    ),
    "report": (
        "adacorr.cli.report:report",
        "Write the HTML report of a run.",
        "report runs/digits-adacorr-1",
    ),
    "review": (
        "adacorr.cli.review:review",
        "Accept or reject proposed changes in the browser.",
        "review runs/digits-adacorr-1",
    ),
    "certify": (
        "adacorr.cli.certify:certify",
        "Certify a run's labels with people's answers.",
        "certify corrected-run --target 0.02",
    ),
    "export": (
        "adacorr.cli.export:export",
        "Export a run for another tool.",
        "export runs/digits-adacorr-1 --to table --output final.csv",
    ),
    "import": (
        "adacorr.cli.import_:import_",
        "Take answers from Label Studio, Argilla or doccano into a run.",
        "import runs/digits-adacorr-1 answers.json",
    ),
    "theory": (
        "adacorr.cli.theory:app",
        "The paper's bounds, fits and figures.",
        "theory synthetic --output theory",
    ),
    "bench": (
        "adacorr.cli.bench:app",
        "Run a grid of methods and print the paper's table.",
        "bench run grids/small-images.toml --workers 2",
    ),
    "data": (
        "adacorr.cli.data:app",
        "List and fetch the named datasets.",
        "data get mnist",
    ),
    "doctor": (
        "adacorr.cli.doctor:doctor",
        "Show versions, devices, data and missing parts.",
        "doctor",
    ),
    "completion": (
        "adacorr.cli.completion:completion",
        "Print a shell's completion script.",
        "completion bash > ~/.local/share/bash-completion/completions/adacorr",
    ),
}
for _name, (_target, _help, _example) in COMMANDS.items():
    app.command(_target, name=_name, help=f"{_help}\n\nExample: adacorr {_example}")

LINE = 1600  # characters of a message; longer ones lose their middle


app.meta.suppress_keyboard_interrupt = False  # not inherited; main() words it


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    config: Annotated[Path | None, Parameter(group="Common options")] = None,
    print_config: Annotated[bool, Parameter(group="Common options", negative=())] = False,
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

    app.config = sources(config, COMMANDS)
    if not print_config:
        app(tokens)
        return
    commands, path, _ = app.parse_commands(tokens)
    if not commands:
        raise InputError(f"--print-config: expected a command, got {' '.join(tokens) or 'none'}")
    _, bound, _ = app.parse_args(tokens)
    flags = {name for a in path[-1].assemble_argument_collection() for name in a.names}
    print(describe(tuple(commands), bound, flags))


def main(argv: list[str] | None = None) -> None:
    """Run a command; bad input is one line on stderr and exit code 2, never a traceback."""
    arguments.set(sys.argv[1:] if argv is None else argv)
    app.config = ()  # of an earlier call in this process
    one_line_errors(lambda: app.meta(argv))


def one_line_errors(call: Callable[[], object]) -> None:
    """Make the call and end the process in plain words when it fails."""
    try:
        call()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("adacorr: interrupted; nothing half-written was left behind", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output (`| head`) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (ValueError, OSError, CycloptsError) as error:
        if isinstance(error, UnknownOptionError):
            from adacorr.cli.config import misspelt

            error = misspelt(error) or error
        line = " ".join(str(error).split())  # may quote a whole file that is no table
        short = line if len(line) <= LINE else f"{line[: LINE // 2]} ... {line[-LINE // 2 :]}"
        print(f"adacorr: {printable(short)}", file=sys.stderr)
        raise SystemExit(2) from None
    except ModuleNotFoundError as error:
        from adacorr.cli.doctor import extra_of

        name = (error.name or "").partition(".")[0]
        if (extra := extra_of(name)) is None:  # a broken installation, or a bug
            raise
        hint = f"pip install 'adacorr[{extra}]'"
        print(f"adacorr: expected the package {name}, got none; {hint}", file=sys.stderr)
        raise SystemExit(2) from None
    except MemoryError:
        print("adacorr: expected enough memory for this input, got none", file=sys.stderr)
        raise SystemExit(2) from None

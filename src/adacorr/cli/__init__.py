"""The ``adacorr`` command: parse, call, print. Commands are imported when they are called."""

from __future__ import annotations

import sys

from cyclopts import App

from adacorr._version import __version__

app = App(
    name="adacorr",
    help="Find, fix and certify wrong labels.",
    version=__version__,
)
COMMANDS = {  # name -> (where it lives, one line of help)
    "correct": ("adacorr.cli.correct:correct", "Correct labels from predicted probabilities."),
    "fit": ("adacorr.cli.fit:fit", "Train on noisy labels and correct them."),
    "predict": ("adacorr.cli.predict:predict", "Apply a trained model to new data."),
    "report": ("adacorr.cli.report:report", "Write the HTML report of a run."),
    "review": ("adacorr.cli.review:review", "Accept or reject proposed changes in the browser."),
    "theory": ("adacorr.cli.theory:app", "The paper's bounds, fits and figures."),
    "bench": ("adacorr.cli.bench:app", "Run a grid of methods and print the paper's table."),
    "data": ("adacorr.cli.data:app", "List and fetch the named datasets."),
    "doctor": ("adacorr.cli.doctor:doctor", "Show versions, devices, data and missing parts."),
}
for _name, (_target, _help) in COMMANDS.items():
    app.command(_target, name=_name, help=_help)


def main(argv: list[str] | None = None) -> None:
    """Run a command; bad input is one line on stderr and exit code 2, never a traceback."""
    try:
        app(argv)
    except KeyboardInterrupt:
        print("adacorr: interrupted; nothing half-written was left behind", file=sys.stderr)
        raise SystemExit(130) from None
    except (ValueError, OSError) as error:
        print(f"adacorr: {' '.join(str(error).split())}", file=sys.stderr)
        raise SystemExit(2) from None

"""The ``adacorr`` command, also as ``python -m adacorr``; Ctrl-C is one line from the start."""

import sys


def main() -> None:
    """Load the command and run it; loading takes a moment in which a user may think again."""
    try:
        from adacorr import cli
    except KeyboardInterrupt:
        print("adacorr: interrupted; nothing half-written was left behind", file=sys.stderr)
        raise SystemExit(130) from None
    cli.main()


if __name__ == "__main__":
    main()

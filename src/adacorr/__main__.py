"""``python -m adacorr`` is the ``adacorr`` command."""

from adacorr.cli import main

if __name__ == "__main__":
    main()

import pytest

from adacorr.cli import main


@pytest.fixture
def run_cli(capsys):
    """Call the command in this process: ``run_cli("doctor", "--json") -> code, out, err``."""

    def run(*argv):
        code = 0
        try:
            main(list(argv))
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

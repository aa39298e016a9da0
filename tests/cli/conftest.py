from pathlib import Path

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


@pytest.fixture
def pets(tmp_path, monkeypatch, run_cli):
    """Work in a folder with a small table, ``pets.csv``, and its run directory, ``pets``."""
    monkeypatch.chdir(tmp_path)
    rows = "cat,0.9,0.1\ncat,0.1,0.9\ndog,0.2,0.8\ndog,0.95,0.05\n"
    Path("pets.csv").write_text("label,prob_cat,prob_dog\n" + rows)
    assert run_cli("correct", "pets.csv", "--delta", "0.9", "--run-dir", "pets", "--quiet")[0] == 0

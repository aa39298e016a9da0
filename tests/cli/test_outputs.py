"""An output of the user's that exists stays as it is, unless ``--overwrite`` says otherwise."""

from pathlib import Path

import pytest

REFUSED = "adacorr: {}: expected a new file, got an existing one; --overwrite replaces it\n"
COMMANDS = [
    "correct pets.csv --delta 0.9 --output mine.csv",
    "correct pets.csv --delta 0.9 --report mine.csv",
    "report pets --output mine.csv",
    "review pets --export mine.csv",
    "export pets --to label-studio --output mine.csv",
    "export pets --to cleanlab --output mine.csv",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_existing_file_is_refused(pets, run_cli, command):
    mine = Path("mine.csv")
    mine.write_text("precious")
    words = command.split()
    assert run_cli(*words) == (2, "", REFUSED.format("mine.csv"))
    assert mine.read_text() == "precious"
    assert run_cli(*words, "--overwrite", "--quiet") == (0, "", "")
    assert mine.read_text() != "precious"
    assert not list(Path().glob(".*"))


def test_predict_refuses_before_it_looks_at_the_run(pets, run_cli):
    Path("mine.csv").write_text("precious")
    words = ("predict", "no-run", "digits", "--output", "mine.csv")
    assert run_cli(*words) == (2, "", REFUSED.format("mine.csv"))
    assert "expected a run directory" in run_cli(*words, "--overwrite")[2]
    words = ("predict", "no-run", "pets.csv", "--output", "pets.csv", "--overwrite")
    assert "other than the input" in run_cli(*words)[2]


def test_an_input_is_never_replaced(pets, run_cli):
    before = Path("pets.csv").read_bytes()
    for flag in ("--output", "--report"):
        code, _, err = run_cli("correct", "pets.csv", flag, "./pets.csv", "--overwrite")
        assert (code, "other than the input" in err) == (2, True)
    assert Path("pets.csv").read_bytes() == before


@pytest.mark.parametrize("command", ["report pets --output", "export pets --to cleanlab --output"])
def test_the_files_of_a_run_are_never_replaced(pets, run_cli, command):
    before = Path("pets/labels.parquet").read_bytes()
    code, _, err = run_cli(*command.split(), "pets/labels.parquet", "--overwrite")
    assert (code, "got an input itself" in err) == (2, True)
    assert Path("pets/labels.parquet").read_bytes() == before


def test_an_existing_remote_file_is_refused(pets, run_cli):
    fsspec = pytest.importorskip("fsspec")
    store, place = fsspec.filesystem("memory"), "memory://mine/out.csv"
    store.pipe("/mine/out.csv", b"precious")
    words = ("correct", "pets.csv", "--delta", "0.9", "--output", place, "--quiet")
    assert run_cli(*words) == (2, "", REFUSED.format(place))
    assert store.cat("/mine/out.csv") == b"precious"
    assert run_cli(*words, "--overwrite") == (0, "", "")
    assert b"adacorr_label" in store.cat("/mine/out.csv")


def test_a_dry_run_may_name_an_existing_file(pets, run_cli):
    words = ("correct", "pets.csv", "--delta", "0.9", "--output", "mine.csv")
    Path("mine.csv").write_text("precious")
    assert run_cli(*words, "--dry-run")[0] == 0


def test_the_report_of_a_run_is_renewed(pets, run_cli):
    for _ in range(2):
        assert run_cli("report", "pets", "--quiet") == (0, "", "")

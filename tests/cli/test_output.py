"""``--json`` prints one JSON value, ``--quiet`` nothing, both together the JSON."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = str(ROOT / "results" / "small-images.jsonl")
GRID = str(ROOT / "grids" / "small-images.toml")
COMMANDS = [
    "correct pets.csv --delta 0.9 --output corrected.csv --overwrite",
    "correct pets.csv --delta 0.9 --dry-run",
    "report pets",
    "review pets --export final.csv --overwrite",
    "export pets --to label-studio --output tasks.csv --overwrite",
    "export pets --to cleanlab --output issues.csv --overwrite",
    "theory illustrate --output theory",
    f"bench run {GRID} --dry-run",
    f"bench table {RECORDS}",
    f"bench compare {RECORDS} adacorr standard",
    f"bench plot {RECORDS} --output figures --dataset mnist",
    "data list",
    "data get digits",
    "doctor",
    "completion fish",
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda line: " ".join(line.split()[:2]))
def test_json_and_quiet(pets, run_cli, command):
    words = command.split()
    code, out, _ = run_cli(*words)
    assert code == 0
    assert out.strip()
    assert run_cli(*words, "--quiet") == (0, "", "")
    for flags in (["--json"], ["--json", "--quiet"]):
        code, out, err = run_cli(*words, *flags)
        assert (code, err) == (0, "")
        json.loads(out)


def test_names_of_classes_send_no_codes_to_the_terminal(tmp_path, run_cli):
    """A table from elsewhere could set the title of the window, or worse."""
    evil = "\x1b]0;x\x07"
    rows = [f"{evil},0.9,0.1", "b,0.2,0.8", f"{evil},0.05,0.95"] * 30
    table = tmp_path / "t.csv"
    table.write_text("\n".join([f"label,p_{evil},p_b", *rows]) + "\n")
    code, out, err = run_cli("correct", str(table), "--delta", "0.5", "--dry-run")
    assert code == 0
    assert r"\x1b]0;x\x07 -> b" in out
    assert "\x1b" not in out + err

"""What the schema says of a run is what every command writes."""

import pytest

import adacorr
from adacorr.correction import TableSettings, correct_table
from adacorr.runs.directory import Run
from adacorr.runs.schema import COLUMNS, FORMAT, REQUIRED_COLUMNS, run_format


def runs(tmp_path):
    rows = "\n".join(f"{'cat' if i % 3 else 'dog'},0.{9 - i % 5},0.{1 + i % 5}" for i in range(60))
    table = tmp_path / "pets.csv"
    table.write_text(f"label,prob_cat,prob_dog\n{rows}\n")
    settings = TableSettings(verified={0: "dog", 1: "cat"})
    correct_table(table, None, settings=settings, run_dir=tmp_path / "answered")
    correct_table(table, None, settings=TableSettings(0.9), run_dir=tmp_path / "threshold")
    data = tmp_path / "x.csv"
    data.write_text("label,a\n" + "\n".join(f"{i % 2},{i % 2 + i / 100}" for i in range(40)))
    adacorr.clean(data, run_dir=tmp_path / "cleaned")
    return ("answered", "correct"), ("threshold", "correct"), ("cleaned", "clean")


def test_every_column_and_the_decision_behind_it_are_named(tmp_path):
    known = {column.name for column in COLUMNS}
    for name, kind in runs(tmp_path):
        run = Run.open(tmp_path / name)
        config, written = run.config(), set(run.labels().column_names)
        assert set(REQUIRED_COLUMNS) <= written <= known
        assert (config["run"]["format"], config["run"]["kind"]) == (FORMAT, kind)
        assert config["rule"]["sentence"].endswith(".")
        assert config["rule"]["decision"]


@pytest.mark.parametrize("found", [0, 3, "2", True, None])
def test_another_format_is_one_line(found):
    with pytest.raises(ValueError, match=r"expected a run of format 1 to 2, got .*update adacorr"):
        run_format({"run": {"format": found}}, "run")

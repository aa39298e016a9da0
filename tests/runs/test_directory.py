import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacorr.core.validation import InputError
from adacorr.files import atomic, temporary_sibling
from adacorr.runs.directory import Run, add_columns, dump_toml, write_labels, write_toml

text = st.text(st.characters(codec="utf-8"))
scalar = st.one_of(text, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats())
value = st.one_of(scalar, st.lists(text, max_size=4), st.lists(st.integers(-5, 5), max_size=4))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(text, st.dictionaries(text, value, max_size=4), max_size=4))
def test_toml_reads_back_what_went_in(config):
    back = tomllib.loads(dump_toml(config))
    assert repr(back) == repr(config)  # repr: NaN equals itself, and 1 is not 1.0


def test_toml_leaves_none_out_and_refuses_objects(tmp_path):
    write_toml(tmp_path / "c.toml", {"a": {"none": None, "n": np.int64(3), "x": np.eye(2)}})
    config = tomllib.loads((tmp_path / "c.toml").read_text())
    assert config == {"a": {"n": 3, "x": [[1, 0], [0, 1]]}}
    with pytest.raises(InputError, match="expected plain values, got object"):
        dump_toml({"a": {"b": object()}})


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "out.parquet"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    name = temporary_sibling(path).name.replace(str(os.getpid()), "{}")
    left, living = tmp_path / name.format(dead.pid), tmp_path / name.format(os.getppid())
    others = [tmp_path / ".out.parquet.elsewhere-1.tmp", tmp_path / name.format("x"), living]
    for file in [left, *others]:
        file.write_text("half")
    folder = tmp_path / name.replace("out.parquet", "run").format(dead.pid)
    folder.mkdir()
    (folder / "labels.parquet").write_text("half")
    with atomic(path) as temporary:
        temporary.write_text("whole")
    temporary_sibling(tmp_path / "run")
    assert set(tmp_path.iterdir()) == {path, *others}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_columns_are_added(tmp_path):
    path = tmp_path / "labels.parquet"
    flags = np.zeros(3, bool)
    numbers = np.arange(3)
    names = ("index", "given", "corrected", "suggested")
    write_labels(path, dict.fromkeys(names, numbers) | {"ratio": numbers / 3, "flipped": flags})
    add_columns(path, {"truth": numbers[::-1], "id": np.array(["a", "b", "c"])})
    table = Run(tmp_path).labels()
    assert table["truth"].to_pylist() == [2, 1, 0]
    assert table["id"].to_pylist() == ["a", "b", "c"]
    assert table["flipped"].to_pylist() == [False] * 3


def test_a_cut_line_of_metrics_is_ignored(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1}\n{"epoch": 2}\n{"epo')
    assert [r["epoch"] for r in Run(tmp_path).metrics()] == [1, 2]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match="got no such folder"):
        Run.open(tmp_path / "none")
    with pytest.raises(InputError, match=r"with config.toml, got none"):
        Run.open(tmp_path)

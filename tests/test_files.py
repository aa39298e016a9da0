"""What takes a name is on the disk first, and so is the name."""

import os
import stat
import tomllib
import tracemalloc
from pathlib import Path

import pytest

from adacorr.core.validation import InputError
from adacorr.files import atomic, atomic_folder, make_folder, read_toml, together
from adacorr.tables.places import arriving, targets


@pytest.fixture
def disk(monkeypatch):
    """What a power loss would leave, as a list of events: ("sync", path) and ("name", path)."""
    events = []
    fsync, replace = os.fsync, os.replace

    def synced(handle):
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))
        size = None if stat.S_ISDIR(os.fstat(handle).st_mode) else os.fstat(handle).st_size
        events.append(("sync", place.name, size))
        fsync(handle)

    def named(old, new):
        events.append(("name", Path(new).name, None))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    return events


def test_a_file_is_synced_then_named_then_its_folder_synced(disk, tmp_path):
    with atomic(tmp_path / "out") as temporary:
        temporary.write_bytes(b"whole")
    contents, name, folder = disk
    assert contents[0] == "sync"
    assert contents[2] == 5
    assert name == ("name", "out", None)
    assert folder == ("sync", tmp_path.name, None)


def test_every_file_of_a_folder_is_synced_before_it_is_named(disk, tmp_path):
    with atomic_folder(tmp_path / "run") as folder:
        (folder / "labels.parquet").write_bytes(b"a")
        (folder / "deep").mkdir()
        (folder / "deep" / "probs.npy").write_bytes(b"bc")
    before = disk[: disk.index(("name", "run", None))]
    assert {("sync", "labels.parquet", 1), ("sync", "probs.npy", 2)} <= set(before)
    assert ("sync", "deep", None) in before
    assert disk[-1] == ("sync", tmp_path.name, None)


@pytest.mark.parametrize("many", [False, True])
def test_targets_are_synced_before_they_are_named(many, disk, tmp_path):
    with targets(tmp_path / "out", ["a", "b"] if many else ["a"], folder=many) as found:
        for target in found:
            with arriving(target) as part:
                part.write_bytes(b"rows")
    end = disk.index(("name", "out", None))
    assert disk[end - 1][0] == "sync"
    assert [event for event in disk[:end] if event[2] == 4]
    assert disk[end + 1 :] == [("sync", tmp_path.name, None)]


def test_what_waits_is_no_output_of_its_own(tmp_path):
    with together(), targets(tmp_path / "out", ["a", "b"], folder=True) as found:
        for target in found:
            with arriving(target) as part:
                part.write_bytes(b"rows")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "out"]


def test_new_folders_are_entered_in_their_parents(disk, tmp_path):
    make_folder(tmp_path / "a" / "b")
    assert disk == [("sync", tmp_path.name, None), ("sync", "a", None)]
    make_folder(tmp_path / "a" / "b")
    assert len(disk) == 2


def test_a_file_whose_folder_cannot_be_listed_is_written_all_the_same(tmp_path):
    locked = tmp_path / "drop"
    locked.mkdir()
    locked.chmod(0o300)
    try:
        with atomic(locked / "out") as temporary:
            temporary.write_text("whole")
    finally:
        locked.chmod(0o700)
    assert (locked / "out").read_text() == "whole"


def toml(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[data]\nclass_names = ["a.b.c.d.e.f.g.h.i.j.k", \'l.m.n.o.p.q.r.s.t.u.v\', "x = 1"]\n',
        f"[correct]\ndelta = [{', '.join(['0.5'] * 30_000)}]  # = {'a.' * 99}\n",
        'a = """x"""""\nb = \'\'\'\'y\'\'\'\'\nc = """\na.b.c.d.e.f.g.h.i.j = 5\n"""\nd.e.f.g = 1',
        'path = "C:\\\\dir\\\\"\nnext = "a\\"b"\n',
        "[[cells]]\nx = { y = 1, z = [[1], [2]] }\n",
    ],
)
def test_settings_are_read_as_toml_is(text, tmp_path):
    assert read_toml(toml(tmp_path, text)) == tomllib.loads(text)


DEEP = ".".join(["a"] * 50_000)
HIDDEN = {  # deep keys behind what a careless look would take for a string
    "plain": f"{DEEP} = 1",
    "header": f"[{DEEP}]",
    "spaced": " . ".join(["a"] * 20_000) + " = 1",
    "quoted": ".".join(['"a"', "'b'"] * 10_000) + " = 1",
    "after four quotes": f'x = ["""t"""", {{{DEEP} = 1}}, "u"]',
    "after four ticks": f"x = ['''t'''', {{{DEEP} = 1}}, 'u']",
    "after an escape": f'x = "a\\"" \n{DEEP} = 1 # "',
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_deep_keys_are_refused_before_they_take_memory(text, tmp_path):
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="keys of at most 8 parts"):
            read_toml(toml(tmp_path, text))
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 90_000, "too deep"),
        ("a = " + "{b=" * 9_000, "too deep"),
        ("\n".join(f"k{i} = 1" for i in range(20_000)), "at most 10,000 keys, got 20,000"),
        ("[a]\n" + "\n".join(f"[k{i}]" for i in range(20_000)), "at most 10,000 keys"),
        ("a = '''" + '\\"""' * 9_000, "a string without an end"),
        ('a = """' + '\\"""' * 500_000, "a string without an end"),
        ("a = 1 # " + "x" * (4 << 20), "at most 4 MB"),
        ("x" * 1_000_000, "Expected '='"),
        ("a " * 1_000_000, "Expected '='"),
        ("a = 1" + " " * 2_000_000 + ".", "Expected newline"),
        (b"\xff\xfe", "codec"),
    ],
)
def test_malformed_settings_are_one_line(text, message, tmp_path):
    with pytest.raises(InputError, match=f"config.toml: expected readable TOML.*{message}"):
        read_toml(toml(tmp_path, text))

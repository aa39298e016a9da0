"""What takes a name is on the disk first, and so is the name."""

import os
import stat
from pathlib import Path

import pytest

from adacorr.files import atomic, atomic_folder, make_folder
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

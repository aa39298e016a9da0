"""Files are written step by step, and what the system says against it names the user's file."""

import errno

import numpy as np
import pytest

from adacorr.correction import sinks
from adacorr.correction.sinks import OutputError, completing, open_npy, paced, writing


@pytest.mark.parametrize("dtype", [np.float32, np.int64, "<U5"])
def test_an_npy_that_is_written_in_pieces_is_what_numpy_reads(tmp_path, dtype):
    whole = np.arange(12).reshape(6, 2).astype(dtype)
    with open_npy(tmp_path / "out.npy", whole.shape, whole.dtype) as file:
        for part in np.array_split(whole, 4):
            file.write(part.tobytes())
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == whole.dtype
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "out.csv: expected enough room on the disk, got: No space left on device"),
        (errno.EDQUOT, "out.csv: expected enough room on the disk"),
        (errno.EROFS, "out.csv: expected a writable place, got: Read-only file system"),
    ],
)
def test_what_the_system_says_names_the_users_file(tmp_path, number, words):
    with pytest.raises(OutputError, match=words), writing(tmp_path / "out.csv"):
        raise OSError(number, "whatever", "/some/temporary/name")


def test_after_an_error_the_sink_is_released_and_the_first_error_stands(tmp_path):
    closed = []

    class Broken:
        def write(self, done):
            raise OSError(errno.ENOSPC, "full")

        def close(self):
            closed.append(True)
            raise OSError(errno.EIO, "later")

    place = tmp_path / "out.csv"
    with pytest.raises(OutputError, match="enough room"), completing(Broken(), place) as write:
        write(None)
    assert closed == [True]


def test_pages_are_given_up_at_every_step_and_nothing_is_lost(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(sinks, "PACE", 1000)
    monkeypatch.setattr(sinks.os, "posix_fadvise", lambda *words: steps.append(words[1:3]))
    path = tmp_path / "out"
    with open(path, "wb", buffering=0) as file:
        write = paced(file.write, path)
        for _ in range(7):
            write(b"x" * 400)
    assert path.stat().st_size == 2800
    assert steps == [(0, 1200), (1200, 1200)]

"""Fingerprints change when the file does, and only then."""

import hashlib

import numpy as np

from adacorr.data.identity import contents, file_content, source_digest


def test_the_digest_of_several_files_depends_on_each_and_on_their_order(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(path.name.encode() * 1000)
    single = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    assert [source_digest([path]) for path in paths] == single
    both = source_digest(paths)
    assert both == hashlib.sha256("".join(single).encode()).hexdigest()
    assert source_digest(paths[::-1]) != both
    paths[1].write_bytes(b"c")
    assert source_digest(paths) != both


def test_a_content_is_told_by_size_and_beginning(tmp_path):
    (tmp_path / "deep").mkdir()
    files = {
        "a.png": b"x" * 100,
        "deep/b.png": b"x" * 100,
        "c.png": b"x" * 101,
        "d.png": b"y" * 100,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    found = contents(tmp_path, np.array(list(files)))
    assert found[0] == found[1] == file_content(tmp_path / "a.png")
    assert len(set(found.tolist())) == 3

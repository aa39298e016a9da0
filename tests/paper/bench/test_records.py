"""Records survive a kill in the middle of a write."""

import json

import pytest

from adacorr.core.validation import InputError
from adacorr.paper.bench.records import RecordFile, read_records


def test_append_then_read(tmp_path):
    file = RecordFile(tmp_path / "sub" / "r.jsonl")
    with file.open():
        file.append({"key": "a", "x": 1})
        file.append({"key": "b", "x": 2})
    assert file.finished() == {"a", "b"}
    assert [r["x"] for r in read_records(tmp_path / "sub")] == [1, 2]


def test_half_written_last_line_is_dropped_and_overwritten(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"key": "a"}\n{"key": "b", "x')
    file = RecordFile(path)
    assert file.finished() == {"a"}
    with file.open():
        file.append({"key": "c"})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "c"]


def test_second_writer_is_told(tmp_path):
    path = tmp_path / "r.jsonl"
    with RecordFile(path).open(), pytest.raises(InputError, match="another bench run"):
        RecordFile(path).open().__enter__()


@pytest.mark.parametrize("content", [b"hello\n", b"[1]\n", b'{"no": "key"}\n', b"\xff\xfe\n"])
def test_foreign_content_is_one_line_with_its_place(tmp_path, content):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match="line 1"):
        read_records(path)


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="expected a records file"):
        read_records(tmp_path)

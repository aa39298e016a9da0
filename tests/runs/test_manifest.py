"""A damaged file of a run is named, whichever bit it is, and only what is read is looked at."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.correction import correct_table
from adacorr.runs import manifest
from adacorr.runs.directory import Run, add_columns
from adacorr.runs.manifest import BLOCK, CheckedRows, fingerprint, seal, sealed
from adacorr.runs.reader import RunData

N, K = 40_000, 10  # 1.6 MB of probabilities: two blocks


@pytest.fixture
def run(tmp_path):
    rng = np.random.default_rng(0)
    labels, probs = tmp_path / "labels.npy", tmp_path / "probs.npy"
    f = rng.dirichlet(np.full(K, 0.2), N).astype(np.float32)
    np.save(labels, rng.integers(0, K, N))
    np.save(probs, f)
    correct_table((labels, probs), run_dir=tmp_path / "run")
    return Run.open(tmp_path / "run")


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def read_all(run):
    data = RunData.open(run)
    return [list(data.batches()), data.metrics(), data.pred_probs[:]]


def test_the_digest_of_a_small_file_is_that_of_sha256sum(run):
    files = json.loads(run.file("manifest.json").read_text())["files"]
    assert set(files) == {"config.toml", "labels.parquet", "pred_probs.npy"}
    config = run.file("config.toml").read_bytes()
    assert files["config.toml"] == {
        "bytes": len(config),
        "sha256": [hashlib.sha256(config).hexdigest()],
    }
    assert len(files["pred_probs.npy"]["sha256"]) == 2


@pytest.mark.parametrize("name", ["config.toml", "labels.parquet", "pred_probs.npy"])
def test_any_flipped_bit_is_noticed(name, run):
    read_all(run)
    path = run.file(name)
    whole = path.read_bytes()
    for bit in np.random.default_rng(1).integers(0, 8 * len(whole), 20).tolist():
        flip(path, bit)
        with pytest.raises(InputError, match=f"{name}: expected the file as the run wrote it"):
            read_all(run)
        path.write_bytes(whole)
    path.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=f"{name}: expected"):
        read_all(run)


def test_only_the_blocks_that_are_read_are_looked_at_and_those_once(run, monkeypatch):
    path = run.file("pred_probs.npy")
    flip(path, 8 * path.stat().st_size - 1)
    looked = []
    real = manifest._block_digest

    def noted(file, start):
        looked.append(start)
        return real(file, start)

    monkeypatch.setattr(manifest, "_block_digest", noted)
    probs = run.pred_probs()
    assert probs is not None
    assert looked == [0]  # the header
    row = BLOCK // (4 * K)
    assert probs[0].shape == (K,)
    assert probs[[5, 3]].shape == (2, K)
    assert probs[: row - 10].shape == (row - 10, K)
    assert looked == [0]
    for rows in (row, [0, N - 1], slice(None), np.arange(N) == row):  # the first lies in both
        with pytest.raises(InputError, match=f"another content from byte {BLOCK:,} on"):
            probs[rows]
    with pytest.raises(InputError, match="another content"):
        np.asarray(probs)


def test_rows_of_an_array_by_column_are_checked_as_a_whole(tmp_path):
    array = np.asfortranarray(np.random.default_rng(0).random((N, K)))
    path = tmp_path / "pred_probs.npy"
    np.save(path, array)
    seal(tmp_path, [path.name])
    flip(path, 8 * (path.stat().st_size - 3))
    with pytest.raises(InputError, match="another content"):
        CheckedRows(path, np.load(path, mmap_mode="r"))[0]


def test_what_was_changed_on_purpose_is_taken_out(run):
    path = run.file("config.toml")
    path.write_text(path.read_text() + "\n[note]\nby = 'me'\n")
    with pytest.raises(InputError, match=r"then take it out of manifest\.json"):
        run.config()
    place = run.file("manifest.json")
    kept = json.loads(place.read_text())
    del kept["files"]["config.toml"]
    place.write_text(json.dumps(kept))
    assert run.config()["note"] == {"by": "me"}
    place.unlink()
    read_all(run)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"block": 5, "files": {}}', "[" * 100_000, '{"block": 1048576, "files": []}'],
)
def test_a_damaged_manifest_is_one_line(text, run):
    run.file("manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json: expected the digests of a run's files"):
        run.config()


def test_columns_that_are_added_are_sealed_again(run):
    add_columns(run.file("labels.parquet"), {"truth": np.zeros(N, np.int64)})
    read_all(run)
    flip(run.file("labels.parquet"), 800)
    with pytest.raises(InputError, match=r"labels\.parquet: expected the file"):
        read_all(run)


def test_a_failure_leaves_no_digests_of_what_may_be_half_new(run):
    def fail():
        with sealed(run.path):
            run.file("config.toml").write_text("[half]\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert run.config() == {"half": {}}


def test_a_fingerprint_is_of_settings_and_labels_with_or_without_a_manifest(run):
    known = fingerprint(run.path)
    (run.path / manifest.NAME).unlink()
    assert fingerprint(run.path) == known
    flip(run.path / "labels.parquet", 4000)
    assert fingerprint(run.path) != known


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="expected a system with named pipes")
def test_a_pipe_in_place_of_the_manifest_is_one_line(tmp_path):
    """Whoever opens one waits for a writer that never comes."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom adacorr.runs.manifest import check\n"
        "check(Path(sys.argv[1]))\n"
    )
    os.mkfifo(tmp_path / manifest.NAME)
    (tmp_path / "config.toml").write_text("x = 1\n")
    command = [sys.executable, "-c", code, str(tmp_path / "config.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert "expected the digests of a run's files, got a link, a pipe" in done.stderr

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from adacorr.core.validation import InputError
from adacorr.data.named import catalog
from adacorr.data.named.catalog import CATALOG, OfficialFile
from adacorr.data.named.fetch import fetch, status


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder served on the loopback interface, and its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "site"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """cifar100 with a tiny official archive."""
    raw = os.urandom(5000)
    md5 = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    remote = replace(CATALOG["cifar100"].files[0], checksum=f"md5:{md5}")
    monkeypatch.setitem(CATALOG, "cifar100", replace(CATALOG["cifar100"], files=(remote,)))
    return raw


def test_a_file_is_fetched_checked_and_found(root: Path, site, toy: bytes) -> None:
    folder, address = site
    (folder / "cifar-100-binary.tar.gz").write_bytes(toy)
    told: list[tuple[str, int, int]] = []
    assert not status("cifar100").ready
    got = fetch("cifar100", mirror=address, progress=lambda *now: told.append(now))
    assert got == [root / "cifar100" / "cifar-100-binary.tar.gz"]
    assert got[0].read_bytes() == toy
    assert told[-1] == ("cifar-100-binary.tar.gz", 5000, 5000)
    assert status("cifar100").found == (str(got[0]),)
    assert fetch("cifar100", mirror=address) == []


def test_a_wrong_checksum_leaves_nothing(root: Path, site, toy: bytes) -> None:
    folder, address = site
    (folder / "cifar-100-binary.tar.gz").write_bytes(toy[:-1])
    with pytest.raises(InputError, match=r"expected md5:.*, got a file with another checksum"):
        fetch("cifar100", mirror=address)
    assert list((root / "cifar100").iterdir()) == []


def test_errors_are_one_line(root: Path, site, monkeypatch: pytest.MonkeyPatch) -> None:
    _, address = site
    with pytest.raises(InputError, match=r"expected to fetch .*, got HTTP status 404") as error:
        fetch("cifar100", mirror=address)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="got no connection"):  # nobody listens on port 9
        fetch("cifar100", mirror="http://127.0.0.1:9")
    with pytest.raises(InputError, match="mirror: expected an address that starts with http"):
        fetch("cifar100", mirror=f"file://{root}")
    with pytest.raises(InputError, match="name: expected one of digits, mnist"):
        fetch("imagenet")
    with pytest.raises(InputError, match=r"clothing1m: expected .* from its owners"):
        fetch("clothing1m")
    assert fetch("digits") == []


def test_half_a_file_leaves_nothing(root: Path, site, toy: bytes, monkeypatch) -> None:
    folder, address = site
    (folder / "cifar-100-binary.tar.gz").write_bytes(toy[:-1])
    whole = Quiet.send_header
    said = {"Content-Length": "5000"}
    monkeypatch.setattr(Quiet, "send_header", lambda s, k, v: whole(s, k, said.get(k, v)))
    with pytest.raises(InputError, match=r"got no connection \(ended early\)"):
        fetch("cifar100", mirror=address)
    assert list((root / "cifar100").iterdir()) == []


def test_only_what_is_missing_is_fetched(root: Path, site, write_idx, monkeypatch) -> None:
    import numpy as np

    folder, address = site
    kept = root / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    write_idx(kept, np.zeros((1, 28, 28)))
    before = kept.read_bytes()
    files = []
    for remote in CATALOG["mnist"].files:
        (folder / remote.file).write_bytes(remote.file.encode())
        digest = hashlib.sha256(remote.file.encode()).hexdigest()
        files.append(replace(remote, checksum=f"sha256:{digest}"))
    monkeypatch.setitem(CATALOG, "mnist", replace(CATALOG["mnist"], files=tuple(files)))
    got = fetch("mnist", mirror=address)
    assert [path.name for path in got] == [f.file for f in files[1:]]
    assert kept.read_bytes() == before


def test_without_a_published_checksum_the_first_is_kept(root: Path, site) -> None:
    folder, address = site
    (folder / "CIFAR-10_human.pt").write_bytes(b"labels")
    (path,) = fetch("cifar10n", mirror=address)
    record = path.with_name("CIFAR-10_human.pt.sha256")
    assert record.read_text().split()[0] == hashlib.sha256(b"labels").hexdigest()
    path.unlink()
    (folder / "CIFAR-10_human.pt").write_bytes(b"changed")
    with pytest.raises(InputError, match="got a file with another checksum"):
        fetch("cifar10n", mirror=address)


def test_a_read_only_data_folder_leaves_the_cache(
    tmp_path: Path, site, toy: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = site
    (folder / "cifar-100-binary.tar.gz").write_bytes(toy)
    monkeypatch.setenv("ADACORR_DATA", "/proc/nowhere")
    (path,) = fetch("cifar100", mirror=address)
    assert path.is_relative_to(tmp_path / "cache" / "adacorr")
    assert status("cifar100").ready


def test_status_of_everything(root: Path) -> None:
    assert status("digits").ready
    for name in CATALOG:
        if name != "digits":
            now = status(name)
            assert not now.ready
            assert now.missing
    # cifar10n needs the images too
    assert [f.file for f in status("cifar10n").missing] == [
        "CIFAR-10_human.pt",
        "cifar-10-binary.tar.gz",
    ]


def test_cache_folder_of_each_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    expected = {
        "linux": ".cache/adacorr",
        "darwin": "Library/Caches/adacorr",
        "win32": "AppData/Local/adacorr",
    }
    for platform, folder in expected.items():
        monkeypatch.setattr(catalog.sys, "platform", platform)
        assert catalog.cache_folder() == tmp_path / folder


def test_official_files_have_sources_and_checksums() -> None:
    for entry in CATALOG.values():
        for remote in entry.files:
            assert isinstance(remote, OfficialFile)
            if remote.url is not None:
                assert remote.url.endswith(remote.file)
            if remote.checksum is not None:
                kind, _, digest = remote.checksum.partition(":")
                assert len(digest) == {"md5": 32, "sha256": 64}[kind]

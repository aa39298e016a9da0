"""``adacorr data list`` and ``adacorr data get`` as a user meets them."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data root, so no test sees the machine's own data."""
    monkeypatch.setenv("ADACORR_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "data"


def test_list_names_what_is_missing(run_cli, root: Path) -> None:
    code, out, err = run_cli("data", "list")
    assert (code, err) == (0, "")
    assert str(root) in out.splitlines()[0]
    assert "digits         ready" in out
    assert "mnist          missing" in out
    assert "train-images-idx3-ubyte.gz  md5:f68b3c2dcbeaaa9fbdd348bbdeb94873" in out
    assert "adacorr data get mnist" in out
    assert "noisy_train_key_list.txt  on request" in out


def test_list_as_json(run_cli) -> None:
    code, out, _ = run_cli("data", "list", "--json")
    found = {entry["name"]: entry for entry in json.loads(out)["datasets"]}
    assert code == 0
    assert found["digits"]["ready"]
    assert not found["cifar10"]["ready"]
    assert found["cifar10"]["missing"][0]["file"] == "cifar-10-binary.tar.gz"


def test_get_fetches_with_progress(run_cli, root: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "CIFAR-10_human.pt").write_bytes(b"x" * 3000)
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        mirror = f"http://127.0.0.1:{server.server_port}/"
        code, out, err = run_cli("data", "get", "cifar10n", "--mirror", mirror)
        again = run_cli("data", "get", "cifar10n", "--mirror", mirror, "--json")
    finally:
        server.shutdown()
        server.server_close()
    path = root / "cifar10n" / "CIFAR-10_human.pt"
    assert code == 0
    assert path.stat().st_size == 3000
    assert f"fetched {path}" in out.replace("\n", "") or str(path) in out
    assert "CIFAR-10_human.pt" in err
    assert "cifar10n still needs cifar-10-binary.tar.gz" in out
    assert json.loads(again[1])["fetched"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist", "--mirror", "http://127.0.0.1:9"], "got no connection"),
        (["imagenet"], "expected one of digits, mnist"),
        (["clothing1m"], "from its owners"),
    ],
)
def test_get_fails_with_one_line(run_cli, arguments: list[str], message: str) -> None:
    code, out, err = run_cli("data", "get", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_get_of_what_is_there(run_cli) -> None:
    code, out, _ = run_cli("data", "get", "digits")
    assert code == 0
    assert "digits is already there: inside scikit-learn" in out

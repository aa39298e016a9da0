"""The command before it is loaded, and without the packages that it can do without."""

import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

GRID = Path(__file__).parents[2] / "grids" / "small-images.toml"

LOADING = """
import sys
from adacorr.__main__ import main

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
main()
"""


def test_an_interrupt_while_it_loads_is_one_line():
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "adacorr: interrupted; nothing half-written was left behind\n"


WITHOUT = """
import sys
from adacorr.__main__ import main

missing = sys.argv.pop(1)

class Without:
    def find_spec(self, name, path=None, target=None):
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
main()
"""


def run_without(package, *argv):
    command = [sys.executable, "-c", WITHOUT, package, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["fit digits", f"bench run {GRID}"])
def test_without_torch_one_line_names_the_extra(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_without("torch", *command.split())
    hint = "pip install 'adacorr[train]'"
    assert done.stderr == f"adacorr: expected the package torch, got none; {hint}\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_named_datasets_are_listed_and_fetched_without_torch(tmp_path, monkeypatch):
    site, data = tmp_path / "site", tmp_path / "data"
    site.mkdir()
    (site / "CIFAR-10_human.pt").write_bytes(b"labels")
    monkeypatch.setenv("ADACORR_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        done = run_without("torch", "data", "get", "cifar10n", "--mirror", address)
        listed = run_without("torch", "data", "list")
        server.shutdown()
    assert (done.returncode, listed.returncode) == (0, 0), done.stderr
    assert (data / "cifar10n" / "CIFAR-10_human.pt").read_bytes() == b"labels"


def test_a_required_package_that_is_missing_shows_the_traceback(tmp_path):
    table = tmp_path / "pets.csv"
    table.write_text("label,prob_cat,prob_dog\ncat,0.9,0.1\n")
    done = run_without("pyarrow", "correct", str(table), "--dry-run")
    assert "ModuleNotFoundError" in done.stderr

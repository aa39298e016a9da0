"""The command, from outside."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pyarrow.parquet as pq
import pytest

from adacorr.review.server import DATABASE
from adacorr.review.store import ACCEPT


def adacorr(*arguments):
    command = [sys.executable, "-m", "adacorr", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def one_line(done, text):
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert text in done.stderr


def test_port_taken_is_one_line(make_run, taken):
    done = adacorr("review", make_run().path, "--no-browser", "--port", taken)
    one_line(done, f"got {taken}, which is taken")


def test_bad_runs_and_bad_arguments_are_one_line(make_run, tmp_path):
    one_line(adacorr("review", tmp_path / "none", "--no-browser"), "no such folder")
    run = make_run()
    one_line(adacorr("review", run.path, "--host", "not a host", "--no-browser"), "host: expected")
    one_line(adacorr("review", run.path, "--export", tmp_path / "x.txt"), ".parquet or .csv")
    run.file("labels.parquet").unlink()
    one_line(adacorr("review", run.path, "--no-browser"), "labels.parquet")


def test_a_kill_loses_no_confirmed_decision(make_run, serve, open_store, tmp_path):
    run = make_run()
    server = serve(run)
    confirmed = []
    with httpx.Client(base_url=server.address, timeout=300) as client:
        client.headers["Origin"] = server.address.rstrip("/")
        client.get("/")
        for flip in range(25):
            said = {"reviewer": "Ann", "decisions": [{"flip": flip, "choice": "accept"}]}
            if client.post("/api/decide", json=said).status_code == 200:
                confirmed.append(flip)
        server.kill()
    assert len(confirmed) == 25
    store = open_store(run)
    assert (store.state[confirmed] == ACCEPT).all()
    store.close()
    done = adacorr("review", run.path, "--export", tmp_path / "final.parquet")
    assert done.returncode == 0, done.stderr
    decisions = pq.read_table(tmp_path / "final.parquet")["decision"].to_pylist()
    assert decisions.count("accepted") == 25


def test_beyond_this_machine_a_token_is_printed_and_needed(make_run, serve):
    server = serve(make_run(), "--host", "0.0.0.0")
    assert "other machines" in server.said[0]
    port, token = re.search(r":(\d+)/\?token=(\S+)", server.address).groups()  # pyright: ignore
    assert len(token) >= 24
    base = f"http://127.0.0.1:{port}"
    assert httpx.get(base).status_code == 403
    with httpx.Client(base_url=base, follow_redirects=True) as client:
        assert client.get(f"/?token={token}").status_code == 200
        assert client.get("/api/run").status_code == 200


def test_the_browser_is_opened_at_the_address(make_run, tmp_path):
    """$BROWSER is a program that visits the page and writes down what it was asked to open."""
    program = tmp_path / "browser"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys, urllib.request\n"
        "page = urllib.request.urlopen(sys.argv[1], timeout=300).read().decode()\n"
        f"part = {str(tmp_path / 'part')!r}\n"
        "open(part, 'w').write(sys.argv[1] + ' ' + page.split('<title>')[1].split('<')[0])\n"
        f"import os; os.rename(part, {str(tmp_path / 'opened')!r})\n"
    )
    program.chmod(0o755)
    command = [sys.executable, "-m", "adacorr", "review", str(make_run().path), "--port", "0"]
    with subprocess.Popen(
        command, env={**os.environ, "BROWSER": str(program)}, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            for _ in range(3000):
                if (tmp_path / "opened").exists():
                    break
                time.sleep(0.1)
        finally:
            server.send_signal(signal.SIGINT)
            said, _ = server.communicate(timeout=300)
    opened = (tmp_path / "opened").read_text()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ adacorr review", opened)
    assert opened.split()[0] in said


def test_the_address_as_json(make_run):
    command = [sys.executable, "-m", "adacorr", "review", str(make_run().path)]
    flags = ["--json", "--no-browser", "--port", "0"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        address = json.loads(process.stdout.readline())["address"]
        assert httpx.get(address, timeout=300).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""


def test_an_interrupt_ends_it_quietly(make_run, serve):
    run = make_run()
    server = serve(run)
    server.process.send_signal(signal.SIGINT)
    rest, _ = server.process.communicate(timeout=300)
    assert server.process.returncode == 0
    assert f"The decisions are in {run.file(DATABASE)}" in rest

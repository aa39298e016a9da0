"""The command, from outside."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import httpx
import psutil
import pyarrow.parquet as pq
import pytest

from adacorr.review.prompt import MAX_CONNECTIONS
from adacorr.review.server import DATABASE
from adacorr.review.store import ACCEPT, SignOff
from adacorr.runs.manifest import fingerprint


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
    with server.visitor() as client:
        for flip in range(25):
            said = {"reviewer": "Ann", "decisions": [{"flip": flip, "choice": "accept"}]}
            if client.post(f"{client.api}/decide", json=said).status_code == 200:
                confirmed.append(flip)
        server.kill()
    assert len(confirmed) == 25
    store = open_store(run)
    assert (store.state[confirmed] == ACCEPT).all()
    store.close()
    done = adacorr("review", run.path, "--export", tmp_path / "final.parquet")
    assert done.returncode == 0, done.stderr
    decisions = pq.read_table(tmp_path / "final.parquet")["adacorr_decision"].to_pylist()
    assert decisions.count("accepted") == 25


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_is_printed_and_needed(make_run, serve, host):
    server = serve(make_run(), "--host", host)
    assert ("other machines" in server.said[0]) == (host == "0.0.0.0")
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
        "import sys, urllib.request as u\n"
        "visitor = u.build_opener(u.HTTPCookieProcessor())\n"
        "page = visitor.open(sys.argv[1], timeout=300).read().decode()\n"
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
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=\S+ adacorr review", opened)
    # The printed token is not the one that a command line has shown to this machine's users.
    assert opened.split("=")[0] in said
    assert opened.split()[0] not in said


def test_the_address_as_json(make_run):
    command = [sys.executable, "-m", "adacorr", "review", str(make_run().path)]
    flags = ["--json", "--no-browser", "--port", "0"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        address = json.loads(process.stdout.readline())["address"]
        assert httpx.get(address, timeout=300).status_code == 303
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""


def test_an_interrupt_ends_it_quietly(make_run, serve):
    run = make_run()
    server = serve(run)
    server.process.send_signal(signal.SIGINT)
    rest, _ = server.process.communicate(timeout=300)
    assert server.process.returncode == 0
    assert f"The decisions are in {run.file(DATABASE)}" in rest


@pytest.mark.parametrize("missing", [("fastapi", "starlette", "pydantic"), ("uvicorn", "h11")])
def test_without_its_extra_it_is_one_line(make_run, tmp_path, missing):
    """A shadow of each package that fails to import, as if it were not installed."""
    for name in missing:
        text = f"raise ModuleNotFoundError('No module named {name}', name={name!r})\n"
        (tmp_path / f"{name}.py").write_text(text)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "adacorr", "review", str(make_run().path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    one_line(done, "pip install 'adacorr[review]'")
    export = [*command, "--export", str(tmp_path / "final.csv")]  # needs no server
    subprocess.run(export, check=True, capture_output=True, env=environment)


def test_a_locked_or_damaged_database_is_one_line(make_run, open_store, tmp_path):
    run = make_run()
    with sqlite3.connect(run.file(DATABASE)) as db:  # locked at the first start
        db.execute("BEGIN EXCLUSIVE")
        one_line(adacorr("review", run.path, "--no-browser"), "locked")
        one_line(adacorr("review", run.path, "--export", tmp_path / "x.csv"), "locked")
    db.close()
    run.file(DATABASE).unlink()
    store = open_store(run)
    store.decide([SignOff(0, "accept")], "Ann")
    store.close()
    damage = [
        ("UPDATE log SET choice = 'maybe'", "CHECK"),
        ("UPDATE log SET choice = 'accept', label = 'x'", "class index"),
        ("UPDATE log SET label = NULL, row = 'x'", "row x"),
        ("DELETE FROM log", None),
        ("DELETE FROM meta WHERE key = 'audit_seed'", "seed"),
        ("DROP TABLE log", "log"),
    ]
    for change, text in damage:
        with sqlite3.connect(run.file(DATABASE)) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            db.execute(change)
        db.close()
        if text:
            one_line(adacorr("review", run.path, "--no-browser", "--port", "0"), text)


def test_a_request_that_never_ends_is_hung_up_on(make_run, serve):
    """A connection that sends nothing, one that sends half a head, one that sends half a body."""
    server = serve(make_run())
    port = int(re.findall(r":(\d+)/", server.address)[0])
    with server.visitor() as client:
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        half = (
            f"POST {client.api}/undo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Origin: {server.origin}\r\nCookie: {cookies}\r\n"
            "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    for connection, text in zip(slow, ["", half[:60], half], strict=True):
        connection.settimeout(60)
        connection.sendall(text.encode())
    for connection in slow:
        assert connection.recv(1 << 16) == b""
        connection.close()


def test_visitors_who_only_wait_keep_nobody_out(make_run, serve):
    """More connections than the server may open files, half of them in the middle of a request."""
    server = serve(make_run())
    psutil.Process(server.process.pid).rlimit(psutil.RLIMIT_NOFILE, (300, 300))
    port = int(re.findall(r":(\d+)/", server.address)[0])
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(400)]
    for connection in waiting[::2]:
        with suppress(OSError):  # let go of already
            connection.sendall(b"GET / HTTP/1.1\r\nHost:")
    with server.visitor() as client:
        assert client.get("/api/run").status_code == 200
    assert sum(still_open(connection) for connection in waiting) <= MAX_CONNECTIONS
    for connection in waiting:
        connection.close()


def still_open(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_addresses_name_the_run(make_run, serve):
    """Nothing that a browser has cached of one run can be shown for another."""
    run = make_run()
    with serve(run).visitor() as first, serve(run).visitor() as again:
        name = fingerprint(run.path)[:16]
        assert first.api.startswith(f"/api/{name}")
        assert again.api.startswith(f"/api/{name}")
        assert first.api != again.api


def test_a_chunked_body_under_a_short_length_is_refused(make_run, serve):
    server = serve(make_run())
    port = int(re.findall(r":(\d+)/", server.address)[0])
    with server.visitor() as client, socket.create_connection(("127.0.0.1", port)) as s:
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        s.settimeout(60)
        head = (
            f"POST {client.api}/undo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Origin: {server.origin}\r\nCookie: {cookies}\r\nContent-Length: 10\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        s.sendall(head.encode())
        with suppress(OSError):  # refused before all is sent
            for _ in range(200):
                s.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        answer = s.recv(1 << 16)
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), answer[:200]

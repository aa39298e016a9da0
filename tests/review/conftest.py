from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import uvicorn

from adacorr.review.app import Desk, create_app
from adacorr.review.guard import Guard
from adacorr.review.queue import load_flips
from adacorr.review.server import DATABASE
from adacorr.review.store import Store
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData


@pytest.fixture
def open_store() -> Callable[[Run], Store]:
    def make(run: Run) -> Store:
        data = RunData.open(run)
        return Store(run.file(DATABASE), load_flips(data), data.n_classes)

    return make


@dataclass
class Server:
    """``adacorr review`` in a process of its own."""

    process: subprocess.Popen[str]
    address: str
    said: list[str]

    def kill(self) -> None:
        self.process.kill()  # SIGKILL: no chance to tidy up
        self.process.wait()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    started: list[subprocess.Popen[str]] = []

    def start(run: Run, *flags: str, port: str = "0") -> Server:
        command = [sys.executable, "-m", "adacorr", "review", str(run.path), "--no-browser"]
        process = subprocess.Popen(
            [*command, "--port", port, *flags], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        said: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            found = re.search(r"http://\S+", line)
            if found:
                return Server(process, found.group(), said)
        raise AssertionError(f"the server did not start: {said}")

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def serve_here() -> Iterator[Callable[[Run], str]]:
    """The page's address, served by a thread: many tests need no process of their own."""
    started: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(run: Run) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        desk = Desk.open(RunData.open(run), run.file(DATABASE))
        app = create_app(desk, Guard("127.0.0.1", port, None))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{port}/"

    yield start
    for server, thread in started:
        server.should_exit = server.force_exit = True
        thread.join(timeout=30)

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import httpx
import pytest
import uvicorn

from adacorr.review.answers import AnswerLog
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


@pytest.fixture
def open_answers(open_store: Callable[[Run], Store]) -> Callable[[Run], AnswerLog]:
    return lambda run: AnswerLog(open_store(run), RunData.open(run))


class Visitor(httpx.Client):
    """A visitor who opens the printed address; `api` begins the paths of this review."""

    def __init__(self, address: str, seconds: float) -> None:
        origin = address.split("/?")[0]
        super().__init__(
            base_url=origin, timeout=seconds, headers={"Origin": origin}, follow_redirects=True
        )
        self.address, self.api = address, ""

    def __enter__(self) -> Self:
        super().__enter__()
        self.api = api_of(self.get(self.address).text)
        return self


def api_of(page: str) -> str:
    """Where a page's own questions go: no other page may ask there."""
    found = re.search(r'name="adacorr-run" content="(\w+)"', page)
    assert found is not None, page[:300]
    return f"/api/{found[1]}"


@dataclass
class Server:
    """``adacorr review`` in a process of its own."""

    process: subprocess.Popen[str]
    address: str  # as printed, with the token
    said: list[str]

    @property
    def origin(self) -> str:
        return self.address.split("/?")[0]

    def visitor(self, seconds: float = 300) -> Visitor:
        return Visitor(self.address, seconds)

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
        guard = Guard("127.0.0.1", port)
        app = create_app(desk, guard)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{port}/?token={guard.token}"

    yield start
    for server, thread in started:
        server.should_exit = server.force_exit = True
        thread.join(timeout=30)

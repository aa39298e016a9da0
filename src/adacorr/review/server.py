"""Start the review: open the run, take the port, serve until stopped."""

from __future__ import annotations

import errno
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from adacorr.core.validation import InputError
from adacorr.review.guard import Guard, is_loopback
from adacorr.review.queue import load_flips
from adacorr.review.store import Store
from adacorr.runs.directory import Run
from adacorr.runs.manifest import fingerprint
from adacorr.runs.reader import RunData

if TYPE_CHECKING:
    from adacorr.correction.verified import Verified
    from adacorr.review.guard import Gate

DATABASE = "review.sqlite"
PORT = 8350
_BACKLOG = 128  # so many newcomers are let in at once, before others are let go


def open_review(run: Run) -> tuple[RunData, Store]:
    """A run and the decisions made about it; close the store when done."""
    data = RunData.open(run)
    return data, Store(run.file(DATABASE), load_flips(data), data.n_classes)


def answers_of(run: Run) -> Verified:
    """What people said on the review page of `run`, by what the source calls the rows."""
    from adacorr.review.answers import AnswerLog, brought, in_the_source, settled, verified

    path, data = run.file(DATABASE), RunData.open(run)
    if path.is_file():
        with closing(Store(path, load_flips(data), data.n_classes)) as store:
            labels = verified(AnswerLog(store, data))
    else:
        labels = settled(brought(data))
    if not labels:
        raise InputError(f"{path}: expected answers given on the review page, got none")
    return in_the_source(data, labels)


def serve(
    run: Run,
    host: str = "127.0.0.1",
    port: int = PORT,
    *,
    browser: bool = True,
    target: float = 0.05,
    say: Callable[[str], None] = print,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the review page of `run` until interrupted.

    Parameters
    ----------
    host, port : where to listen; port 0 takes any free one. The address holds a token, which the
        first visit needs.
    browser : open the page.
    target : the flip error that the audit panel counts towards.
    say : where the lines for the user go.
    ready : told the address once the page listens there.
    """
    app_of = _application(run, target)
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    guard = Guard(host, port, fingerprint=fingerprint(run.path))
    app = app_of(guard)
    address = _address(host, port, guard.token)
    if not is_loopback(host):
        say(f"Reachable from other machines on {host}; the address holds the token that is needed:")
    with suppress(KeyboardInterrupt), listener:  # the usual way to end a review
        ready(address)
        say(f"Review at {address} (stop with Ctrl-C; decisions are saved as you make them)")
        if browser:
            opened = _address(host, port, guard.ticket)
            threading.Timer(0.5, webbrowser.open, (opened,)).start()
        _run(app, listener)
    say(f"Stopped. The decisions are in {run.file(DATABASE)}")


def _application(run: Run, target: float) -> Callable[[Guard], Gate]:
    """Open everything that can fail before the port is taken."""
    try:
        from adacorr.review.app import Desk, create_app
        from adacorr.review.prompt import PromptProtocol  # noqa: F401 - needed once it serves
    except ImportError as error:
        raise InputError(
            f"review: expected fastapi and uvicorn, got {error}; "
            "install them with: pip install 'adacorr[review]'"
        ) from error
    if not 0 < target < 1:
        raise InputError(f"target: expected a share between 0 and 1, got {target}")
    desk = Desk.open(RunData.open(run), run.file(DATABASE), target)
    return lambda guard: create_app(desk, guard)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise InputError(f"port: expected a number from 0 to 65535, got {port}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port: expected a free one, got {port}, which is taken; "
                "choose another with --port, or --port 0 for any"
            ) from error
        raise InputError(f"host: expected an address to listen on, got {host}: {error}") from error
    return listener


def _run(app: Gate, listener: socket.socket) -> None:
    import uvicorn

    from adacorr.review.prompt import PromptProtocol

    config = uvicorn.Config(
        app, http=PromptProtocol, ws="none", log_level="warning", access_log=False,
        server_header=False, backlog=_BACKLOG,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])


def _address(host: str, port: int, token: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        shown = socket.gethostname()
    return f"http://{shown}:{port}/?token={token}"

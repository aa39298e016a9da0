"""Who may talk to the review server: Host and Origin checks, the session, sizes, the headers."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

AUTHOR = "adacorr_author"
"""The cookie that names a browser."""
_SAFE_METHODS = ("GET", "HEAD")
_MAX_BODY = 1 << 16
_YEAR = 365 * 24 * 3600
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# The shapes of ASGI, so that this file needs no web framework.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def _secret() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Problem:
    """Why a request is turned away."""

    status: int
    text: str


@dataclass(frozen=True)
class Guard:
    """The rules of one server, with secrets of its own at every start.

    Attributes
    ----------
    host, port : where it listens.
    token : demanded in the address of the first visit, on this machine too: it has other users.
    ticket : stands in for the token once; for the browser that is opened, whose command line
        others can read.
    session : what the cookie must hold; the cookie is what keeps other sites' pages out.
    fingerprint : of the run under review.
    start : of this server alone.
    run : both; stands in the address of every question, so that what a page asks for, and what the
        browser has cached, belong to this run and to what its source was when the server started.
    """

    host: str
    port: int
    token: str = field(default_factory=_secret)
    ticket: str = field(default_factory=_secret)
    session: str = field(default_factory=_secret)
    fingerprint: str = ""
    start: str = field(default_factory=lambda: secrets.token_hex(8))
    _used: set[str] = field(default_factory=set)

    @property
    def run(self) -> str:
        return f"{self.fingerprint[:16]}{self.start}"

    def admits(self, token: str | None, cookies: Mapping[str, str]) -> bool:
        """May a visitor with this token in the address, or with these cookies, have the page?"""
        if self.knows(cookies):
            return True
        if token is None:
            return False
        if _same(token, self.ticket) and not self._used:
            self._used.add(self.ticket)
            return True
        return _same(token, self.token)

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Is this visitor's session open?"""
        return _same(cookies.get(self.cookie, ""), self.session)

    @property
    def cookie(self) -> str:
        return f"adacorr_{self.port}"  # cookies know no port: two reviews must not mix

    def problem(
        self, method: str, path: str, headers: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Problem | None:
        """None when the request may pass."""
        host = headers.get("host", "")
        if not self._known_host(host):
            return Problem(400, "expected a request to this server's own address, got another Host")
        if method not in _SAFE_METHODS and not _same_origin(headers, host):
            return Problem(403, "expected a request from this page, got one from another origin")
        if method not in _SAFE_METHODS and not _short_body(headers):
            return Problem(413, f"expected a body of at most {_MAX_BODY} bytes, got more")
        if path.startswith("/api/"):
            if not self.knows(cookies):
                return Problem(401, "expected an open session, got none: open the address again")
            if path != "/api/run" and not path.startswith(f"/api/{self.run}/"):
                return Problem(409, "expected a request of this review's page, got one of another")
        return None

    def _known_host(self, header: str) -> bool:
        name, port = _split_host(header)
        if port != self.port:
            return False
        if is_loopback(self.host):
            return is_loopback(name)
        # Beyond this machine any literal address or own name may be right; a foreign name, which
        # its owner could point here (DNS rebinding), is not.
        own = {self.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return is_loopback(name) or _is_address(name) or name in own


class Gate:
    """The guard around an ASGI application: turns away, bounds what is read, adds headers."""

    def __init__(self, app: Application, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = _headers(scope)
        problem = self.guard.problem(
            scope["method"], scope["path"], headers, _cookies(headers.get("cookie", ""))
        )
        if problem is None:
            await self.app(scope, _bounded(receive), _add_headers(send))
        else:
            await _refuse(_add_headers(send), problem)


def set_cookies(response: Any, guard: Guard, author: str | None) -> None:
    """Open the session, and name this browser for as long as it keeps cookies.

    `author`, the browser's name if it has one, is what an undo goes by: people may share a name.
    """
    common: dict[str, Any] = {"httponly": True, "samesite": "strict", "path": "/"}
    response.set_cookie(guard.cookie, guard.session, **common)
    response.set_cookie(AUTHOR, author or _secret(), max_age=_YEAR, **common)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    return {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}


def _cookies(header: str) -> dict[str, str]:
    """Names and values; other programs on this host set cookies too, and odd ones must not hurt.

    >>> _cookies('a=1; odd {"}; adacorr_8350=x')
    {'a': '1', 'adacorr_8350': 'x'}
    """
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value.strip('"') for name, equals, value in pairs if equals}


def _bounded(receive: Receive) -> Receive:
    """Counts what really arrives: a header may promise less."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > _MAX_BODY:
            return {"type": "http.disconnect"}
        return message

    return counted


def _add_headers(send: Send) -> Send:
    """Adds the headers that forbid framing, sniffing, foreign scripts and foreign requests."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", [])}
            more = dict(_HEADERS)
            if b"cache-control" not in present:
                more["Cache-Control"] = "no-store"
            added = [(k.lower().encode(), v.encode()) for k, v in more.items()]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return with_headers


async def _refuse(send: Send, problem: Problem) -> None:
    body = problem.text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the body of a refused write is not read
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Is it a name or address of this machine that no other machine reaches?

    >>> [is_loopback(name) for name in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "box")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _split_host(header: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{header}")
        return (parts.hostname or "").lower(), parts.port or 80
    except ValueError:
        return "", 0


def _same_origin(headers: Mapping[str, str], host: str) -> bool:
    """A browser names the page's origin with every write; no name, no write."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    try:
        return urlsplit(headers.get("origin", "")).netloc.lower() == host.lower() != ""
    except ValueError:
        return False


def _short_body(headers: Mapping[str, str]) -> bool:
    if "transfer-encoding" in headers:  # then the length says nothing
        return False
    length = headers.get("content-length", "")
    return length.isascii() and length.isdigit() and int(length) <= _MAX_BODY

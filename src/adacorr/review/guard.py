"""Who may talk to the review server: Host and Origin checks, the session, the headers."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.responses import Response

_SAFE_METHODS = ("GET", "HEAD")
_MAX_BODY = 1 << 16
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


@dataclass(frozen=True)
class Problem:
    """Why a request is turned away."""

    status: int
    text: str


@dataclass(frozen=True)
class Guard:
    """The rules of one server.

    Attributes
    ----------
    host, port : where it listens.
    token : demanded once, in the address, when the server listens beyond this machine.
    session : what the cookie must hold; the cookie is what keeps other sites' pages out.
    """

    host: str
    port: int
    token: str | None
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def admits(self, token: str | None, cookies: Mapping[str, str]) -> bool:
        """May a visitor with this token in the address, or with these cookies, have the page?"""
        if self.token is None or self.knows(cookies):
            return True
        return token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Is this visitor's session open?"""
        return hmac.compare_digest(cookies.get(self.cookie, "").encode(), self.session.encode())

    @property
    def cookie(self) -> str:
        return f"adacorr_{self.port}"  # cookies know no port: two reviews must not mix

    def set_cookie(self, response: Response) -> None:
        response.set_cookie(self.cookie, self.session, httponly=True, samesite="strict", path="/")

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
        if path.startswith("/api/") and not self.knows(cookies):
            return Problem(401, "expected an open session, got none: load the page again")
        return None

    def dress(self, response: Response) -> Response:
        """Add the headers that forbid framing, sniffing, foreign scripts and foreign requests."""
        for name, value in _HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response

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
    length = headers.get("content-length", "")
    return length.isascii() and length.isdigit() and int(length) <= _MAX_BODY

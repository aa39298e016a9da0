"""HTTP with limits on time and number: who never finishes a request keeps nobody else out."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
MAX_CONNECTIONS = 200
"""Far below the usual limit of 1,024 open files; a browser holds about six."""


class PromptProtocol(H11Protocol):
    """uvicorn's protocol, which closes connections that come to nothing.

    uvicorn limits the pause between two requests of a connection, but neither the wait for the
    first nor how slowly one comes in, nor how many visitors wait. Answers take as long as they
    take, until a newcomer needs the place.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._restart()
        self._make_room()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._restart()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    @property
    def waits(self) -> bool:
        """For a request, or for the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _restart(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._late)

    def _late(self) -> None:
        if self.waits or self.transport.is_closing():  # closing lasts until the answer is read
            self.transport.abort()

    def _make_room(self) -> None:
        """Whoever has waited longest goes; else whose answer takes longest."""
        others: list[Any] = [c for c in self.connections if not c.transport.is_closing()]
        if len(others) > MAX_CONNECTIONS:
            waiting = [c for c in others if c.waits] or others
            min(waiting, key=lambda c: c._deadline.when()).transport.abort()

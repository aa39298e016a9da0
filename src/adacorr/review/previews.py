"""Samples for the page, read aside: a source that hangs holds up nothing but its own sample."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from adacorr.core.validation import InputError
from adacorr.data import Preview

READERS = 4
KEPT = 256


class Late(InputError):
    """The source has not answered in time; it is still being asked."""


class Previews:
    """Remembers the last samples and the ones under way; asking again does not read again.

    The readers are daemon threads: one that never returns does not keep the server from stopping.

    Parameters
    ----------
    read : the sample with a number; may block.
    seconds : how long :meth:`get` waits.
    """

    def __init__(self, read: Callable[[int], Preview], seconds: float) -> None:
        self._read, self._seconds = read, seconds
        self._known: OrderedDict[int, Future[Preview]] = OrderedDict()
        self._lock = threading.Lock()
        self._asked: queue.SimpleQueue[tuple[int, Future[Preview]]] = queue.SimpleQueue()
        for _ in range(READERS):
            threading.Thread(target=self._work, daemon=True).start()

    async def get(self, number: int) -> Preview:
        """The sample, or :class:`Late`."""
        found = asyncio.wrap_future(self._future(number))
        try:
            return await asyncio.wait_for(asyncio.shield(found), self._seconds)
        except TimeoutError:
            raise Late(
                f"expected the sample within {self._seconds:g} s, got no answer from its source yet"
            ) from None

    def _future(self, number: int) -> Future[Preview]:
        with self._lock:
            found = self._known.get(number)
            if found is None or (found.done() and found.exception() is not None):
                found = self._known[number] = Future()
                self._asked.put((number, found))
            self._known.move_to_end(number)
            for old in list(self._known)[: max(0, len(self._known) - KEPT)]:
                if self._known[old].done():  # one under way is not asked for twice
                    del self._known[old]
            return found

    def _work(self) -> None:
        while True:
            number, future = self._asked.get()
            try:
                future.set_result(self._read(number))
            except Exception as error:  # whoever waits must hear of it, whatever it was
                future.set_exception(error)

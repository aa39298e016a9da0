"""Read ahead and write behind, one item each: decoding and encoding overlap with the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Item = TypeVar("Item")
_END: Any = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; the next one is made in a thread while the caller works on this one.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, iterator, _END)
        try:
            while (item := future.result()) is not _END:
                future = pool.submit(next, iterator, _END)
                yield item
        finally:  # also when the caller stops early: let the thread finish, then close the file
            with suppress(BaseException):
                future.result()
            if hasattr(iterator, "close"):
                iterator.close()  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def behind(write: Callable[[Item], None]) -> Iterator[Callable[[Item], None]]:
    """Yield a `write` that works in a thread; it raises the error of the write before, if any."""
    pending: list[Future[None]] = []

    def submit(item: Item) -> None:
        while pending:
            pending.pop().result()
        pending.append(pool.submit(write, item))

    with ThreadPoolExecutor(1) as pool:
        yield submit
        while pending:
            pending.pop().result()

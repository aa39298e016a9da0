"""Where samples are encoded and models fitted: in this process, or by the workers of a cluster.

Either way the work is cut into the same pieces, and each piece is done by one thread of one
process, so the results are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from distributed import Client

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")
P = ParamSpec("P")


class Workers(Protocol):
    """Applies a function to a stream of items; what all of them share is handed over once."""

    def each(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]: ...


class Here:
    """This process.

    >>> list(Here().each(lambda a, b: a + b, 1, [1, 2]))
    [2, 3]
    """

    def each(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        return (function(shared, item) for item in items)


HERE = Here()


class Cluster:
    """The workers of a Dask cluster; a few items per worker are under way at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def each(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        from adacorr.correction.cluster import stream

        return stream(self._client, function, shared, items)


def one_thread(function: Callable[P, Result]) -> Callable[P, Result]:
    """With one thread, so that results are equal on any number of cores.

    Models are small: their threads would wait for each other, on a busy machine for minutes.
    """

    @wraps(function)
    def alone(*args: P.args, **options: P.kwargs) -> Result:
        import sklearn.linear_model  # noqa: F401  only libraries that are loaded are limited
        from threadpoolctl import threadpool_limits

        limits: Any = threadpool_limits(1)
        with limits:
            return function(*args, **options)

    return alone

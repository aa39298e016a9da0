"""Samples are read aside: one that hangs holds up nobody, and none is read twice at once."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from adacorr.data import Preview
from adacorr.review.previews import KEPT, Late, Previews


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """In a thread of its own: the browser of other tests keeps a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def test_what_is_known_or_under_way_is_not_read_again():
    read = []
    previews = Previews(lambda number: read.append(number) or Preview(None, {"n": str(number)}), 60)

    async def ask():
        return await asyncio.gather(*(previews.get(7) for _ in range(5)))

    assert [found.fields for found in run(ask())] == [{"n": "7"}] * 5
    assert read == [7]


def test_one_that_hangs_is_late_and_the_others_come():
    released = threading.Event()

    def read(number):
        if number == 0:
            released.wait()
        return Preview(None, {"n": str(number)})

    previews = Previews(read, 0.05)
    with pytest.raises(Late, match=r"within 0\.05 s, got no answer"):
        run(previews.get(0))
    previews._seconds = 60
    assert run(previews.get(1)).fields == {"n": "1"}
    released.set()
    assert run(previews.get(0)).fields == {"n": "0"}


def test_a_failure_is_told_and_tried_again():
    answers = [OSError("gone"), Preview(None, {"n": "3"})]

    def read(number):
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    previews = Previews(read, 60)
    with pytest.raises(OSError, match="gone"):
        run(previews.get(3))
    assert run(previews.get(3)).fields == {"n": "3"}


def test_only_the_last_are_remembered():
    read = []
    previews = Previews(lambda number: read.append(number) or Preview(), 60)

    async def ask(numbers):
        for number in numbers:
            await previews.get(number)

    run(ask([*range(KEPT + 1), KEPT, 0]))
    assert read == [*range(KEPT + 1), 0]

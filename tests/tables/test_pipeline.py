import threading

import pytest

from adacorr.tables.pipeline import ahead, behind


def test_ahead_keeps_order_and_works_in_another_thread():
    seen = []

    def items():
        for i in range(5):
            seen.append(threading.current_thread())
            yield i

    assert list(ahead(items())) == [0, 1, 2, 3, 4]
    assert threading.main_thread() not in seen


def test_ahead_raises_what_the_items_raise():
    def items():
        yield 1
        raise ValueError("broken")

    stream = ahead(items())
    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)


def test_stopping_early_closes_the_items():
    closed = threading.Event()

    def items():
        try:
            yield from range(100)
        finally:
            closed.set()

    stream = ahead(items())
    next(stream)
    stream.close()
    assert closed.is_set()


def test_behind_writes_everything_in_order():
    out = []
    with behind(out.append) as write:
        for i in range(10):
            write(i)
    assert out == list(range(10))


@pytest.mark.parametrize("at", [0, 3])
def test_behind_raises_what_a_write_raises(at):
    def fail(i):
        if i == at:
            raise OSError("full")

    def run():
        with behind(fail) as write:
            for i in range(4):
                write(i)

    with pytest.raises(OSError, match="full"):
        run()

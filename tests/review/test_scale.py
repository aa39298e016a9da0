"""100,000 proposed changes: one more costs no more than in a small run, and memory is small."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from adacorr.review.app import Desk, create_app
from adacorr.review.guard import Guard
from adacorr.review.server import DATABASE
from adacorr.review.store import SignOff
from adacorr.runs.reader import RunData

BASE = "http://127.0.0.1:8350"


@pytest.fixture
def desk(make_run):
    run = make_run(n=340_000, k=4)
    return Desk.open(RunData.open(run), run.file(DATABASE))


class Work:
    """Instructions of SQLite, which do not depend on the machine or its load."""

    def __init__(self, desk):
        self.database, self.done = desk.store._db, 0

    def one(self):
        self.done += 1

    def __enter__(self):
        self.database.set_progress_handler(self.one, 1)
        return self

    def __exit__(self, *_):
        self.database.set_progress_handler(None, 1)


def decide_some(desk):
    """The instructions of 20 decisions on the page, each with the next item."""
    guard = Guard("127.0.0.1", 8350)
    api = f"/api/{guard.run}"
    client = TestClient(create_app(desk, guard), base_url=BASE)
    client.headers["Origin"] = BASE
    client.get(f"/?token={guard.token}")
    items = client.get(f"{api}/queue?client=me&order=doubtful&limit=20").json()
    with Work(desk) as work:
        for item in items:
            said = {"reviewer": "Ann", "decisions": [{"flip": item["flip"], "choice": "accept"}]}
            assert client.post(f"{api}/decide", json=said).status_code == 200
            client.get(f"{api}/queue?client=me&order=doubtful")
    return work.done / len(items)


def test_the_next_decision_costs_no_more_than_in_a_small_run(desk, make_run):
    small = make_run("small", n=400, k=4)
    few = decide_some(Desk.open(RunData.open(small), small.file(DATABASE)))
    assert len(desk.flips) > 90_000
    for start in range(0, 30_000, 10_000):
        batch = [SignOff(flip, "accept") for flip in range(start, start + 10_000)]
        assert desk.store.decide(batch, "Ann") == []
    assert decide_some(desk) < 1.5 * few


def test_memory_is_a_few_arrays(desk):
    flips = desk.flips
    held = sum(getattr(flips, name).nbytes for name in flips.__dataclass_fields__)
    held += sum(order.nbytes for order in desk.queue.orders.values())
    held += sum(a.nbytes for a in (desk.store.state, desk.store.label, desk.store.latest))
    assert held / len(flips) < 120
    assert not isinstance(desk.data.pred_probs, np.ndarray)  # they stay on disk


def test_decisions_are_taken_in_once(desk):
    """What is read again of 30,000 decisions grows with them, not with their square."""
    batch = [SignOff(flip, "accept") for flip in range(30_000)]
    assert desk.store.decide(batch, "Ann") == []
    desk.store.state[:], desk.store._seen_id = 0, 0
    with Work(desk) as work:
        desk.store.refresh()
    assert (desk.store.state[:30_000] == 1).all()
    assert work.done < 100 * len(batch)
    with Work(desk) as work:
        desk.store.refresh()
    assert work.done < 100

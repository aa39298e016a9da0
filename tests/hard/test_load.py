"""The review server under fifty clients that never pause, and its security meanwhile."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from adacorr.review.server import DATABASE

CLIENTS = 50
PATIENCE = 300  # seconds for an answer: only a hang takes that long
SECONDS = float(os.environ.get("ADACORR_HARD_SECONDS", 60))
REVIEW_TESTS = Path(__file__).parents[1] / "review"
SECURITY = [str(REVIEW_TESTS / f"test_{name}.py") for name in ("guard", "app", "server")]


class Load:
    """What the clients saw."""

    def __init__(self, server: Any) -> None:
        self.entrance, self.address = server.address, server.origin
        with server.visitor() as visitor:
            self.api = visitor.api
        self.seconds: dict[str, list[float]] = {"queue": [], "decide": []}
        self.confirmed: list[tuple[int, str]] = []  # flip and reviewer
        self.refused = 0
        self.failed: Counter[str] = Counter()

    async def timed(self, kind: str, request: asyncio.Future) -> httpx.Response:
        began = time.perf_counter()
        answer = await request
        self.seconds[kind].append(time.perf_counter() - began)
        if answer.status_code != 200:
            self.failed[f"{kind} {answer.status_code}"] += 1
        return answer

    async def client(self, number: int, until: float) -> None:
        """Ask for changes, decide each, ask again: a reviewer who never thinks."""
        name = f"reviewer {number}"
        async with httpx.AsyncClient(base_url=self.address, timeout=PATIENCE) as http:
            http.headers["Origin"] = self.address
            assert (await http.get(self.entrance, follow_redirects=True)).status_code == 200
            while time.monotonic() < until:
                queue = http.get(f"{self.api}/queue?client=c{number}&limit=8&order=doubtful")
                for item in (await self.timed("queue", queue)).json():
                    said = {"flip": item["flip"], "choice": "accept", "seen": item["seen"]}
                    body = {"reviewer": name, "decisions": [said]}
                    sent = http.post(f"{self.api}/decide", json=body)
                    answer = await self.timed("decide", sent)
                    if answer.status_code == 200 and not answer.json()["refused"]:
                        self.confirmed.append((item["flip"], name))
                    elif answer.status_code == 200:
                        self.refused += 1
                    if time.monotonic() > until:
                        return

    async def attack(self, until: float) -> int:
        """The security rules of the review, asked of this very server again and again."""
        rounds = 0
        port = int(self.address.rsplit(":", 1)[1])
        async with httpx.AsyncClient(base_url=self.address, timeout=PATIENCE) as known:
            page = await known.get(self.entrance, follow_redirects=True)
            assert "httponly" in page.headers["set-cookie"].lower()
            assert "samesite=strict" in page.headers["set-cookie"].lower()
            while time.monotonic() < until:
                await self._attack_once(known, port)
                rounds += 1
        return rounds

    async def _attack_once(self, known: httpx.AsyncClient, port: int) -> None:
        own = {"Origin": self.address}
        said = {"reviewer": "Eve", "decisions": [{"flip": 0, "choice": "reject"}]}
        odd = {"reviewer": "Eve", "decisions": [{"flip": 0, "choice": "other", "label": 99}]}
        wanted = [
            (known.get("/api/run", headers={"Host": "evil.example"}), {400}),
            (known.get("/api/run", headers={"Host": f"evil.example:{port}"}), {400}),
            (known.post(f"{self.api}/decide", json=said, headers={"Origin": "http://evil"}), {403}),
            (known.post(f"{self.api}/decide", json=said, headers={"Origin": "null"}), {403}),
            (known.post(f"{self.api}/decide", json=said), {403}),
            (known.post(f"{self.api}/decide", json=odd, headers=own), {422}),
            (known.post(f"{self.api}/decide", content=b"x" * 70_000, headers=own), {413}),
            (known.get("/..%2f..%2fetc/passwd"), {404}),
            (known.get("/review.sqlite"), {404}),
            (known.get("/openapi.json"), {404}),
            (known.get(f"{self.api}/image/999999999999999999999"), {422}),
            (known.get(f"{self.api}/fields/99999999"), {404}),
        ]
        for request, statuses in wanted:
            answer = await request
            assert answer.status_code in statuses, (answer.request.url, answer.status_code)
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-frame-options"] == "DENY"
        async with httpx.AsyncClient(base_url=self.address, timeout=PATIENCE) as stranger:
            assert (await stranger.get("/api/run")).status_code == 401
            sent = await stranger.post(f"{self.api}/decide", json=said, headers=own)
            assert sent.status_code == 401


async def drive(load: Load) -> int:
    until = time.monotonic() + SECONDS
    clients = [load.client(number, until) for number in range(CLIENTS)]
    *_, rounds = await asyncio.gather(*clients, load.attack(until))
    return rounds


def quantile_ms(values: list[float], q: float) -> int:
    return round(1000 * float(np.quantile(values, q)))


def test_fifty_clients(make_run, serve, record):
    run = make_run(n=300_000)
    server = serve(run)
    load = Load(server)
    tests = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *SECURITY],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "USER": "tester"},
    )
    rounds = asyncio.run(drive(load))
    out, _ = tests.communicate(timeout=1800)
    assert tests.returncode == 0, out
    passed = re.search(r"(\d+) passed", out)
    assert passed is not None, out
    server.kill()
    with sqlite3.connect(run.file(DATABASE)) as db:
        log = db.execute("SELECT row, choice, reviewer FROM log ORDER BY id").fetchall()
    flips = [flip for flip, _ in load.confirmed]
    assert len(set(flips)) == len(flips), "two clients were told that a flip is theirs"
    assert len(log) == len(flips), "lost or duplicated decisions"
    assert {choice for _, choice, _ in log} == {"accept"}  # no attack got through
    assert Counter(who for _, _, who in log) == Counter(who for _, who in load.confirmed)
    assert len({row for row, _, _ in log}) == len(log)
    assert not load.failed, load.failed
    decide, queue = load.seconds["decide"], load.seconds["queue"]
    record(
        "review_load",
        clients=CLIENTS,
        seconds=SECONDS,
        requests=len(decide) + len(queue),
        decisions=len(flips),
        refused_as_taken=load.refused,
        lost=0,
        duplicated=0,
        decide_p50_ms=quantile_ms(decide, 0.5),
        decide_p99_ms=quantile_ms(decide, 0.99),
        all_p99_ms=quantile_ms(decide + queue, 0.99),
        security_rounds=rounds,
        security_checks=14 * rounds,
        security_tests=int(passed[1]),
        cores=os.cpu_count(),
        busy_with_other_work=round(os.getloadavg()[1], 1),
    )

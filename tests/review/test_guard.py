import pytest

from adacorr.review.guard import Gate, Guard

LOCAL = Guard("127.0.0.1", 8350)
OPEN = Guard("0.0.0.0", 8350, "secret", "ticket")
ORIGIN = {"host": "127.0.0.1:8350", "origin": "http://127.0.0.1:8350", "content-length": "10"}


def status(guard, method, path, headers, cookies=None):
    problem = guard.problem(method, path, headers, cookies or {guard.cookie: guard.session})
    return None if problem is None else problem.status


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8350", "localhost:8350", "[::1]:8350", "127.0.0.2:8350"]
)
def test_own_hosts_pass(host):
    assert status(LOCAL, "GET", "/", {"host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8350",
        "127.0.0.1:80",
        "127.0.0.1",
        "192.168.0.7:8350",
        "",
        "[",
        "a:b",
    ],
)
def test_foreign_hosts_are_turned_away(host):
    assert status(LOCAL, "GET", "/", {"host": host}) == 400


def test_beyond_this_machine_addresses_pass_and_names_do_not():
    assert status(OPEN, "GET", "/", {"host": "192.168.0.7:8350"}) is None
    assert status(OPEN, "GET", "/", {"host": "evil.example:8350"}) == 400


@pytest.mark.parametrize(
    "change",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://[bad"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_cross_origin_writes_are_turned_away(change):
    assert status(LOCAL, "POST", f"/api/{LOCAL.run}/decide", ORIGIN) is None
    assert status(LOCAL, "POST", f"/api/{LOCAL.run}/decide", ORIGIN | change) == 403
    assert status(LOCAL, "PUT", f"/api/{LOCAL.run}/decide", ORIGIN | change) == 403


def test_a_write_without_origin_is_turned_away():
    headers = {"host": "127.0.0.1:8350", "content-length": "10"}
    assert status(LOCAL, "POST", f"/api/{LOCAL.run}/decide", headers) == 403


@pytest.mark.parametrize("length", ["", "999999999", "-1", "x", "1e3"])
def test_bodies_are_short(length):
    assert (
        status(LOCAL, "POST", f"/api/{LOCAL.run}/decide", ORIGIN | {"content-length": length})
        == 413
    )


def test_the_api_asks_for_the_session():
    headers = {"host": "127.0.0.1:8350"}
    assert status(LOCAL, "GET", "/api/run", headers) is None
    assert status(LOCAL, "GET", "/api/run", headers, {LOCAL.cookie: "wrong"}) == 401
    assert status(LOCAL, "GET", "/api/run", headers, {"adacorr_1": LOCAL.session}) == 401


def test_a_length_says_nothing_of_a_chunked_body():
    headers = ORIGIN | {"transfer-encoding": "chunked"}
    assert status(LOCAL, "POST", f"/api/{LOCAL.run}/decide", headers) == 413


def test_another_reviews_page_is_told_so():
    headers = {"host": "127.0.0.1:8350"}
    assert status(LOCAL, "GET", "/api/0123456789abcdef/image/0", headers) == 409
    assert status(LOCAL, "GET", f"/api/{LOCAL.run}x/image/0", headers) == 409
    assert status(LOCAL, "GET", f"/api/{LOCAL.run}/image/0", headers) is None
    assert Guard("127.0.0.1", 8350).run != LOCAL.run
    one, two = (Guard("127.0.0.1", 8350, fingerprint=name * 64, start="0") for name in "ab")
    assert status(one, "GET", f"/api/{two.run}/image/0", headers) == 409


def test_tokens():
    assert not LOCAL.admits(None, {})
    assert LOCAL.admits(LOCAL.token, {})
    assert OPEN.admits("secret", {})
    assert OPEN.admits("secret", {})
    assert OPEN.admits(None, {OPEN.cookie: OPEN.session})
    assert not OPEN.admits(None, {})
    assert not OPEN.admits("", {})
    assert not OPEN.admits("\ud800", {})
    assert not OPEN.admits("Secret", {OPEN.cookie: "secret"})


def test_the_ticket_on_the_browsers_command_line_is_good_once():
    guard = Guard("127.0.0.1", 8350, "secret", "ticket")
    assert guard.admits("ticket", {})
    assert not guard.admits("ticket", {})
    assert guard.admits("secret", {})


def test_what_arrives_is_counted_whatever_was_promised():
    async def app(scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            taken.append(len(message["body"]))

    async def receive():
        return {"type": "http.request", "body": b"x" * 10_000, "more_body": True}

    async def send(message):
        pass

    taken: list[int] = []
    headers = [(k.encode(), v.encode()) for k, v in ORIGIN.items()]
    headers += [(b"cookie", f"{LOCAL.cookie}={LOCAL.session}".encode())]
    scope = {"type": "http", "method": "POST", "path": f"/api/{LOCAL.run}/decide"}
    with pytest.raises(StopIteration):  # nothing in it waits: it needs no event loop
        Gate(app, LOCAL)({**scope, "headers": headers}, receive, send).send(None)  # pyright: ignore
    assert sum(taken) == 60_000

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from adacorr.core.certificate import flip_error_limit, reviews_needed
from adacorr.review.app import Desk, create_app
from adacorr.review.guard import Guard
from adacorr.review.server import DATABASE
from adacorr.review.store import ACCEPT
from adacorr.runs.reader import RunData

BASE = "http://127.0.0.1:8350"
TOKEN = "tell-me"
ENTRANCE = f"/?token={TOKEN}"


@pytest.fixture
def start(make_run):
    def make(host="127.0.0.1", **options):
        run = make_run(**options)
        desk = Desk.open(RunData.open(run), run.file(DATABASE))
        guard = Guard(host, 8350, TOKEN)
        client = TestClient(create_app(desk, guard), base_url=BASE, headers={"Origin": BASE})
        client.api = f"/api/{guard.run}"
        return desk, client

    return make


@pytest.fixture
def opened(start):
    desk, client = start()
    assert client.get(ENTRANCE).status_code == 200
    return desk, client


def decide(client, *decisions, reviewer="Ann"):
    return client.post(
        f"{client.api}/decide", json={"reviewer": reviewer, "decisions": list(decisions)}
    )


def test_page_and_files_have_strict_headers(opened):
    _, client = opened
    for path in ("/", "/app.js", "/api.js", "/view.js", "/style.css", "/icon.svg", "/api/run"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
    cookie = client.get("/").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    "path",
    [
        "/docs",
        "/redoc",
        "/openapi.json",
        "/static/app.js",
        "/../pyproject.toml",
        "/..%2f..%2fetc/passwd",
        "API/image/..%2f..%2fetc%2fpasswd",
        "API/fields/-1",
        "API/fields/1e3",
        "API/fields/99999999",
        "API/image/999999999999999999999",
        "/config.toml",
        "/review.sqlite",
    ],
)
def test_nothing_else_is_served(opened, path):
    _, client = opened
    assert client.get(path.replace("API", client.api)).status_code in (404, 422)


def test_without_the_page_there_is_no_api(start):
    _, client = start()
    assert client.get("/api/run").status_code == 401
    assert client.get(f"{client.api}/progress").status_code == 401
    assert decide(client, {"flip": 0, "choice": "accept"}).status_code == 401


def test_foreign_host_and_origin(opened):
    desk, client = opened
    assert client.get("/api/run", headers={"Host": "evil.example"}).status_code == 400
    sent = {"reviewer": "Ann", "decisions": [{"flip": 0, "choice": "accept"}]}
    answer = client.post(
        f"{client.api}/decide", json=sent, headers={"Origin": "http://evil.example"}
    )
    assert answer.status_code == 403
    assert not desk.store.state.any()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_is_demanded(start, host):
    """On this machine too: it has other users."""
    _, client = start(host=host)
    assert client.get("/").status_code == 403
    assert client.get("/?token=guess").status_code == 403
    assert client.get("/api/run").status_code == 401
    assert client.get(ENTRANCE).status_code == 200  # redirected, with the cookie
    assert client.get("/api/run").status_code == 200


def test_pages_and_pictures_of_another_review_are_not_served(start):
    """The browser keeps pictures for long, and a page may stay open when its server is gone."""
    _, first = start(name="one", data={"source": "digits"})
    _, second = start(name="two", data={"source": "digits"})
    first.get(ENTRANCE)
    second.get(ENTRANCE)
    assert first.api != second.api
    old = first.get(f"{first.api}/image/0")
    assert "immutable" in old.headers["cache-control"]
    assert second.get(f"{first.api}/image/0").status_code == 409
    said = {"reviewer": "Ann", "decisions": [{"flip": 0, "choice": "accept"}]}
    assert second.post(f"{first.api}/decide", json=said).status_code == 409
    assert second.post(f"{second.api}/decide", json=said).status_code == 200


def test_a_name_in_use_does_not_open_anothers_decisions(start):
    desk, ann = start()
    ann.get(ENTRANCE)
    decide(ann, {"flip": 0, "choice": "accept"})
    other = TestClient(ann.app, base_url=BASE, headers={"Origin": BASE})
    other.api = ann.api
    other.get(ENTRANCE)
    assert other.post(f"{other.api}/undo", json={"reviewer": "Ann"}).json()["item"] is None
    assert desk.store.state[0] == ACCEPT
    assert ann.post(f"{ann.api}/undo", json={"reviewer": "Ann"}).json()["item"]["flip"] == 0


def test_the_page_suggests_no_name(opened, monkeypatch):
    monkeypatch.setenv("USER", "root")
    _, client = opened
    assert "root" not in client.get("/api/run").text


@pytest.mark.parametrize(
    "body",
    [
        '{"reviewer": "Ann", "decisions": [{"flip": NaN, "choice": "accept"}]}',
        '{"reviewer": "Ann", "decisions": [{"flip": Infinity, "choice": "accept"}]}',
        '{"reviewer": "\\ud800", "decisions": [{"flip": 0, "choice": "accept"}]}',
        '{"reviewer": "Ann", "decisions": [{"flip": 0, "choice": "\\udc80"}]}',
        '{"reviewer": "Ann", "\\ud800": 1, "decisions": []}',
        "[" * 30_000,
        "\xff",
        "",
    ],
)
@pytest.mark.parametrize("path", ["decide", "undo"])
def test_what_json_cannot_say_back_is_a_bad_request(opened, body, path):
    desk, client = opened
    raw = body.encode("latin-1")
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"{client.api}/{path}", content=raw, headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["detail"]
    assert not desk.store.state.any()


def test_a_hung_source_has_a_time_limit_and_holds_up_nothing_else(start, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr("adacorr.review.app.SAMPLE_SECONDS", 0.2)
    desk, client = start(data={"source": "digits"})
    read = desk.items.get
    monkeypatch.setattr(desk.items, "get", lambda index: released.wait() and read(index))
    client.get(ENTRANCE)
    for flip in range(12):  # more than there are readers
        answer = client.get(f"{client.api}/fields/{flip}")
        assert answer.status_code == 504
        assert "0.2 s" in answer.json()["detail"]
    assert decide(client, {"flip": 0, "choice": "accept"}).status_code == 200
    released.set()
    answers = (client.get(f"{client.api}/fields/11") for _ in range(300))
    found = next(answer for answer in answers if answer.status_code == 200)
    assert found.json()["image"] is True


def test_items_tell_what_the_run_says(opened):
    desk, client = opened
    (item, *_) = client.get(f"{client.api}/queue?client=a&order=doubtful").json()
    flip = item["flip"]
    assert item["sample"] == desk.flips.index[flip]
    assert item["given"] == desk.flips.given[flip]
    assert item["confidence"] == pytest.approx(np.nanmin(desk.flips.confidence), abs=1e-4)
    bars = dict(map(tuple, item["bars"]))
    assert desk.data.pred_probs is not None
    row = desk.data.pred_probs[desk.flips.row[flip]]
    assert {item["given"], item["proposed"]} <= set(bars)
    for label, p in bars.items():
        assert p == pytest.approx(row[label], abs=1e-4)
    assert list(bars.values()) == sorted(bars.values(), reverse=True)


def test_decide_undo_and_counts(opened):
    desk, client = opened
    answer = decide(client, {"flip": 0, "choice": "accept"}, {"flip": 1, "choice": "reject"}).json()
    assert answer["refused"] == []
    assert (answer["progress"]["accepted"], answer["progress"]["rejected"]) == (1, 1)
    assert answer["progress"]["reviewers"] == {"Ann": 2}
    answer = client.post(f"{client.api}/undo", json={"reviewer": "Ann"}).json()
    assert answer["item"]["flip"] == 1
    assert answer["progress"]["rejected"] == 0
    refused = decide(client, {"flip": 0, "choice": "reject"}, reviewer="Bob").json()["refused"]
    assert refused == [{"flip": 0, "choice": "accept", "label": None, "reviewer": "Ann"}]
    assert desk.store.state[0] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"flip": -1, "choice": "accept"},
        {"flip": 10**6, "choice": "accept"},
        {"flip": "0", "choice": "accept"},
        {"flip": 0.5, "choice": "accept"},
        {"flip": 0, "choice": "delete"},
        {"flip": 0, "choice": "other"},
        {"flip": 0, "choice": "other", "label": 4},
        {"flip": 0, "choice": "other", "label": -1},
        {"flip": 0, "choice": "accept", "label": 1},
        {"flip": 0, "choice": "accept", "path": "/etc/passwd"},
        {"choice": "accept"},
        "accept",
    ],
)
def test_odd_decisions_are_refused(opened, wrong):
    desk, client = opened
    assert decide(client, wrong).status_code in (400, 404, 422)
    assert not desk.store.state.any()


def test_names_of_reviewers_are_bounded_and_cleaned(opened):
    _, client = opened
    assert decide(client, {"flip": 0, "choice": "accept"}, reviewer="").status_code == 400
    assert decide(client, {"flip": 0, "choice": "accept"}, reviewer="x" * 61).status_code == 400
    answer = decide(client, {"flip": 0, "choice": "accept"}, reviewer="<b>\x00").json()
    assert list(answer["progress"]["reviewers"]) == ["<b>\ufffd"]


def test_audit_states_the_clopper_pearson_limit(opened):
    desk, client = opened
    order = desk.queue.orders["audit"].tolist()
    total = int((~desk.flips.suspect).sum())
    assert len(order) == total
    fresh = client.get(f"{client.api}/progress").json()["audit"]
    assert fresh["needed"] == reviews_needed(0.05, n_flips=total)
    assert fresh["limit"] == 1
    said = [{"flip": flip, "choice": "accept"} for flip in order[:20]]
    said[7]["choice"] = "reject"
    audit = decide(client, *said).json()["progress"]["audit"]
    assert (audit["reviewed"], audit["wrong"]) == (20, 1)
    assert audit["limit"] == pytest.approx(flip_error_limit(1, 20, n_flips=total))
    assert audit["needed"] == reviews_needed(0.05, n_wrong=1, n_flips=total) - 20
    later = decide(client, {"flip": order[25], "choice": "reject"}).json()["progress"]["audit"]
    assert later == audit  # not part of the unbroken sample


def test_audit_with_too_many_wrong_is_out_of_reach(opened):
    desk, client = opened
    order = desk.queue.orders["audit"].tolist()
    audit = decide(client, *[{"flip": f, "choice": "reject"} for f in order[:50]]).json()
    assert audit["progress"]["audit"]["needed"] is None


def test_pictures_and_fields(start):
    _, client = start(data={"source": "digits"})
    client.get(ENTRANCE)
    answer = client.get(f"{client.api}/fields/0")
    assert answer.json()["image"] is True
    picture = client.get(f"{client.api}/image/0")
    assert picture.content[:4] == b"\x89PNG"
    assert "immutable" in picture.headers["cache-control"]
    assert client.get(f"{client.api}/progress").json()["note"] is None


def test_source_gone(start):
    desk, client = start(data={"source": "/nowhere/table.csv"})
    client.get(ENTRANCE)
    assert client.get(f"{client.api}/fields/0").json() == {"fields": {}, "image": False}
    assert client.get(f"{client.api}/image/0").status_code == 404
    assert "not shown" in client.get(f"{client.api}/progress").json()["note"]
    assert desk.item(0)["bars"]


def test_no_probabilities_no_confidence_no_flips(start):
    desk, client = start(probs=False, confidence=False)
    client.get(ENTRANCE)
    item = client.get(f"{client.api}/queue?client=a").json()[0]
    assert item["bars"] == []
    assert item["confidence"] is None
    desk, client = start(name="zero", flips=False)
    client.get(ENTRANCE)
    assert client.get(f"{client.api}/queue?client=a").json() == []
    assert client.get(f"{client.api}/progress").json()["audit"]["limit"] is None
    assert len(desk.flips) == 0


def test_export_downloads(opened):
    _, client = opened
    decide(client, {"flip": 0, "choice": "accept"})
    answer = client.get(f"{client.api}/export?format=csv&unreviewed=keep")
    assert answer.text.count("accepted") == 1
    assert len(answer.text.splitlines()) == 301
    assert client.get(f"{client.api}/export?format=parquet").content[:4] == b"PAR1"
    assert client.get(f"{client.api}/export?format=exe").status_code == 422


def test_a_sample_is_found_by_its_index(opened):
    desk, client = opened
    number = int(desk.flips.index[3])
    assert client.get(f"{client.api}/find?text={number}").json()["item"]["flip"] == 3
    kept = next(n for n in range(300) if n not in set(desk.flips.index.tolist()))
    assert client.get(f"{client.api}/find?text={kept}").status_code == 404
    asked = client.get(f"{client.api}/find?text={kept}&among=questions").json()
    assert asked["item"] == {"row": kept, "sample": kept}
    assert client.get(f"{client.api}/find?text=x&among=all").status_code == 422
    assert "nothing found" in client.get(f"{client.api}/find?text=%20x").json()["detail"]


def test_a_sample_is_found_by_its_id_and_by_a_text_in_it(make_run, tmp_path):
    names = ["a/Café.png", "b/cafe 2.png", "b/Café.png.png", "z/last.png"] * 30
    names = [f"{i}/{name}" if i > 3 else name for i, name in enumerate(names)]
    rows = "".join(f"c,{name},hay {'NEEDLE' if i in (5, 70) else ''} {i}\n"
                   for i, name in enumerate(names))  # fmt: skip
    (tmp_path / "t.csv").write_text(f"label,id,text\n{rows}", encoding="utf-8")
    run = make_run(n=120, data={"source": str(tmp_path / "t.csv")})
    table = pq.read_table(run.file("labels.parquet")).append_column("id", pa.array(names))
    pq.write_table(table, run.file("labels.parquet"))
    text = run.file("config.toml").read_text().replace("[run]", '[run]\nkind = "correct"', 1)
    run.file("config.toml").write_text(text)
    desk = Desk.open(RunData.open(run), run.file(DATABASE))
    assert desk.search.find("A/CAFÉ.PNG").tolist() == [0]  # the whole name, not those with it
    assert desk.search.find("a/café.pn").tolist() == list(range(0, 120, 4))
    assert desk.search.find("needle").tolist() == [5, 70]
    assert desk.search.find("nowhere").tolist() == []
    assert desk.find("needle", "questions", -1) == {"item": {"row": 5, "sample": 5}, "found": 2}
    assert desk.find("needle", "questions", 5)["item"]["row"] == 70
    assert desk.find("needle", "questions", 70)["item"]["row"] == 5

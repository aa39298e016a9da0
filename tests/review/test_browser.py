"""The page in a real browser."""

import html
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.review import export, open_review
from adacorr.review.answers import agreement
from adacorr.review.server import DATABASE
from adacorr.review.store import ACCEPT, OTHER, REJECT, SKIP

pytestmark = pytest.mark.browser

PATIENCE = 120_000  # milliseconds: a busy machine starves a browser, and that is no failure

NAUGHTY = ["<img src=x onerror=alert(1)>", "two & three", "'quote\"", "four"]


@pytest.fixture
def visit(chromium):
    """Opens the page as a person; fails on a console error or a request to elsewhere."""
    contexts, problems = [], []

    def open_page(address, name="Ann", mode="changes", **options):
        origin = address.split("?")[0]
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on(
            "console", lambda line: line.type == "error" and problems.append(f"log: {line.text}")
        )
        page.on(
            "request",
            lambda request: request.url.startswith(origin) or problems.append(request.url),
        )
        enter(page, address, name, mode)
        settled(page)  # a key is not taken while the page loads
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def enter(page, address, name, mode="changes"):
    page.goto(f"{address}#{mode}")
    page.wait_for_selector("#name-dialog[open]")
    page.fill("#name", name)
    page.press("#name", "Enter")
    page.wait_for_selector("#name-dialog", state="hidden")


def where(page):
    return page.text_content("#where")


def settled(page):
    """Nothing is under way: a key pressed before would be ignored, and waited for in vain."""
    page.wait_for_function("() => !document.body.classList.contains('busy')")


def press(page, key):
    """A key, and the page has moved on to another change."""
    settled(page)
    before = where(page)
    page.keyboard.press(key)
    page.wait_for_function(
        "old => document.querySelector('#where').textContent !== old", arg=before
    )


def press_through(page):
    """A decision, whether or not the next sample appears."""
    before = where(page)
    page.keyboard.press("a")
    page.wait_for_function(
        "old => document.querySelector('#where').textContent !== old", arg=before
    )
    page.wait_for_timeout(200)


def test_one_person_from_first_to_export(make_run, serve_here, open_store, visit, tmp_path):
    run = make_run(class_names=NAUGHTY, data={"source": "digits"})
    page = visit(serve_here(run))
    page.wait_for_selector("#picture:not([hidden])")
    seen = []

    seen.append(where(page))
    press(page, "a")  # accept by keyboard
    seen.append(where(page))
    before = where(page)
    page.click("#reject")  # reject by mouse
    page.wait_for_function(
        "old => document.querySelector('#where').textContent !== old", arg=before
    )
    seen.append(where(page))
    press(page, "s")
    assert "2 of" in page.text_content("#counts")
    assert "1 skipped" in page.text_content("#counts")

    fourth = where(page)  # another class, by typing
    names = {page.text_content("#given"), page.text_content("#proposed")}
    wanted = next(name for name in NAUGHTY if name not in names)
    settled(page)
    page.keyboard.press("o")
    page.fill("#other-input", wanted[:3])
    page.keyboard.press("Enter")
    page.wait_for_function(
        "old => document.querySelector('#where').textContent !== old", arg=fourth
    )

    press(page, "a")
    undone = where(page)
    page.keyboard.press("a")
    page.wait_for_function(
        "old => document.querySelector('#where').textContent !== old", arg=undone
    )
    press(page, "u")
    assert where(page) == undone  # back on screen

    counts = page.text_content("#counts")
    page.reload()  # keeps the state, and the name
    page.wait_for_selector("#single:not([hidden])")
    page.wait_for_function(
        "text => document.querySelector('#counts').textContent === text", arg=counts
    )
    assert page.text_content("#who") == "Ann"
    assert where(page) == undone

    page.click("#export-open")
    page.check("input[value=keep]")
    with page.expect_download() as download:
        page.click("#export-parquet")
    download.value.save_as(tmp_path / "final.parquet")
    store = open_store(run)
    first, second, third = (store.flips.find(int(re.findall(r"\d+", s)[0])) for s in seen)
    assert store.state[[first, second, third]].tolist() == [ACCEPT, REJECT, SKIP]
    fourth_flip = store.flips.find(int(re.findall(r"\d+", fourth)[0]))
    assert store.state[fourth_flip] == OTHER
    assert NAUGHTY[store.label[fourth_flip]] == wanted
    data, _ = open_review(run)
    ours = tmp_path / "ours.parquet"
    export(data, store, ours, "keep")
    assert pq.read_table(ours).equals(pq.read_table(tmp_path / "final.parquet"))


def test_two_browsers_at_once(make_run, serve_here, open_store, visit):
    run = make_run()
    address = serve_here(run)
    ann, bob = visit(address, "Ann"), visit(address, "Bob")
    seen = {"Ann": [], "Bob": []}
    for _ in range(6):
        for page, name in ((ann, "Ann"), (bob, "Bob")):
            seen[name].append(where(page))
            press(page, "a")
    assert len(set(seen["Ann"] + seen["Bob"])) == 12  # nobody saw the other's
    store = open_store(run)
    assert store.counts_by_reviewer() == {"Ann": 6, "Bob": 6}
    bob.wait_for_function("() => document.querySelector('#people').textContent.includes('Ann: 6')")
    assert "12 of" in bob.text_content("#counts")
    ann.keyboard.press("u")  # takes back Ann's own last one, not Bob's
    ann.wait_for_function("() => document.querySelector('#people').textContent.includes('Ann: 5')")
    assert open_store(run).counts_by_reviewer() == {"Bob": 6, "Ann": 5}


def test_names_are_shown_as_text(make_run, serve_here, visit):
    page = visit(serve_here(make_run(class_names=NAUGHTY)), name="<b>Ann</b>")
    shown = page.text_content("#given") + page.text_content("#proposed")
    assert any(name in shown for name in NAUGHTY)
    assert page.locator("main img:not(#picture)").count() == 0
    assert page.text_content("#who") == "<b>Ann</b>"
    page.keyboard.press("o")
    assert NAUGHTY[0] in page.text_content("#other-list")
    page.wait_for_selector("#note:not([hidden])")
    assert "not shown" in page.text_content("#note")


def test_grid_audit_and_filter(make_run, serve_here, open_store, visit):
    run = make_run(data={"source": "digits"})
    page = visit(serve_here(run))
    page.keyboard.press("g")
    page.wait_for_selector(".card img")
    page.click(".card >> nth=0")
    page.click(".card >> nth=2")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.text_content("#grid-reject [data-count]") == "3"
    page.keyboard.press("r")
    page.wait_for_function("() => document.querySelector('#counts').textContent.startsWith('3 of')")
    assert (open_store(run).state == REJECT).sum() == 3

    page.keyboard.press("g")
    page.click("#audit-start")
    settled(page)  # the change shown before may be the first of the random order too
    assert page.locator("#pair").is_disabled()
    store = open_store(run)
    order = store.audit_order()
    # The random order may begin with one of the three that the grid has just decided.
    first = int(store.flips.index[order[store.state[order] == 0][0]])
    page.wait_for_function(
        "n => document.querySelector('#where').textContent === `Index ${n}`", arg=first
    )
    press(page, "a")
    page.wait_for_function("() => document.querySelector('#limit').textContent.startsWith('≤')")
    assert "95% confidence" in page.text_content("#audit-text")

    page.select_option("#order", "certain")
    page.select_option("#pair", index=1)
    pair = [f"class {label}" for label in page.input_value("#pair").split(",")]
    page.wait_for_function(
        "pair => ['given', 'proposed'].every("
        "(id, i) => document.getElementById(id).textContent === pair[i])",
        arg=pair,
    )


def test_another_view_while_a_decision_is_on_its_way(make_run, serve_here, open_store, visit):
    """Slow answers, impatient reviewer: a decision meets the change that was on screen, and what
    is drawn in the end belongs to the order that was chosen last."""
    run = make_run(data={"source": "digits"})
    page = visit(serve_here(run))
    slow = re.compile("/api/[0-9a-f]+/(queue|decide|undo)")
    page.route(slow, lambda route: (page.wait_for_timeout(150), route.continue_()))
    decided = where(page)
    page.keyboard.press("a")
    page.select_option("#order", "certain")
    page.keyboard.press("g")
    page.keyboard.press("a")  # the change on screen is decided already: nothing happens
    page.keyboard.press("g")
    store = open_store(run)
    flips = store.flips
    number = int(re.findall(r"\d+", decided)[0])
    left = [flip for flip in range(len(flips)) if flips.index[flip] != number]
    best = max(left, key=lambda flip: (flips.certainty[flip], -flip))
    page.wait_for_function(
        "n => document.querySelector('#where').textContent === `Index ${n}`",
        arg=int(flips.index[best]),
    )
    page.wait_for_function("() => !document.body.classList.contains('busy')")
    assert page.locator("#grid").is_hidden()
    press(page, "r")
    page.unroute(slow)
    store.refresh()
    assert store.state[flips.find(number)] == ACCEPT
    assert store.state[best] == REJECT
    assert (store.state != 0).sum() == 2


def test_a_failed_load_is_tried_again(make_run, serve_here, chromium):
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    enter(page, serve_here(make_run()), "Ann")
    before = where(page)
    page.route("**/queue?*", lambda route: route.abort())
    page.select_option("#order", "certain")
    page.wait_for_selector("#banner:not([hidden])")
    page.unroute("**/queue?*")  # not before: a second try that succeeds hides the banner
    page.wait_for_function(
        "old => document.querySelector('#where').textContent !== old", arg=before
    )
    assert page.locator("#banner").is_hidden()
    context.close()


def test_enter_alone_chooses_no_class_and_keys_work_after_a_list(make_run, serve_here, visit):
    page = visit(serve_here(make_run()))
    page.keyboard.press("o")
    page.wait_for_selector("#other-dialog[open]")
    assert page.locator("#other-list [aria-selected=true]").count() == 0
    page.keyboard.press("Enter")
    assert page.locator("#other-dialog").is_visible()
    page.keyboard.press("Escape")
    page.wait_for_selector("#other-dialog", state="hidden")

    page.dispatch_event("#order", "pointerdown")  # a choice by mouse gives the keyboard back
    page.focus("#order")
    page.select_option("#order", "certain")
    press(page, "a")
    assert "1 of" in page.text_content("#counts")


def test_withheld_changes_are_marked(make_run, serve_here, visit):
    page = visit(serve_here(make_run(withhold=0.3)))
    page.wait_for_selector("#withheld:not([hidden])")
    assert "withheld" in where(page)
    page.select_option("#order", "audit")
    page.wait_for_function(
        "() => !document.querySelector('#where').textContent.includes('withheld')"
    )


def test_touch_on_a_phone(make_run, serve_here, open_store, visit):
    run = make_run(data={"source": "digits"})
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = visit(serve_here(run), **phone)
    before = where(page)
    page.tap("#accept")
    page.wait_for_function(
        "old => document.querySelector('#where').textContent !== old", arg=before
    )
    assert (open_store(run).state == ACCEPT).sum() == 1
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0
    for button in ("#accept", "#reject", "#skip"):
        assert page.locator(button).bounding_box()["height"] >= 44
    assert page.locator("#change").is_visible()


def test_a_restarted_server_is_said_and_loses_nothing(make_run, serve, open_store, chromium):
    run = make_run()
    server = serve(run)
    port = re.findall(r":(\d+)/", server.address)[0]
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    enter(page, server.address, "Ann")
    press(page, "a")
    server.kill()
    page.keyboard.press("a")
    page.wait_for_selector("#banner:not([hidden])")
    assert "No connection" in page.text_content("#banner")
    again = serve(run, port=port)
    page.keyboard.press("a")
    page.wait_for_selector("#banner button")
    page.goto(f"{again.address}#changes")
    page.wait_for_selector("#single:not([hidden])")
    page.wait_for_function("() => document.querySelector('#counts').textContent.startsWith('1 of')")
    press(page, "a")
    assert (open_store(run).state == ACCEPT).sum() == 2
    assert run.file(DATABASE).exists()
    context.close()


def test_no_decision_without_its_sample_on_screen(make_run, serve_here, open_store, visit):
    """A slow source: the picture before is gone at once, and keys wait for the right one."""
    run = make_run(data={"source": "digits"})
    page = visit(serve_here(run))
    page.route("**/fields/*", lambda route: None)  # never answered
    for _ in range(20):  # the next few are there already
        page.wait_for_timeout(300)
        if "busy" in (page.get_attribute("body", "class") or ""):
            break
        press_through(page)
    page.wait_for_function("() => document.body.classList.contains('busy')")
    assert page.locator("#picture").is_hidden()
    assert page.locator("#fields").is_hidden()
    assert "Loading" in page.text_content("#no-sample")
    saved = (open_store(run).state != 0).sum()
    for _ in range(10):
        page.keyboard.press("a")
    page.wait_for_function(
        "() => document.querySelector('#status').textContent.includes('Not dec')"
    )
    assert (open_store(run).state != 0).sum() == saved


def test_a_source_that_does_not_answer_is_named_and_tried_again(make_run, serve_here, chromium):
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    late = '{"detail": "expected the sample within 10 s, got no answer"}'
    page.route("**/fields/*", lambda route: route.fulfill(status=504, body=late))
    enter(page, serve_here(make_run(data={"source": "digits"})), "Ann")
    page.wait_for_function(
        "() => document.querySelector('#no-sample').textContent.includes('10 s')"
    )
    page.unroute("**/fields/*")
    page.wait_for_selector("#picture:not([hidden])")
    settled(page)
    assert page.locator("#no-sample").is_hidden()
    context.close()


def test_a_card_without_its_sample_cannot_be_chosen(make_run, serve_here, visit):
    page = visit(serve_here(make_run(data={"source": "digits"})))
    page.route("**/image/*", lambda route: None)
    page.keyboard.press("g")
    page.wait_for_selector(".card[disabled]")
    page.unroute("**/image/*")  # those held go on
    page.wait_for_selector(".card:not([disabled])")


def test_zero_flips(make_run, serve_here, visit):
    page = visit(serve_here(make_run(flips=False)))
    page.wait_for_selector("#done:not([hidden])")
    page.wait_for_function(
        "() => document.querySelector('#done-text').textContent.includes('proposes no change')"
    )


# -- questions -------------------------------------------------------------------------------------


def truth_of(page, run):
    """The right class of the row that is asked about."""
    index = int(re.findall(r"\d+", page.text_content("#ask-where"))[0])
    return index, int(pq.read_table(run.file("labels.parquet"))["truth"][index].as_py())


def answer(page, key):
    settled(page)
    before = page.text_content("#ask-where")
    page.keyboard.press(key)
    page.wait_for_function(
        "old => document.querySelector('#ask-where').textContent !== old", arg=before
    )


def test_from_questions_to_applied_labels_and_certificate(
    make_run, serve_here, visit, tmp_path, open_answers
):
    run = make_run(n=400, class_names=NAUGHTY, data={"source": "digits"})
    page = visit(serve_here(run), mode="questions")
    page.wait_for_selector("#picture:not([hidden])")
    assert page.locator("#given").is_hidden()  # asked blind
    assert page.locator("#hint").is_hidden()
    said = {}
    for _ in range(12):
        settled(page)
        index, truth = truth_of(page, run)
        said[index] = truth
        answer(page, str(truth + 1))
    settled(page)
    index, _ = truth_of(page, run)
    answer(page, "x")  # cannot tell
    unsure = index
    index, truth = truth_of(page, run)
    answer(page, str((truth + 1) % 4 + 1))  # a slip, taken back
    settled(page)
    page.keyboard.press("u")
    page.wait_for_function(
        "n => document.querySelector('#ask-where').textContent === `Index ${n}`", arg=index
    )
    page.keyboard.press("h")  # with the labels shown, it is said so
    page.wait_for_selector("#hint-bars li")
    page.keyboard.press("n")
    page.keyboard.type("blurred")
    page.keyboard.press("Enter")
    said[index] = truth
    answer(page, str(truth + 1))
    page.wait_for_function("() => document.querySelector('#outlook-age').hidden")
    assert "1 cannot tell" in page.text_content("#answer-count")
    assert "1 with the labels shown" in page.text_content("#answer-count")
    assert "With 10 more" in page.text_content("#outlook-more")
    page.click("#apply")
    page.wait_for_selector("#applied-dialog[open]")
    sentence = page.text_content("#applied-text")
    with page.expect_download() as download:
        page.click("#applied-labels")
    download.value.save_as(tmp_path / "labels.parquet")
    with page.expect_download() as download:
        page.click("#applied-certificate")
    download.value.save_as(tmp_path / "certificate.html")

    log = open_answers(run).standing()
    settled_rows = {one.row: one.label for one in log}
    assert settled_rows == {**said, unsure: None}
    assert [one.note for one in log if one.note] == ["blurred"]
    assert sum(not one.blind for one in log) == 1
    table = pq.read_table(tmp_path / "labels.parquet").to_pydict()
    for row, label in said.items():
        assert table["adacorr_label"][row] == run.class_names()[label]
        assert table["adacorr_decided_by"][row] == "answers"
    assert len(table["adacorr_label"]) == 400
    certificate = json.loads((run.path / "certificate.json").read_text())
    assert certificate["sentence"].lower() in sentence.lower()
    assert certificate["certificate"]["answers"] == len(said) + 1
    by_ann = certificate["answers_by"]["Ann"]
    assert by_ann.startswith(f"{len(log)}, ")
    assert by_ann.endswith("1 with the given label and the model's view shown")
    shown = (tmp_path / "certificate.html").read_text()
    assert shown == (run.path / "certificate.html").read_text()
    limit = certificate["certificate"]["wrong_after"]
    told = (certificate["data"]["fingerprint"], certificate["rule"], f"at most {limit:.2%}")
    assert all(text in shown for text in (*told, "Answers by Ann", html.escape(by_ann)))

    page.click("#applied-close")
    page.click("#rest")  # the doubtful ones, one by one
    page.wait_for_selector("#accept:not([hidden])")
    assert page.input_value("#order") == "rest"
    settled(page)
    doubted = int(re.findall(r"\d+", where(page))[0])
    assert doubted not in said
    page.keyboard.press("n")
    page.keyboard.type("hard to say")
    page.keyboard.press("Enter")
    press(page, "a")
    store = open_review(run)[1]
    assert [(row, note) for row, _, note in store.notes()] == [(doubted, "hard to say")]
    page.reload()
    page.wait_for_selector("#accept:not([hidden])")  # the mode is kept


def test_a_question_is_found_by_its_index(make_run, serve_here, visit, open_answers):
    run = make_run(data={"source": "digits"})
    page = visit(serve_here(run), mode="questions")
    page.fill("#find", "123")
    page.press("#find", "Enter")
    page.wait_for_function("() => document.querySelector('#ask-where').textContent === 'Index 123'")
    page.wait_for_selector("#picture:not([hidden])")
    assert page.locator("#given").is_hidden()
    answer(page, "2")
    assert [(one.row, one.label) for one in open_answers(run).standing()] == [(123, 1)]


def test_questions_with_many_classes_are_answered_by_search(
    make_run, serve_here, visit, open_answers
):
    run = make_run(k=30, n=600, class_names=[f"kind {c:02}" for c in range(30)])
    page = visit(serve_here(run), mode="questions")
    assert page.locator("#class-keys").is_hidden()
    before = page.text_content("#ask-where")
    page.keyboard.press("Enter")
    page.fill("#other-input", "kind 07")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "old => document.querySelector('#ask-where').textContent !== old", arg=before
    )
    assert [one.label for one in open_answers(run).standing()] == [7]


def test_two_people_are_asked_different_rows_and_some_again(
    make_run, serve_here, visit, open_answers
):
    run = make_run(n=400)
    address = serve_here(run)
    ann, bob = visit(address, "Ann", "questions"), visit(address, "Bob", "questions")
    for _ in range(10):
        for page in (ann, bob):
            settled(page)
            _, truth = truth_of(page, run)
            answer(page, str(truth + 1))
    found = agreement(open_answers(run).standing())
    assert found.rows == 2
    assert found.same == 2
    ann.wait_for_function(
        "() => document.querySelector('#agreement').textContent.includes('alike (100%)')"
    )


def test_a_kill_loses_no_confirmed_answer(make_run, serve, chromium, open_answers):
    run = make_run(n=400)
    server = serve(run)
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    enter(page, server.address, "Ann", "questions")
    for _ in range(3):
        answer(page, "1")
    server.kill()
    assert len(open_answers(run).standing()) == 3
    context.close()


def test_questions_on_a_phone(make_run, serve_here, visit):
    run = make_run(data={"source": "digits"})
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = visit(serve_here(run), mode="questions", **phone)
    before = page.text_content("#ask-where")
    page.tap(".class-key >> nth=1")
    page.wait_for_function(
        "old => document.querySelector('#ask-where').textContent !== old", arg=before
    )
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0
    for button in (".class-key >> nth=1", "#cannot-tell"):
        assert page.locator(button).bounding_box()["height"] >= 40


def test_suspects_are_reviewed_where_nothing_was_changed(make_run, serve_here, open_store, visit):
    run = make_run()
    table = pq.read_table(run.file("labels.parquet"))
    kept = table.set_column(2, "corrected", table["given"]).set_column(
        4, "flipped", pa.array([False] * len(table))
    )
    pq.write_table(kept, run.file("labels.parquet"))
    page = visit(serve_here(run))
    assert page.input_value("#order") == "suspicious"
    assert "suspect" in where(page)
    store = open_store(run)
    first = int(re.findall(r"\d+", where(page))[0])
    worst = store.flips.index[store.flips.suspicion.argmax()]
    assert first == worst
    press(page, "a")
    press(page, "r")
    page.wait_for_function("() => document.querySelector('#counts').textContent.includes('2 of')")
    store.refresh()
    assert store.state[store.flips.find(first)] == ACCEPT


def test_neighbours_and_examples_are_beside_a_change(make_run, serve_here, visit):
    run = make_run(data={"source": "digits"})
    features = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    np.save(run.path / "features.npy", features)
    page = visit(serve_here(run))
    page.wait_for_selector("#beside img")
    assert page.locator("#beside section").count() == 3
    assert page.locator("#beside section >> nth=0 >> li").count() == 6
    given = page.text_content("#given")
    shown = page.locator("#beside section >> nth=1 >> .mini").all_text_contents()
    assert shown == [given] * 3


def test_go_to_an_index_and_cannot_tell(make_run, serve_here, open_store, open_answers, visit):
    run = make_run()
    page = visit(serve_here(run))
    store = open_store(run)
    number = int(store.flips.index[len(store.flips) // 2])
    page.fill("#find", str(number))
    page.press("#find", "Enter")
    page.wait_for_function(
        "n => document.querySelector('#where').textContent.startsWith(`Index ${n}`)", arg=number
    )
    press(page, "x")
    store.refresh()
    assert store.state[store.flips.find(number)] == SKIP
    assert [(one.row, one.label, one.blind) for one in open_answers(run).standing()] == [
        (number, None, False)
    ]

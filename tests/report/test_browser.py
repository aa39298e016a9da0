"""The report in a real browser, from disk."""

import pytest

from adacorr.report import write_report

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_from_disk_without_a_request_or_an_error(make_run, chromium, scheme):
    names = ["<script>alert(1)</script>", "b", "c", "d"]
    address = write_report(
        make_run(class_names=names, epochs=4, data={"source": "digits"})
    ).as_uri()
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page = context.new_page()
    requests, problems = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("console", lambda line: problems.append(line.text))
    page.goto(address, wait_until="networkidle")
    assert [url for url in requests if not url.startswith("data:")] == [address]
    assert problems == []
    assert page.evaluate("[...document.images].every(i => i.naturalWidth > 0)")
    assert page.locator("svg[role=img]").count() >= 5
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0  # wide tables scroll inside their own box
    ink, paper = page.evaluate(
        "['color', 'backgroundColor'].map(p => getComputedStyle(document.body)[p])"
    )
    assert (brightness(paper) < brightness(ink)) == (scheme == "dark")
    assert page.evaluate("getComputedStyle(document.querySelector('svg text')).fill") == ink
    context.close()


def brightness(colour: str) -> int:
    return sum(int(part) for part in colour[4:-1].split(","))

"""The certificate of a run as files to keep or send: JSON, and a page that needs no network."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from adacorr._version import __version__
from adacorr.core.certify import Certificate
from adacorr.files import atomic
from adacorr.runs.reader import RunData, clean_text

JSON, PAGE = "certificate.json", "certificate.html"


def facts(
    data: RunData,
    certificate: Certificate,
    rule: str,
    answers_by: dict[str, Any],
    seed: int,
    agreement: Sequence[str] = (),
) -> dict[str, Any]:
    """All that the certificate says, as plain values.

    Parameters
    ----------
    data : the run whose labels it is about.
    certificate : what the answers prove.
    rule : what was applied, in words.
    answers_by : who answered, how often and when, as far as it is known.
    seed : of the order in which rows were asked.
    agreement : sentences about rows that were answered more than once.
    """
    return {
        "sentence": certificate.sentence,
        "basis": certificate.basis,
        "rule": rule,
        "answers_by": answers_by,
        "agreement": list(agreement),
        "seed": seed,
        "data": {
            "source": data.section("data").get("source"),
            "rows": data.n,
            "classes": list(data.class_names),
            "fingerprint": fingerprint(data),
        },
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "adacorr": __version__,
        "certificate": certificate.to_dict(),
    }


def rule_of(data: RunData, note: str) -> str:
    """What was applied, in words: what the rule says of itself, else its threshold."""
    return note or f"likelihood ratio below {data.section('correct').get('delta')}"


def fingerprint(data: RunData) -> str:
    """SHA-256 of class names, row numbers and given labels: what the certificate is about."""
    digest = hashlib.sha256("\n".join(data.class_names).encode())
    for batch in data.batches():
        digest.update(np.ascontiguousarray(batch.index, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(batch.given, dtype="<i8").tobytes())
    return digest.hexdigest()


def write_certificate(folder: Path, told: dict[str, Any]) -> list[Path]:
    """Write both files into a run; they replace those of an earlier certificate."""
    pages = {JSON: json.dumps(told, indent=1, ensure_ascii=False) + "\n", PAGE: page(told)}
    for name, text in pages.items():
        with atomic(folder / name) as temporary:
            temporary.write_text(text, "utf-8")
    return [folder / name for name in pages]


def page(told: dict[str, Any]) -> str:
    """The certificate as HTML."""
    return _PAGE.format(
        sentence=_text(told["sentence"][:1].upper() + told["sentence"][1:]),
        basis=_text(told["basis"][:1].upper() + told["basis"][1:]),
        rows="\n".join(_row(name, value) for name, value in _lines(told)),
        strata="\n".join(_stratum(*line) for line in _strata(told["certificate"])),
        written=_text(f"{told['written']}, adacorr {told['adacorr']}"),
    )


def _lines(told: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    data, found = told["data"], told["certificate"]
    low, high = found["wrong_before"]
    yield "Data", data["source"] or "not recorded"
    yield "Rows and classes", f"{data['rows']:,} rows, {len(data['classes']):,} classes"
    yield "Fingerprint (SHA-256)", data["fingerprint"]
    yield "Rule", told["rule"]
    yield "Wrong labels as given", f"{low:.2%} to {high:.2%}"
    yield "Wrong labels after the correction", f"at most {found['wrong_after']:.2%}"
    if found["wrong_changes"] is not None:
        yield "Wrong changes", f"at most {found['wrong_changes']:.2%} of {found['changes']:,}"
    yield "Labels verified by people", f"{found['verified']:,}, {found['fixed']:,} of them wrong"
    yield "Confidence", f"{found['confidence']:.0%} for each statement, whenever one stops"
    yield "Rules to choose from", f"{found['family_size']}, settled before the first answer"
    for name, said in told["answers_by"].items():
        yield f"Answers by {name}", said
    for line in told["agreement"]:
        yield "Answered more than once", line
    yield "Seed of the order", told["seed"]


def _strata(found: dict[str, Any]) -> Iterable[tuple[str, dict[str, float]]]:
    names = ("the model disagrees with the label", "the model agrees with the label")
    for what, counts in (("all rows", "all_rows"), ("changed rows", "changed_rows")):
        for name, part in zip(names, found[counts]["parts"], strict=True):
            yield f"{what}, {name}", part


def _stratum(name: str, part: dict[str, float]) -> str:
    cells = "".join(f"<td>{int(part[key]):,}</td>" for key in ("size", "seen", "marked"))
    return f"<tr><th>{_text(name)}</th>{cells}</tr>"


def _row(name: str, value: Any) -> str:
    return f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>"


def _text(value: Any) -> str:
    return html.escape(clean_text(value, 600))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Certificate of labels</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; }}
.sentence {{ font-size: 1.15rem; }}
table {{ border-collapse: collapse; width: 100%; margin: 1rem 0; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent);
  overflow-wrap: anywhere; }}
th {{ font-weight: 600; width: 45%; }}
small {{ opacity: .75; }}
</style>
<h1>Certificate of labels</h1>
<p class="sentence">{sentence}.</p>
<p>{basis}.</p>
<table>
{rows}
</table>
<h2>The sample behind the limits</h2>
<table>
<tr><th>Rows</th><td>in all</td><td>looked at</td><td>wrong after the correction</td></tr>
{strata}
</table>
<p><small>The premise: an answer of a person is the truth; "cannot tell" counts as wrong. Nothing is
assumed of the model or of the noise. Rows were asked in a random order that the seed fixes; limits
are confidence sequences for sampling without replacement. Written {written}.</small></p>
</html>
"""

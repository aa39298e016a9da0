"""The first screen: what to do now, what is off, and what is known of the labels as a whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from adacorr.core.validation import InputError
from adacorr.report.summary import Flip, RunSample, Summary
from adacorr.runs.reader import RunData, clean_text
from adacorr.runs.words import between, share

MANY_CHANGES = 0.25
"""A larger share of changed labels is said aloud: right or not, it deserves a look."""
POOR_MODEL = 0.5
"""Of the way from naming the largest class to agreeing with every given label."""
DOUBTFUL = 0.05
FEW_SUSPECTS = 6
ANSWERS = 50
"""So many choose a reading; see docs/answers-results.md."""
SEEN = 0.999
SEEN_ROWS = 200
"""Agreement with more of the labels, of so many rows, is rare among held-out predictions."""
_MAX_CERTIFICATE = 1 << 20
_SENTENCE = 600


@dataclass(frozen=True)
class Told:
    """What a run says of itself, checked and safe to print."""

    warnings: tuple[str, ...]
    readings: tuple[str, ...]
    interval: tuple[float, float] | None
    issues: tuple[str, ...]
    certificate: tuple[str, str] | None  # sentence, basis
    proved: str | None  # of the certificate, the limit on wrong labels
    answered: bool  # people's answers chose the rule of this run

    @property
    def open(self) -> bool:
        """Two explanations fit, and the run could not choose."""
        return len(self.readings) > 1 and not self.answered


def read_found(data: RunData) -> Told:
    """Of the run's configuration and its certificate, if any."""
    ends = data.interval("result", "noise_rate_interval")
    return Told(
        warnings=_sentences(data, "result", "warnings"),
        readings=_sentences(data, "result", "readings"),
        interval=ends if ends and _is_share(ends[0]) and _is_share(ends[1]) else None,
        issues=_sentences(data, "issues", "sentences"),
        certificate=_certificate(data),
        proved=_proved(data),
        answered=bool(data.number("result", "answers")),
    )


def next_step(data: RunData, summary: Summary, found: Told, sample: RunSample | None) -> str:
    """One plain sentence: what to do now."""
    many = summary.n_flipped != 1
    changes = f"{summary.n_flipped:,} changed label{'s' if many else ''}"
    if found.warnings or memorised(data, sample):
        return "Check the input first: something seems to be wrong with it."
    if found.certificate:
        return "Take the labels that the answers chose, if the certificate's limits are low enough."
    if found.open and poor_model(sample):
        return "Get a better model first: this one agrees too little with the labels to judge them."
    if found.open:
        return f"Answer about {ANSWERS} questions in the browser: the labels alone do not tell."
    if summary.changed_share > MANY_CHANGES:
        return f"Do not take over the {changes} unseen: look at a random sample of them first."
    if summary.n_flipped:
        return f"Look through the labels below; if you agree, take over the {changes}."
    if summary.n_withheld:
        return f"Nothing was changed; {summary.n_withheld:,} labels wait for a person to decide."
    return "No label was changed: look at the most suspicious ones below, if there are any."


def worth_a_look(suspects: tuple[Flip, ...], untold: bool) -> tuple[Flip, ...]:
    """The suspects that a reader should see: all where no chance is known, else the likelier ones.

    A label that is more than 95% likely right is none; a few are shown all the same, so that a
    reader sees what the most suspicious of right labels look like.
    """
    if untold:
        return suspects
    likely = [s for s in suspects if s.suspicion is None or s.suspicion >= DOUBTFUL]
    return suspects[: max(len(likely), FEW_SUSPECTS)]


def alarms(data: RunData, summary: Summary, found: Told, sample: RunSample | None) -> list[str]:
    """What a reader must know before any number of the page, a sentence or two each."""
    said = [_sentence(text) for text in found.warnings]
    if found.open and not found.certificate:
        said.append(
            "Two readings fit these labels equally well, and the labels alone cannot tell which is "
            f"true. Either {found.readings[0]}; or {found.readings[1]}."
        )
    if summary.changed_share > MANY_CHANGES:
        said.append(
            f"{share(summary.changed_share)} of all labels were changed. That is right only if so "
            "many were wrong; a wrong model or a wrong order of the classes looks the same."
        )
    if found.warnings:
        return said
    first = [line for line in (memorised(data, sample), poor_model(sample)) if line]
    return [*first, *said]


def poor_model(sample: RunSample | None) -> str | None:
    """A model that agrees with the labels little better than naming the largest class does."""
    if sample is None:
        return None
    agrees = float((sample.pred_probs.argmax(axis=1) == sample.labels).mean())
    largest = float(np.bincount(sample.labels).max() / len(sample.labels))
    if largest == 1 or (agrees - largest) / (1 - largest) >= POOR_MODEL:
        return None
    return (
        f"The model's first choice is the given label in {share(agrees)} of the rows; always "
        f"naming the largest class would be it in {share(largest)}. Either the model is poor or "
        "much of the labels is wrong: do not trust single changes unseen."
    )


def memorised(data: RunData, sample: RunSample | None) -> str | None:
    """A user's own model that opposes next to no label, though it claims to be wrong more often."""
    if data.kind != "correct" or sample is None or len(sample.labels) < SEEN_ROWS:
        return None
    agrees = float((sample.pred_probs.argmax(axis=1) == sample.labels).mean())
    expected = float(sample.pred_probs.max(axis=1).mean())
    if agrees < SEEN or agrees - expected < 1 - SEEN:
        return None
    return (
        f"The model's first choice is the given label in {share(agrees)} of the rows, where its "
        f"own probabilities lead to expect {share(expected)}. Either all labels are right and the "
        "model is too modest, or it was trained on these very labels: then it has learnt the wrong "
        "ones too, and no number below means anything; use predictions for rows that it has not "
        "seen."
    )


def known_wrong(found: Told, estimate: float | None, basis: str) -> tuple[str, str]:
    """The share of wrong labels: (what is printed large, what is printed below it)."""
    if found.interval is None:
        return ("–" if estimate is None else share(estimate)), basis
    best = "" if estimate is None else f"; best estimate {share(estimate)}"
    return between(*found.interval), f"what the labels and the model do not exclude{best}"


def _certificate(data: RunData) -> tuple[str, str] | None:
    """The sentence that answers have proved, and on what it rests."""
    content = _proof(data)
    if content is None:
        return None
    try:
        said, basis = content["sentence"], content["basis"]
    except (KeyError, TypeError) as error:
        path = data.run.file("certificate.json")
        raise InputError(f"{path}: expected a certificate, got {error}") from error
    return _sentence(clean_text(said, _SENTENCE))[:-1], clean_text(basis, _SENTENCE)


def _proved(data: RunData) -> str | None:
    """At most which share of the labels is wrong in the end."""
    numbers = (_proof(data) or {}).get("certificate")
    limit = numbers.get("wrong_after") if isinstance(numbers, dict) else None
    return share(limit) if isinstance(limit, float | int) and _is_share(limit) else None


def _proof(data: RunData) -> dict[str, Any] | None:
    path = data.run.file("certificate.json")
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_CERTIFICATE:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected a certificate, got {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a certificate, got {type(content).__name__}")
    return content


def _sentences(data: RunData, section: str, key: str) -> tuple[str, ...]:
    found = data.section(section).get(key)
    if not isinstance(found, list):
        return ()
    return tuple(clean_text(text, _SENTENCE) for text in found[:20] if isinstance(text, str))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _is_share(value: object) -> bool:
    return isinstance(value, float | int) and 0 <= value <= 1

"""Questions on the page: a label asked for blind, what the answers do, and the labels applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from adacorr.core.answers import Answers
from adacorr.core.certify import Certificate
from adacorr.core.validation import InputError
from adacorr.correction.rerun import RunInputs
from adacorr.report.certificate import PAGE, facts, rule_of, write_certificate
from adacorr.review.answers import AnswerLog, Said, agreement_of, settled, verified
from adacorr.review.export import APPLIED, write_applied
from adacorr.review.questions import Analyst, Outlook, Questions, outlook_of, plan
from adacorr.review.queue import Rows
from adacorr.review.store import Store
from adacorr.runs.reader import RunData, clean_text

CERTIFICATE = PAGE  # what a person opens; the same as JSON lies beside it
SEED = 0  # of the order of the questions
APPLY_SECONDS = 600.0
MORE = 10


@dataclass
class Interview:
    """The questions of one run, the answers, and what follows from them."""

    data: RunData
    store: Store
    rows: Rows
    questions: Questions = field(init=False)
    log: AnswerLog = field(init=False)
    analyst: Analyst = field(init=False)

    def __post_init__(self) -> None:
        self.questions = Questions(plan(self.rows.given, self.data.pred_probs))
        self.log = AnswerLog(self.store, self.data)
        self.analyst = Analyst(self.outlook, self.verified)

    @cached_property
    def inputs(self) -> RunInputs:
        """Read when they are needed first, which is not on the way to the first question."""
        return RunInputs.of(self.data)

    def outlook(self, answers: Answers) -> Outlook:
        return outlook_of(self.inputs, answers)

    def verified(self) -> dict[int, int]:
        """Row -> class index, -1 where nobody could tell."""
        return verified(self.log)

    def ask(self, client: str, person: tuple[str, str], limit: int) -> list[dict[str, Any]]:
        """The next rows for a person; nothing of what the run says about them."""
        rows = self.questions.next(self.log.standing(), client, person, limit)
        return [self.question(row) for row in rows]

    def question(self, row: int) -> dict[str, Any]:
        return {"row": row, "sample": int(self.rows.index[row])}

    def answer(self, said: Said) -> None:
        self.log.add(said)
        self.analyst.tell()

    def undo(self, reviewer: str, author: str) -> int | None:
        taken = self.log.undo(reviewer, author)
        if taken is None:
            return None
        self.analyst.tell()
        return taken.row

    def status(self) -> dict[str, Any]:
        """What would be done now, in sentences, and how far the answers agree."""
        if not self.analyst.asked:  # nothing is fitted before somebody looks
            self.analyst.tell()
        said, latest = self.log.standing(), self.analyst.latest
        found: dict[str, Any] = {
            "answers": len({one.row for one in said}),
            "shown": sum(not one.blind for one in said),
            "cannot_tell": sum(label < 0 for label in settled(said).values()),
            "agreement": agreement_of(self.log),
            "up_to_date": self.analyst.up_to_date,
            "problem": self.analyst.problem and clean_text(self.analyst.problem, 300),
            "applied": self.data.run.file(APPLIED).is_file(),
            "outlook": None,
        }
        if latest is not None:
            changed = int((latest.labels != self.rows.given).sum())
            found["outlook"] = outlook(latest.certificate, changed)
        return found

    def apply(self) -> dict[str, Any]:
        """Write the final labels and the certificate into the run; what was written."""
        latest = self.analyst.wait(APPLY_SECONDS)
        if latest is None:
            reason = self.analyst.problem or f"none within {APPLY_SECONDS:g} s"
            raise InputError(f"apply: expected labels from all answers, got {reason}")
        run, certificate = self.data.run, latest.certificate
        path = run.file(APPLIED)
        write_applied(self.data, path, latest.labels, latest.answers)
        rule, people = rule_of(self.data, latest.note), self.log.people()
        told = facts(self.data, certificate, rule, people, SEED, agreement_of(self.log))
        told |= {"labels": path.name}
        write_certificate(run.path, told)
        return {
            "labels": path.name,
            "certificate": CERTIFICATE,
            "sentence": capital(told["sentence"]),
        }


def outlook(certificate: Certificate, changed: int) -> dict[str, Any]:
    """A certificate as the page shows it, and what ten more answers would bring."""
    more_changes, more_after = certificate.outlook(MORE)
    parts = [] if more_changes is None else [f"at most {more_changes:.1%} of the changes"]
    parts.append(f"at most {more_after:.1%} of all labels")
    low, high = certificate.wrong_before
    return {
        "sentence": capital(certificate.sentence),
        "basis": capital(certificate.basis),
        "more": f"With {MORE} more answers like these: {' and '.join(parts)} wrong.",
        "changed": changed,
        "wrong_changes": certificate.wrong_changes,
        "wrong_after": certificate.wrong_after,
        "wrong_before": [low, high],
        "counted": certificate.counted,
    }


def capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def final_file(interview: Interview) -> Path:
    path = interview.data.run.file(APPLIED)
    if not path.is_file():
        raise InputError("labels: expected applied ones, got none: apply the rule first")
    return path

"""``--verified``: where answers of people come from, and what the command says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adacorr.core.certify import Certificate
    from adacorr.correction.verified import Verified
    from adacorr.runs.directory import Run


def verified_by(path: Path | None, *, by_id: bool = False) -> Verified | None:
    """What people said; `by_id`: of a file with row numbers and ids the ids count."""
    from adacorr.correction.verified import read_verified

    if path is None:
        return None
    if path.is_dir():
        from adacorr.review import answers_of
        from adacorr.runs.directory import Run

        return answers_of(Run.open(path))
    return read_verified(path, by_id=by_id)


def keep_certificate(
    run: Run, certificate: Certificate | None, verified: Path | None, note: str, seed: int = 0
) -> None:
    """Write what the answers prove, if there were any, into the run, as JSON and as a page."""
    if certificate is None or verified is None:
        return
    from adacorr.report.certificate import facts, rule_of, write_certificate
    from adacorr.runs.reader import RunData

    data = RunData.open(run)
    people = {verified.name: f"{certificate.answers:,}, {written_at(verified)}"}
    write_certificate(run.path, facts(data, certificate, rule_of(data, note), people, seed))


def written_at(path: Path) -> str:
    """When a file of answers was written last: the file does not say who answered when."""
    from datetime import UTC, datetime

    if path.is_dir():
        return "on the review page of that run"
    return f"in a file of {datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%dT%H:%M} UTC"


def proved(certificate: Certificate | None) -> dict[str, Any] | None:
    """For a summary as JSON."""
    return None if certificate is None else certificate.to_dict()


def proof_lines(proof: dict[str, Any] | None) -> list[str]:
    """For a summary as text."""
    if proof is None:
        return []
    return [f"proved             {proof['sentence']}", f"                   ({proof['basis']})"]

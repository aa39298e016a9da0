"""``adacorr certify``: what answers prove of a run's labels, printed and written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacorr.cli.options import TEXT, Printing

if TYPE_CHECKING:
    from adacorr.core.answers import Answers
    from adacorr.runs.reader import RunData


def certify(
    run: Path,
    *,
    verified: Path | None = None,
    target: float | None = None,
    seed: int = 0,
    printing: Printing = TEXT,
) -> None:
    """Certify the labels of a run with the answers of people.

    The rule is chosen by the answers, as adacorr correct --verified does, on the run's labels and
    probabilities. The certificate goes into the run: certificate.json and certificate.html.

    Parameters
    ----------
    run
        A run directory, from `adacorr correct --run-dir`, `adacorr clean` or `adacorr fit`.
    verified
        Answers as a CSV or parquet file with columns row (or id) and label, or another run on the
        same data whose review page was used. Default: the answers given on the run's review page,
        and those of `adacorr import`.
    target
        Say how many further answers show that at most this share of all labels is wrong.
    seed
        The seed of adacorr ask.
    """
    from adacorr.core.validation import InputError, check_number
    from adacorr.correction.rerun import RunInputs
    from adacorr.report.certificate import facts, rule_of, write_certificate
    from adacorr.runs.directory import Run
    from adacorr.runs.reader import RunData

    if target is not None:
        check_number(target, "--target", above=0, below=1)
    data = RunData.open(Run.open(run))
    answers, people, agreed = (
        answers_from_file(data, verified) if verified else answers_of_run(data)
    )
    if not answers:
        raise InputError(
            f"{run}: expected answers given on the review page (or imported, or --verified FILE), "
            "got none"
        )
    result = RunInputs.of(data).correct(answers, seed)
    assert result.certificate is not None
    told = facts(data, result.certificate, rule_of(data, result.note), people, seed, agreed)
    more = None if target is None else result.certificate.more_answers(target)
    if target is not None:
        told |= {"target": target, "more_answers": more}
    written = [str(path) for path in write_certificate(run, told)]
    sentence = told["sentence"]
    lines = [f"{sentence[:1].upper()}{sentence[1:]}.", f"  ({told['basis']})"]
    if target is not None:
        lines.append(_about_target(target, more or 0))
    printing.result({**told, "files": written}, [*lines, f"wrote {', '.join(written)}"])


def _about_target(target: float, more: int) -> str:
    if more == 0:
        return f"At most {target:.1%} of all labels wrong: shown."
    return (
        f"At most {target:.1%} of all labels wrong: about {more:,} further answers, "
        "if they go on as before."
    )


def answers_from_file(data: RunData, path: Path) -> tuple[Answers, dict[str, Any], list[str]]:
    """Answers by the row's number in the source, or by its id."""
    from adacorr.cli.answers import verified_by, written_at
    from adacorr.labels import Codec

    said = verified_by(path)
    assert said is not None
    rows, ids = data.names_of_rows()
    codec = Codec.of_indices(data.run.class_names())
    answers = said.among(data.n, codec, rows=rows, ids=ids)
    return answers, {path.name: f"{len(answers):,}, {written_at(path)}"}, []


def answers_of_run(data: RunData) -> tuple[Answers, dict[str, Any], list[str]]:
    """What was answered and decided on the run's review page or imported, by whom and when."""
    from contextlib import closing

    from adacorr.review import open_review
    from adacorr.review.answers import (
        AnswerLog,
        agreement_of,
        as_answers,
        brought,
        brought_by,
        settled,
    )
    from adacorr.review.answers import verified as said
    from adacorr.review.server import DATABASE

    path, agreed = data.run.file(DATABASE), []
    if path.is_file():
        _, store = open_review(data.run)
        with closing(store):
            log = AnswerLog(store, data)
            answers, people, agreed = as_answers(said(log)), log.people(), agreement_of(log)
    else:
        came = brought(data)
        answers, people = as_answers(settled(came)), brought_by(data, came)
    return answers, people, agreed

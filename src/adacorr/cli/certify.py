"""``adacorr certify``: what answers prove of a run's labels, printed and written."""

from __future__ import annotations

import json as json_lib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adacorr.core.answers import Answers
    from adacorr.runs.reader import RunData


def certify(
    run: Path,
    *,
    verified: Path | None = None,
    target: float | None = None,
    seed: int = 0,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Certify the labels of a run with the answers of people.

    The rule is chosen by the answers, as adacorr correct --verified does, on the run's labels and
    probabilities. The certificate goes into the run: certificate.json and certificate.html.

    Parameters
    ----------
    run
        A run directory, from `adacorr correct --run-dir`, `adacorr clean` or `adacorr fit`.
    verified
        Answers as a CSV or parquet file with columns row (or id) and label. Default: the answers
        given on the run's review page.
    target
        Say how many further answers show that at most this share of all labels is wrong.
    seed
        The seed of adacorr ask.
    json
        Print one JSON object instead of text.
    quiet
        Print nothing but errors.
    """
    from adacorr.core.validation import check_number
    from adacorr.correction.arrays import correct
    from adacorr.report.certificate import facts, write_certificate
    from adacorr.runs.directory import Run
    from adacorr.runs.reader import RunData

    if target is not None:
        check_number(target, "--target", above=0, below=1)
    data = RunData.open(Run.open(run))
    given, pred_probs = _inputs(data)
    answers, people = _from_file(data, verified) if verified else _from_review(data)
    delta = data.section("correct").get("delta", "auto")
    result = correct(given, pred_probs, delta, verified=answers, rng=seed)
    assert result.certificate is not None
    rule = result.note or f"likelihood ratio below {delta}"
    told = facts(data, result.certificate, rule, people, seed)
    more = None if target is None else result.certificate.more_answers(target)
    if target is not None:
        told |= {"target": target, "more_answers": more}
    written = [str(path) for path in write_certificate(run, told)]
    if json:
        print(json_lib.dumps({**told, "files": written}, ensure_ascii=False))
    elif not quiet:
        sentence = told["sentence"]
        lines = [f"{sentence[:1].upper()}{sentence[1:]}.", f"  ({told['basis']})"]
        if target is not None:
            lines.append(_about_target(target, more or 0))
        print("\n".join([*lines, f"wrote {', '.join(written)}"]))


def _about_target(target: float, more: int) -> str:
    if more == 0:
        return f"At most {target:.1%} of all labels wrong: shown."
    return (
        f"At most {target:.1%} of all labels wrong: about {more:,} further answers, "
        "if they go on as before."
    )


def _inputs(data: RunData) -> tuple[Any, Any]:
    import numpy as np

    from adacorr.core.validation import InputError

    if data.pred_probs is None:
        where = data.run.file("pred_probs.npy")
        raise InputError(f"{where}: expected probabilities of the run, got none")
    return np.concatenate([batch.given for batch in data.batches()]), np.asarray(data.pred_probs)


def _from_file(data: RunData, path: Path) -> tuple[Answers, dict[str, Any]]:
    """Answers by the row's number in the source, or by its id."""
    from adacorr.core.answers import class_codes, encode_pairs
    from adacorr.correction.verified import read_verified
    from adacorr.labels import Codec

    said = read_verified(path)
    places = _places(data, by_id=said.id_column is not None)
    codec = Codec.of_indices(data.class_names)
    pairs = [
        (places.get(str(key).strip(), key), label)
        for key, label in zip(said.keys, said.labels, strict=True)
    ]
    answers = encode_pairs(pairs, data.n, class_codes(codec))
    return answers, {path.name: f"{len(answers):,}"}


def _places(data: RunData, *, by_id: bool) -> dict[str, int]:
    """Where in the run a row of the source is."""
    import pyarrow.parquet as pq

    name = "id" if by_id and "id" in data.columns else "index"
    column = pq.read_table(data.run.file("labels.parquet"), columns=[name])[name]
    return {str(value): place for place, value in enumerate(column.to_pylist())}


def _from_review(data: RunData) -> tuple[Answers, dict[str, Any]]:
    """The answers and decisions given on the run's review page, and who gave them when."""
    from contextlib import closing

    from adacorr.core.validation import InputError
    from adacorr.review.server import DATABASE

    path = data.run.file(DATABASE)
    wanted = f"{path}: expected answers given on the review page (or --verified FILE), got none"
    if not path.is_file():
        raise InputError(wanted)
    from adacorr.review.answers import as_answers
    from adacorr.review.panel import Panel
    from adacorr.review.queue import load_flips, load_rows
    from adacorr.review.store import Store

    with closing(Store(path, load_flips(data), data.n_classes)) as store:
        answers = as_answers(Panel(data, store, load_rows(data)).verified())
        with store.read() as db:
            lines = db.execute(
                "SELECT reviewer, COUNT(*), MIN(at), MAX(at) FROM answer GROUP BY reviewer"
            ).fetchall()
    if not answers:
        raise InputError(wanted)
    people = {str(who): f"{n:,}, {first[:16]} to {last[:16]} UTC" for who, n, first, last in lines}
    return answers, people

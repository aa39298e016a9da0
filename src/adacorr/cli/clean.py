"""``adacorr clean``: photos, texts or a table in, clean labels out."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from adacorr.cli.options import LOCAL, TEXT, EngineOptions, Printing
from adacorr.core.validation import InputError

if TYPE_CHECKING:
    from adacorr.cleaning import Cleaned

SHOWN = 5
WIDTH = 60  # characters of a sample in the summary


def clean(
    data: str | None = None,
    /,
    *,
    label_column: str | None = None,
    text_column: str | None = None,
    image_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    ignore_columns: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = (),
    encoder: str | None = None,
    verified: Path | None = None,
    folds: int = 5,
    repeats: int | None = None,
    seed: int = 0,
    strict: bool = False,
    where: EngineOptions = LOCAL,
    run_dir: Path | None = None,
    resume: Path | None = None,
    printing: Printing = TEXT,
) -> None:
    """Find and correct wrong labels of photos, texts or a table.

    Features come from a pretrained encoder (images, text) or from the columns (tables); several
    kinds of model that did not see the label of a row predict it; the rule of `adacorr correct`
    decides. Copies, outliers and unreadable rows are listed too.

    Parameters
    ----------
    data
        A folder with one subfolder of images per class, a .csv or .parquet table, an .npz, or a
        named dataset.
    label_column
        The table's column of labels; default: label, labels, target, class or y.
    text_column
        The column of text to judge by; default: found out.
    image_column
        The column of image paths or bytes to judge by; default: found out.
    group_column
        Rows of one group are never on both sides of a fold; default: copies stay together.
    split_column
        Which rows are for training and which for testing; copies across are reported.
    ignore_columns
        Columns that must not be used.
    encoder
        Images: efficientnet-lite0 (default), a transformers model by name or folder, or
        package.module:factory. Text: tfidf (default) or a transformers model.
    verified
        Answers of people: a CSV or parquet file with columns row (or id) and label, or a run whose
        review page was used. They choose the rule, and their rows keep their label.
    folds
        Parts of the data; each is judged by models of the others.
    repeats
        Splits to average over; default: 3 below 2,000 rows, 2 below 8,000, else 1.
    seed
        Of the splits.
    strict
        Stop at a row that is empty or cannot be read, instead of marking it.
    run_dir
        Where to write; default: the first free runs/DATA-clean-NUMBER.
    resume
        Go on with a run of `clean` that was stopped, with its own settings; what is done stays.
        An encoder other than adacorr's own is to be named once more with --encoder: a run does not
        choose which code runs.
    """
    from adacorr.cleaning.folds import Folds
    from adacorr.cleaning.samples import Columns
    from adacorr.cli.outputs import free_run_dir

    choice = Columns(
        label_column, text_column, image_column, group_column, split_column, ignore_columns
    )
    how = Folds(folds, repeats, seed)
    if resume is not None:
        data, choice, encoder, how = settings_of(resume, encoder)
    if data is None:
        raise InputError("data: expected a folder, a table or a named dataset, got none")
    began = time.monotonic()
    folder, going_on = resume or run_dir or free_run_dir(data, "clean"), resume is not None
    with where.client() as client:
        cleaned = run(
            data, choice, encoder, how, folder, verified, going_on, strict, printing.quiet, client
        )
    summary = summarise(folder, cleaned, time.monotonic() - began)
    printing.result(summary, summary_text(summary))


def run(
    data: str,
    choice: Any,
    encoder: str | None,
    how: Any,
    folder: Path,
    verified: Path | None,
    resume: bool,
    strict: bool,
    quiet: bool,
    client: Any = None,
) -> Cleaned:
    """Open, clean, write the run and its report."""
    from adacorr.cleaning.clean import clean_samples
    from adacorr.cleaning.samples import open_samples
    from adacorr.cleaning.workers import HERE, Cluster
    from adacorr.cli.answers import keep_certificate, verified_by
    from adacorr.cli.invocation import command_line
    from adacorr.cli.progress import Steps
    from adacorr.report import write_report

    samples = open_samples(data, choice)
    samples = replace(samples, about={**samples.about, "command": command_line()})
    said = verified_by(verified, by_id=samples.ids is not None)
    answers = said and said.among(len(samples), samples.codec, ids=samples.ids)
    steps = Steps(quiet)
    try:
        cleaned = clean_samples(
            samples,
            encoder=encoder,
            folds=how,
            verified=answers,
            strict=strict,
            run_dir=folder,
            resume=resume,
            tick=steps,
            engine=HERE if client is None else Cluster(client),
        )
        assert cleaned.run is not None
        found = cleaned.correction
        keep_certificate(cleaned.run, found.certificate, verified, found.note)
        steps("writing the report", 0, 1)
        write_report(cleaned.run)
    finally:
        steps.close()
    return cleaned


def settings_of(folder: Path, named: str | None) -> tuple[str, Any, str | None, Any]:
    """Data, columns, encoder (as far as it may be) and folds of a run of `clean`."""
    from adacorr.cleaning.rundir import read_settings, trusted

    data, choice, encoder, how = read_settings(folder)
    return data, choice, trusted(encoder, named, folder), how


# -- what came out ---------------------------------------------------------------------------------


def summarise(folder: Path, cleaned: Cleaned, seconds: float) -> dict[str, Any]:
    """The summary as plain values."""
    from adacorr.cleaning.samples import shown
    from adacorr.cli.answers import proved

    found, samples = cleaned.correction, cleaned.samples
    names = samples.class_names
    assert found.alternative is not None
    rows = []
    for row in cleaned.suspects(SHOWN):
        at = int(row)
        rows.append(
            {
                "row": at,
                "sample": " ".join(shown(samples, at).split())[:WIDTH],
                "given": names[samples.labels[at]],
                "suggested": str(found.suggested[at]),
                "predicted": names[int(cleaned.pred_probs[at].argmax())],
                "other": str(found.alternative[at]),
                "suspicion": round(float(cleaned.suspicion[at]), 3),
                "changed": bool(found.flipped[at]),
            }
        )
    summary = {
        "run": str(folder),
        "kind": samples.kind,
        "samples": len(samples),
        "classes": len(names),
        "models": list(cleaned.by_model),
        "notes": list(samples.notes),
        "labels_changed": found.n_flipped,
        "expected_wrong_changes": found.expected_wrong_flips,
        "expected_wrong_changes_interval": found.expected_wrong_flips_interval,
        "noise_rate": found.noise_rate,
        "note": found.note,
        "warnings": list(found.warnings),
        "certificate": proved(found.certificate),
        "issues": cleaned.issues.counts(),
        "also": cleaned.also,
        "most_suspicious": rows,
        "seconds": round(seconds, 1),
    }
    if samples.truth is not None:
        right = samples.codec.decode(samples.truth)
        summary["label_accuracy_before"] = float((samples.labels == samples.truth).mean())
        summary["label_accuracy_after"] = float((found.labels == right).mean())
    return summary


def summary_text(s: dict[str, Any]) -> str:
    """The summary in a few lines."""
    from adacorr.cli.answers import proof_lines
    from adacorr.cli.progress import duration

    lines = [
        f"{s['samples']:,} samples of {s['classes']} classes ({s['kind']}), judged by "
        f"{', '.join(s['models'])} in {duration(s['seconds'])}",
        *s["notes"],
        f"labels changed     {s['labels_changed']:,} ({s['labels_changed'] / s['samples']:.1%})",
    ]
    if s["expected_wrong_changes"] is not None and s["labels_changed"]:
        low, high = s["expected_wrong_changes_interval"] or (0, s["labels_changed"])
        wrong = f"{s['expected_wrong_changes']:,.0f} ({low:,.0f} to {high:,.0f}) of the changes"
        lines.append(f"expected wrong     {wrong}")
    if "label_accuracy_after" in s:
        before, after = s["label_accuracy_before"], s["label_accuracy_after"]
        lines.append(f"labels right       {before:.1%} before, {after:.1%} after")
    if s["note"]:
        lines.append(f"note               {s['note']}")
    lines += proof_lines(s["certificate"])
    lines += [f"warning            {warning}" for warning in s["warnings"]]
    lines += [f"also               {sentence}" for sentence in s["also"]]
    lines += ["", "most suspicious"]
    for row in s["most_suspicious"]:
        said = f"  row {row['row']}: {row['sample']}"
        agrees = row["given"] == row["predicted"]
        other = f"perhaps {row['other']}" if agrees else f"models say {row['predicted']}"
        lines.append(f"{said}\n    given {row['given']}, {other}")
    lines += ["", f"results            {s['run']}/ (labels.parquet, report.html)"]
    lines.append(f"next               adacorr review {s['run']}")
    return "\n".join(lines)

"""``adacorr fit``: train on noisy labels, write a run directory, say what came out."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from adacorr.cli.fit_plan import (
    DataOptions,
    FitPlan,
    choose_method,
    plan_from_run,
    refuse_other_method,
    refuse_others,
)
from adacorr.cli.fit_summary import note_of, summarise, summary_text
from adacorr.cli.invocation import command_line
from adacorr.cli.options import TEXT, Printing
from adacorr.cli.outputs import free_run_dir
from adacorr.core.validation import InputError
from adacorr.runs.directory import add_columns
from adacorr.train.settings import Settings

if TYPE_CHECKING:
    from adacorr.core.answers import Answers
    from adacorr.data import Dataset
    from adacorr.train import FitResult

WHOLE = DataOptions()
USUAL = Settings()


def main_rank() -> bool:
    """Whether this process speaks for all that train together."""
    return os.environ.get("RANK", "0") == "0"


def fit(
    data: str | None = None,
    /,
    *,
    method: str | None = None,
    recipe: Literal["paper", "released"] | None = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    net: str | None = None,
    source: DataOptions = WHOLE,
    settings: Annotated[Settings, Parameter(name="*")] = USUAL,
    correct: bool = True,
    verified: Path | None = None,
    run_dir: Path | None = None,
    resume: Path | None = None,
    printing: Printing = TEXT,
) -> None:
    """Train on noisy labels and correct them.

    Parameters
    ----------
    data
        A named dataset (see `adacorr data list`), a folder with one subfolder of images per class,
        a .csv or .parquet table with --label-column, or an .npz.
    method
        standard, forgetting, forward, backward, decoupling, mentornet, coteaching, abstention,
        elrplus, sop, dividemix, adacorr or posterior. Default: posterior, with --recipe adacorr.
    recipe
        Which AdaCorr: the paper's text or the released code.
    set_
        A field of the method, as in --set burn_in=5; may be repeated.
    net
        cnn, mlp, resnet8, preact34, pointnet, ... or package.module:factory; default: by the shape
        of the data.
    correct
        Correct the labels, by nets that are trained on parts of the data and predict the rest; with
        --no-correct only a model is trained.
    verified
        Answers of people: a CSV or parquet file with columns row (or id) and label, or a run on the
        same data whose review page was used. They choose the rule, their rows keep their label, and
        the certificate goes into the run.
    run_dir
        Where to write; default: the first free runs/DATA-METHOD-NUMBER.
    resume
        Go on with a run that was stopped, with its own settings. If its net is your own code, name
        that again with --net.
    """
    if resume is not None:
        plan = plan_from_run(resume, net)
        plan = replace(plan, verified=verified or plan.verified)
        wanted = {
            "data": data,
            "net": net,
            "correct": correct,
            **asdict(source),
            **asdict(settings),
        }
        refuse_others(plan, wanted)
        refuse_other_method(plan, method, recipe, set_)
        if run_dir is not None and run_dir.resolve() != resume.resolve():
            raise InputError(f"--run-dir: expected {resume}, as --resume says, got {run_dir}")
    elif data is None:
        raise InputError("data: expected a named dataset or a path, got none (see --help)")
    else:
        name = method or ("posterior" if recipe is None else "adacorr")
        chosen = choose_method(name, recipe, set_)
        where = run_dir or free_run_dir(data, chosen.name)
        plan = FitPlan(data, source, chosen, net, settings, where, False, correct, verified)
    summary = run(plan, quiet=printing.quiet or not main_rank())
    if main_rank():
        printing.result(summary, summary_text(summary))


def run(plan: FitPlan, quiet: bool) -> dict[str, Any]:
    """Load, inject noise if asked, train, score what can be scored, write the report."""
    from adacorr.cli.progress import choose
    from adacorr.data import load
    from adacorr.data.noisy import with_noise
    from adacorr.train import fit as train

    began = time.monotonic()
    splits = load(plan.data, seed=plan.settings.seed, **plan.source.options())
    data, truth = with_noise(splits.train, plan.source.noise, plan.settings.seed)
    validation = clean_validation(plan, data) or held_out(plan, splits.validation)
    answers = answers_to(plan, data)
    progress = choose(quiet)
    try:
        for name in data.skipped[:5]:
            progress.log(f"skipped unreadable {name}")
        result = train(
            plan.net,
            data.features,
            data.labels,
            method=plan.method,
            **asdict(plan.settings),
            validation=validation or 0.1,
            correct=plan.correct,
            verified=answers,
            class_names=data.codec,
            run_dir=plan.run_dir,
            resume=plan.resume,
            progress=progress,
            on_epoch=None if truth is None else lambda end: label_accuracy(end, truth),
            config=notes(plan, data),
        )
    finally:
        progress.close()
    return finish(plan, data, truth, splits.test, result, time.monotonic() - began)


def clean_validation(plan: FitPlan, data: Dataset) -> tuple[Any, NDArray[np.int64]] | None:
    """The user's clean samples, their classes matched by name."""
    from adacorr.data import load

    if plan.source.clean_validation is None:
        return None
    options = plan.source.options() | {"subset": None, "paper_split": False}
    clean = load(plan.source.clean_validation, **options).train
    place = {name: i for i, name in enumerate(data.class_names)}
    unknown = [name for name in clean.class_names if name not in place]
    if unknown:
        raise InputError(
            f"clean-validation: expected classes {', '.join(data.class_names)}, got {unknown[0]}"
        )
    codes = np.array([place[name] for name in clean.class_names])
    return clean.features, codes[clean.labels]


def held_out(plan: FitPlan, part: Dataset | None) -> tuple[Any, NDArray[np.int64]] | None:
    """The source's own validation set; the paper's split of it is as noisy as the training set."""
    from adacorr.data.noisy import with_noise

    if part is None:
        return None
    if plan.source.paper_split:
        part, _ = with_noise(part, plan.source.noise, plan.settings.seed + 1)
    return part.features, part.labels


def answers_to(plan: FitPlan, data: Dataset) -> Answers | None:
    """What people said of the samples that the run takes."""
    from adacorr.cli.answers import verified_by

    said = verified_by(plan.verified, by_id=data.ids is not None)
    return said and said.among(len(data), data.codec, rows=data.rows, ids=data.ids)


def label_accuracy(end: Any, truth: NDArray[np.int64]) -> dict[str, float]:
    rows = end.train_index
    return {"label_accuracy": float((end.labels[rows] == truth[rows]).mean())}


def notes(plan: FitPlan, data: Dataset) -> dict[str, dict[str, Any]]:
    """What config.toml records beyond training's own settings."""
    from adacorr.data.identity import source_digest

    path = Path(plan.data)
    source = str(path.resolve()) if path.exists() else plan.data
    return {
        "run": {"command": command_line()},
        "data": {
            "source": source,
            "source_sha256": source_digest([path]) if path.is_file() else None,
            "seed": plan.settings.seed,
            "feature_names": data.feature_names,
            "verified": plan.verified and str(plan.verified.resolve()),
            **asdict(plan.source),
        },
    }


def finish(
    plan: FitPlan,
    data: Dataset,
    truth: NDArray[np.int64] | None,
    test: Dataset | None,
    result: FitResult,
    seconds: float,
) -> dict[str, Any]:
    """Add the truth for scoring and the user's ids, write the report, sum up."""
    from adacorr.cli.answers import keep_certificate
    from adacorr.report import write_report

    assert result.run is not None
    if main_rank():
        rows = np.arange(len(data)) if data.rows is None else data.rows
        known = {"index": rows, "id": data.ids, "content": _contents(plan, data), "truth": truth}
        columns = {name: array for name, array in known.items() if array is not None}
        add_columns(result.run.file("labels.parquet"), columns)
        if result.correction is not None:
            proof, note = result.correction.certificate, note_of(result) or ""
            keep_certificate(result.run, proof, plan.verified, note)
        write_report(result.run)
    return summarise(plan, data, truth, test, result, seconds)


def _contents(plan: FitPlan, data: Dataset) -> NDArray[np.str_] | None:
    """Fingerprints of the files of a folder; other sources have one of their own, or none."""
    from adacorr.data.identity import contents

    folder = Path(plan.data).expanduser()
    named = data.ids is not None and data.ids.dtype.kind == "U"
    return (
        contents(folder, data.ids) if named and data.ids is not None and folder.is_dir() else None
    )

"""``adacorr fit``: train on noisy labels, write a run directory, say what came out."""

from __future__ import annotations

import json as json_lib
import os
import time
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from adacorr.cli.invocation import arguments, command_line
from adacorr.core.validation import InputError, check_fields
from adacorr.runs.directory import Run, add_columns
from adacorr.train.settings import Settings

if TYPE_CHECKING:
    from adacorr.data import Dataset
    from adacorr.train import FitResult
    from adacorr.train.methods import Method

NOISE = 1  # purpose of the random stream that injects noise, as in `adacorr bench`


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """Which data to train on, beside its name or path.

    Attributes
    ----------
    noise
        Make labels wrong on purpose, to try things out: uniform:RATE, pair:RATE, map:mnist:RATE.
    label_column
        The table's column of labels.
    image_column
        The table's column of image paths or bytes; default: all other columns are features.
    image_size
        Resize images to squares of this side.
    subset
        Train on this many samples only.
    paper_split
        The paper's sizes of training and validation set.
    skip_unreadable
        Leave out images that cannot be read, and say how many.
    ignore_columns
        Columns of a table that are no features.
    clean_validation
        Data with clean labels to select the epoch; default: a tenth of the noisy data.
    """

    noise: str | None = None
    label_column: str | None = None
    image_column: str | None = None
    image_size: int | None = None
    subset: int | None = None
    paper_split: bool = False
    skip_unreadable: bool = False
    ignore_columns: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = ()
    clean_validation: str | None = None

    def options(self) -> dict[str, Any]:
        """The arguments of ``adacorr.data.load``."""
        entries = asdict(self)
        return {k: v for k, v in entries.items() if k not in ("noise", "clean_validation")}


@dataclass(frozen=True)
class Plan:
    """A run as the command line or a config.toml describes it."""

    data: str
    source: Source
    method: Method
    net: str | None
    settings: Settings
    run_dir: Path
    resume: bool
    correct: bool = True


def fit(
    data: str | None = None,
    /,
    *,
    method: str | None = None,
    recipe: Literal["paper", "released"] | None = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    net: str | None = None,
    source: Source = Source(),  # noqa: B008
    settings: Annotated[Settings, Parameter(name="*")] = Settings(),  # noqa: B008
    correct: bool = True,
    run_dir: Path | None = None,
    resume: Path | None = None,
    json: bool = False,
    quiet: bool = False,
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
    run_dir
        Where to write; default: the first free runs/DATA-METHOD-NUMBER.
    resume
        Go on with a run that was stopped, with its own settings. If its net is your own code, name
        that again with --net.
    json
        Print the summary as JSON.
    quiet
        Print nothing but errors.
    """
    if resume is not None:
        plan = plan_from_run(resume, net)
        wanted = {"data": data, "net": net, **asdict(source), **asdict(settings)}
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
        plan = Plan(data, source, chosen, net, settings, where, resume=False, correct=correct)
    main_rank = os.environ.get("RANK", "0") == "0"
    summary = run(plan, quiet=quiet or not main_rank)
    if main_rank and json:
        print(json_lib.dumps(summary))
    elif main_rank and not quiet:
        print(summary_text(summary))


# -- what to run -----------------------------------------------------------------------------------


def choose_method(name: str, recipe: str | None, assignments: tuple[str, ...]) -> Method:
    """The method with the fields that were set; unknown names list what there is."""
    from adacorr.train import METHODS

    if name not in METHODS:
        raise InputError(f"method: expected one of {', '.join(METHODS)}, got {name!r}")
    cls = METHODS[name]
    defaults = {f.name: f.default for f in fields(cls) if f.init}  # pyright: ignore[reportArgumentType]
    values: dict[str, Any] = {} if recipe is None else {"recipe": recipe}
    for assignment in assignments:
        field, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set: expected FIELD=VALUE, got {assignment!r}")
        values[field] = parse_value(text)
    for field in values:
        if field not in defaults:
            known = ", ".join(f"{k}={'...' if v is MISSING else v}" for k, v in defaults.items())
            raise InputError(f"{name}: expected fields {known or 'none'}, got {field!r}")
    check_fields(cls, values, name)
    return cls(**values)


def parse_value(text: str) -> Any:
    """A number, true, false, null or a list as JSON has them; anything else is a string.

    >>> parse_value("5"), parse_value("auto"), parse_value("null")
    (5, 'auto', None)
    """
    try:
        return json_lib.loads(text)
    except json_lib.JSONDecodeError:
        return text


def free_run_dir(data: str, method: str) -> Path:
    """The first of runs/DATA-METHOD-1, -2, ... that does not exist."""
    stem = data.partition(":")[0] if ":" in data and not Path(data).exists() else data
    name = Path(stem).name.partition(".")[0] or "data"
    number = 1
    while (path := Path("runs") / f"{name}-{method}-{number}").exists():
        number += 1
    return path


def plan_from_run(path: Path, net: str | None = None) -> Plan:
    """The plan that config.toml recorded."""
    from adacorr.train.saved import saved_method, saved_net, saved_settings

    if not (path / "config.toml").is_file():
        raise InputError(f"{path}: expected a run directory with config.toml, got none")
    run = Run(path)
    data = run.table("data")
    if not isinstance(data.get("source"), str):
        raise InputError(f"{path}: expected a run of `adacorr fit`, got one without data.source")
    names = {f.name for f in fields(Source)}
    source = {k: v for k, v in data.items() if k in names}
    check_fields(Source, source, f"{run.file('config.toml')}: data")
    return Plan(
        data=data["source"],
        source=Source(**source),
        method=saved_method(run),
        net=saved_net(run, net),
        settings=saved_settings(run),
        run_dir=path,
        resume=True,
        correct=bool(run.table("correct")),
    )


def refuse_others(plan: Plan, wanted: dict[str, Any]) -> None:
    """A resumed run keeps its settings: one that was asked for and differs is refused."""
    recorded = {"data": plan.data, "net": plan.net, **asdict(plan.source), **asdict(plan.settings)}
    defaults = {"data": None, "net": None, **asdict(Source()), **asdict(Settings())}
    typed = {word.partition("=")[0] for word in arguments.get()}
    for name, value in wanted.items():
        flag = "--" + name.replace("_", "-")
        asked = value != defaults[name] or flag in typed or f"--no-{flag[2:]}" in typed
        same = value == recorded[name] or (name == "data" and _same_data(value, recorded[name]))
        if asked and not same and name != "workers":  # the number of workers changes no result
            flag = "data" if name == "data" else flag
            raise InputError(f"{flag}: expected {recorded[name]} as in the run, got {value}")


def _same_data(wanted: str | None, recorded: str) -> bool:
    path = Path(wanted or "")
    return bool(wanted) and path.exists() and str(path.resolve()) == recorded


def refuse_other_method(
    plan: Plan, method: str | None, recipe: str | None, assignments: tuple[str, ...]
) -> None:
    """The same for the method and its fields."""
    if method is not None and method != plan.method.name:
        raise InputError(f"--method: expected {plan.method.name} as in the run, got {method}")
    wanted = choose_method(plan.method.name, recipe, assignments)
    named = [text.partition("=")[0] for text in assignments] + ["recipe"] * (recipe is not None)
    for field in named:
        found, kept = getattr(wanted, field), getattr(plan.method, field)
        if found != kept:
            raise InputError(f"--set {field}: expected {kept} as in the run, got {found}")


# -- run it ----------------------------------------------------------------------------------------


def run(plan: Plan, quiet: bool) -> dict[str, Any]:
    """Load, inject noise if asked, train, score what can be scored, write the report."""
    from adacorr.cli.progress import choose
    from adacorr.data import load
    from adacorr.train import fit as train

    began = time.monotonic()
    splits = load(plan.data, seed=plan.settings.seed, **plan.source.options())
    data, truth = noisy(splits.train, plan.source.noise, plan.settings.seed)
    validation = clean_validation(plan, data) or held_out(plan, splits.validation)
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


def noisy(data: Dataset, noise: str | None, seed: int) -> tuple[Dataset, NDArray[np.int64] | None]:
    """The data as training sees it, and the true classes where they are known."""
    from adacorr.core import noise as noises

    if noise is None:
        return data, data.truth
    truth = data.labels if data.truth is None else data.truth
    T = noises.parse(noise, data.n_classes)
    labels = noises.inject(truth, T, np.random.default_rng([seed, NOISE]))
    return replace(data, labels=labels, truth=None), truth


def clean_validation(plan: Plan, data: Dataset) -> tuple[Any, NDArray[np.int64]] | None:
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


def held_out(plan: Plan, part: Dataset | None) -> tuple[Any, NDArray[np.int64]] | None:
    """The source's own validation set; the paper's split of it is as noisy as the training set."""
    if part is None:
        return None
    if plan.source.paper_split:
        part, _ = noisy(part, plan.source.noise, plan.settings.seed + 1)
    return part.features, part.labels


def label_accuracy(end: Any, truth: NDArray[np.int64]) -> dict[str, float]:
    rows = end.train_index
    return {"label_accuracy": float((end.labels[rows] == truth[rows]).mean())}


def notes(plan: Plan, data: Dataset) -> dict[str, dict[str, Any]]:
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
            **asdict(plan.source),
        },
    }


# -- what came out ---------------------------------------------------------------------------------


def finish(
    plan: Plan,
    data: Dataset,
    truth: NDArray[np.int64] | None,
    test: Dataset | None,
    result: FitResult,
    seconds: float,
) -> dict[str, Any]:
    """Add the truth for scoring and the user's ids, write the report, sum up."""
    from adacorr.report import write_report

    assert result.run is not None
    if os.environ.get("RANK", "0") == "0":
        rows = np.arange(len(data)) if data.rows is None else data.rows
        known = {"index": rows, "id": data.ids, "content": _contents(plan, data), "truth": truth}
        columns = {name: array for name, array in known.items() if array is not None}
        add_columns(result.run.file("labels.parquet"), columns)
        write_report(result.run)
    selected, found = result.history[result.selected_epoch - 1], result.correction
    summary: dict[str, Any] = {
        "run": str(plan.run_dir),
        "method": plan.method.name,
        "samples": len(data),
        "epochs": len(result.history),
        "selected_epoch": result.selected_epoch,
        "val_accuracy": selected["val_accuracy"],
        "labels_changed": int((result.labels != data.labels).sum()),
        "expected_wrong_changes": None if found is None else found.expected_wrong_flips,
        "noise_rate": None if found is None else found.noise_rate,
        "noise_rate_interval": None if found is None else found.noise_rate_interval,
        "note": note_of(result),
        "warnings": [] if found is None else list(found.warnings),
        "skipped": len(data.skipped),
        "seconds": round(seconds, 1),
    }
    if truth is not None:
        summary["label_accuracy_before"] = float((data.labels == truth).mean())
        summary["label_accuracy_after"] = float((result.labels == truth).mean())
    if test is not None:
        predicted = result.predict_proba(test.features, plan.settings.workers).argmax(axis=1)
        right = test.labels if test.truth is None else test.truth
        summary["test_accuracy"] = float((predicted == right).mean())
    return summary


def _contents(plan: Plan, data: Dataset) -> NDArray[np.str_] | None:
    """Fingerprints of the files of a folder; other sources have one of their own, or none."""
    from adacorr.data.identity import contents

    folder = Path(plan.data).expanduser()
    named = data.ids is not None and data.ids.dtype.kind == "U"
    return (
        contents(folder, data.ids) if named and data.ids is not None and folder.is_dir() else None
    )


def note_of(result: FitResult) -> str | None:
    """What the rule has to say, above all why nothing was changed."""
    if result.withheld:
        return f"no label is changed: {result.withheld}"
    return None if result.correction is None else result.correction.note or None


def summary_text(s: dict[str, Any]) -> str:
    """The summary in a few lines."""
    from adacorr.cli.progress import duration

    share = s["labels_changed"] / s["samples"]
    lines = [
        f"{s['method']}: {s['epochs']} epochs on {s['samples']:,} samples "
        f"in {duration(s['seconds'])}",
        f"labels changed     {s['labels_changed']:,} ({share:.1%})",
    ]
    if s["note"]:
        lines.append(f"                   {s['note']}")
    if s["expected_wrong_changes"] is not None and s["labels_changed"]:
        lines.append(f"expected wrong     {s['expected_wrong_changes']:,.0f} of the changes")
    if interval := s["noise_rate_interval"]:
        lines.append("wrong labels       between {:.1%} and {:.1%}".format(*interval))
    lines += [f"warning            {sentence}" for sentence in s["warnings"]]
    if "label_accuracy_after" in s:
        before, after = s["label_accuracy_before"], s["label_accuracy_after"]
        lines.append(f"labels right       {before:.1%} before, {after:.1%} after")
    lines.append(
        f"selected epoch     {s['selected_epoch']} "
        f"(validation accuracy {s['val_accuracy']:.1%} on its own labels)"
    )
    if "test_accuracy" in s:
        lines.append(f"test accuracy      {s['test_accuracy']:.1%}")
    if s["skipped"]:
        lines.append(f"skipped            {s['skipped']} unreadable files")
    lines.append(f"results            {s['run']}/ (labels.parquet, report.html)")
    return "\n".join(lines)

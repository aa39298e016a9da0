"""What ``adacorr fit`` is to run: as the command line says it, or as a stopped run recorded it."""

from __future__ import annotations

import json as json_lib
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from adacorr.cli.invocation import arguments
from adacorr.core.validation import InputError, check_fields
from adacorr.runs.directory import Run
from adacorr.train.settings import Settings

if TYPE_CHECKING:
    from adacorr.train.methods import Method


@Parameter(name="*")
@dataclass(frozen=True)
class DataOptions:
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
class FitPlan:
    """A run as the command line or a config.toml describes it."""

    data: str
    source: DataOptions
    method: Method
    net: str | None
    settings: Settings
    run_dir: Path
    resume: bool
    correct: bool = True
    verified: Path | None = None


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


def plan_from_run(path: Path, net: str | None = None) -> FitPlan:
    """The plan that config.toml recorded."""
    from adacorr.train.saved import saved_method, saved_net, saved_settings

    if not (path / "config.toml").is_file():
        raise InputError(f"{path}: expected a run directory with config.toml, got none")
    run = Run(path)
    data = run.table("data")
    if not isinstance(data.get("source"), str):
        raise InputError(f"{path}: expected a run of `adacorr fit`, got one without data.source")
    names = {f.name for f in fields(DataOptions)}
    source = {k: v for k, v in data.items() if k in names}
    check_fields(DataOptions, source, f"{run.file('config.toml')}: data")
    return FitPlan(
        data=data["source"],
        source=DataOptions(**source),
        method=saved_method(run),
        net=saved_net(run, net),
        settings=saved_settings(run),
        run_dir=path,
        resume=True,
        correct=bool(run.table("correct")),
        verified=Path(str(data["verified"])) if data.get("verified") else None,
    )


def refuse_others(plan: FitPlan, wanted: dict[str, Any]) -> None:
    """A resumed run keeps its settings: one that was asked for and differs is refused."""
    own = {name: getattr(plan, name) for name in ("data", "net", "correct")}
    recorded = {**own, **asdict(plan.source), **asdict(plan.settings)}
    usual = {"data": None, "net": None, "correct": True}
    defaults = {**usual, **asdict(DataOptions()), **asdict(Settings())}
    typed = {word.partition("=")[0] for word in arguments.get()}
    for name, value in wanted.items():
        flag = "--" + name.replace("_", "-")
        asked = value != defaults[name] or flag in typed or f"--no-{flag[2:]}" in typed
        same = value == recorded[name] or (name == "data" and _same_data(value, recorded[name]))
        if asked and not same and name != "workers":  # the number of workers changes no result
            flag = "data" if name == "data" else flag
            kept = "none" if recorded[name] in (None, "") else recorded[name]
            raise InputError(f"{flag}: expected {kept} as in the run, got {value}")


def _same_data(wanted: str | None, recorded: str) -> bool:
    path = Path(wanted or "")
    return bool(wanted) and path.exists() and str(path.resolve()) == recorded


def refuse_other_method(
    plan: FitPlan, method: str | None, recipe: str | None, assignments: tuple[str, ...]
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

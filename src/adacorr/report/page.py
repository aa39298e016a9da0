"""A run directory -> one HTML page that needs nothing else."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr._version import __version__
from adacorr.core.transition import Transition
from adacorr.core.validation import InputError
from adacorr.files import atomic
from adacorr.report import diagnostics, figures
from adacorr.report.figures import Picture
from adacorr.report.summary import Flip, Summary, sample_rows, summarise
from adacorr.report.verdict import alarms, known_wrong, next_step, read_found, worth_a_look
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData, clean_text
from adacorr.runs.samples import Items
from adacorr.runs.words import chance, count, share

THUMBNAIL_SIDE = 160
LONG_TEXT = 60
"""A field with more characters is text to read, not a value beside others."""
_TEXT_SHOWN = 400
CONFIG_LENGTH = 20_000
_CONFIG_SECTIONS_WITH_DELTA = ("result", "correct", "method")


@dataclass(frozen=True)
class Share:
    """A number of a matrix with its share of the row, 0 to 1."""

    text: str
    share: float


@dataclass(frozen=True)
class Matrix:
    """A small matrix as a table, or a large one as a picture; with its largest entries."""

    rows: tuple[tuple[str, tuple[Share, ...]], ...]
    names: tuple[str, ...]
    picture: Picture | None
    top: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True)
class Example:
    """A label in doubt as the page shows it; `name`: what the source calls the row."""

    flip: Flip
    name: str
    given: str
    other: str | None
    wrong: str | None  # how likely the given label is wrong, in words
    right: str | None  # how likely the label after correction is right
    image: str | None
    text: str | None
    fields: dict[str, str]


@dataclass(frozen=True)
class Estimate:
    """A number, where it comes from, and what it rests on; `value` None: not available."""

    value: float | None
    basis: str


def write_report(run: Run, output: Path | None = None) -> Path:
    """Write the report of `run` to `output`, or to ``report.html`` in the run directory.

    Returns the path. The page holds its pictures and styles, and forbids the browser any network.
    """
    html = render(RunData.open(run))
    target = run.file("report.html") if output is None else Path(output)
    try:
        with atomic(target) as temporary:
            temporary.write_text(html, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{target}: expected a place that can be written, got {error.strerror}; "
            "choose another with --output"
        ) from error
    return target


def render(data: RunData) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("adacorr.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["share"] = share
    environment.filters["count"] = count
    return environment.get_template("report.html.j2").render(_context(data))


def _context(data: RunData) -> dict[str, Any]:
    summary = summarise(data)
    sample = sample_rows(data)
    delta = _delta(data)
    found = read_found(data)
    suspects = worth_a_look(summary.suspects, found.open)
    doubtful = () if set(summary.doubtful) <= set(suspects) else summary.doubtful
    shown = np.array([flip.index for flip in suspects + doubtful], dtype=np.int64)
    items = Items(data, shown, THUMBNAIL_SIDE)
    transition = diagnostics.estimate(sample)
    calibration = diagnostics.calibration(sample)
    noise = _noise_rate(data, transition)
    return {
        "title": _title(data),
        "todo": next_step(data, summary, found, sample),
        "alarms": alarms(data, summary, found, sample),
        "found": found,
        "known_wrong": known_wrong(found, noise.value, noise.basis),
        "version": __version__,
        "summary": summary,
        "n_classes": data.n_classes,
        "delta": delta,
        "story": _story(data, summary, delta),
        "automatic": _automatic(data),
        "lasting": _lasting(data),
        "wrong": _expected_wrong(data, summary),
        "missed": data.number("result", "expected_missed_errors"),
        # labels changed by training itself, as in runs of earlier versions
        "trained": bool(data.section("method")) and not _automatic(data),
        "note": None if found.open else _text(data, "result", "note", 500),
        "changes": _changes(data, summary),
        "transition": _transition_matrix(data, transition),
        "sample": sample,
        "ratios": figures.ratio_histogram(summary, delta),
        "convergence": figures.convergence(_curves(data)),
        "reliability": None if calibration is None else figures.reliability_diagram(calibration),
        "mismatch": None if calibration is None else diagnostics.mismatch(calibration),
        "radius": diagnostics.radius_picture(sample, transition),
        "bounds": diagnostics.bound_picture(sample, transition),
        "suspects": _examples(data, suspects, items, found.open),
        "doubtful": _examples(data, doubtful, items, found.open),
        "items_note": items.note(),
        "annotators": _annotators(data),
        "rerun": _rerun(data),
    }


def _story(data: RunData, summary: Summary, delta: float | None) -> str:
    """What was done, in two sentences."""
    method = _text(data, "method", "name")
    trained = f"was trained with {method} and " if method else ""
    begin = f"A model {trained}gave each of {summary.n:,} samples a probability per class"
    if summary.n_flipped == 0:
        return f"{begin}. No label was changed."
    kept = summary.n - summary.n_flipped
    rule = data.sentence
    joined = f"{begin}. {rule}" if rule else f"{begin}, and {_rule(data, delta)}."
    return (
        f"{joined} That changed {summary.n_flipped:,} labels ({summary.changed_share:.1%}) and "
        f"kept {kept:,}."
    )


def _rule(data: RunData, delta: float | None) -> str:
    """For runs of format 1, which do not say."""
    if data.section("method").get("name") == "posterior":
        return "a label was changed when another class was more probable than the given one"
    if _automatic(data):
        return (
            "a label was changed when another class was more probable than the given one, in the "
            "light of a noise model fitted to the labels"
        )
    limit = f"below δ = {delta:g}" if delta is not None else "below the run's threshold"
    return (
        "a label was changed to the most probable class when the likelihood ratio, P(given "
        f"class) divided by P(most probable class), was {limit}"
    )


def _automatic(data: RunData) -> bool:
    """Were the labels changed by the posterior of a fitted noise model, not by a threshold?"""
    return "auto" in (data.section("correct").get("delta"), data.section("method").get("delta"))


def _lasting(data: RunData) -> bool:
    """Is there a run directory to review? `adacorr correct --report` alone leaves none."""
    path = data.run.path.resolve()
    return not (path.name.startswith(".") or path.parent.name.endswith(".tmp"))


def _title(data: RunData) -> str:
    """The run's folder; or its source, for a report without a lasting run directory."""
    name = data.run.path.resolve().name
    source = data.section("data").get("source")
    if not _lasting(data) and isinstance(source, str) and source:
        name = Path(source).name
    return clean_text(name or "run")


def _delta(data: RunData) -> float | None:
    if data.section("correct").get("delta") == "auto":  # a method's own delta changed no label
        return None
    for section in _CONFIG_SECTIONS_WITH_DELTA:
        value = data.number(section, "delta")
        if value is not None and 0 < value <= 1:
            return value
    return None


def _text(data: RunData, section: str, key: str, limit: int = 80) -> str | None:
    value = data.section(section).get(key)
    return clean_text(value, limit) if isinstance(value, str) and value else None


def _curves(data: RunData) -> list[dict[str, float]]:
    """The run's numbers per epoch, with counts of labels as shares."""
    records = data.metrics()
    for record in records:
        if "changed" in record:
            record["labels_changed"] = record.pop("changed") / data.n
    return records


def _noise_rate(data: RunData, transition: Transition | None) -> Estimate:
    stored = data.number("result", "noise_rate")
    told = _text(data, "result", "noise_rate_from", 200)
    nothing = told or data.section("result").get("noise_rate_interval")
    if stored is None and nothing:  # the correction found that there is nothing to tell
        return Estimate(None, told or "the run states a range alone")
    if stored is not None and 0 <= stored <= 1:
        return Estimate(stored, f"from {told}" if told else "estimated when they were corrected")
    if transition is None:
        return Estimate(None, "this run stores no probabilities to estimate it from")
    kept = float((np.diag(transition.T) * transition.counts).sum())
    total = int(transition.counts.sum())
    if total == 0:
        return Estimate(None, "no row is confidently in any class")
    return Estimate(
        1 - kept / total,
        "share of the rows confidently in one class that carry another label "
        "(after Northcutt et al. 2021)",
    )


def _expected_wrong(data: RunData, summary: Summary) -> Estimate:
    """As the rule stated it when it decided; nothing is counted anew."""
    if summary.n_flipped == 0:
        return Estimate(0.0, "nothing was changed")
    stored = data.number("result", "expected_wrong_flips")
    if stored is None or stored < 0:
        return Estimate(None, "the rule of this run states no such number")
    ends = data.interval("result", "expected_wrong_flips_interval")
    between = f"; between {ends[0]:,.0f} and {ends[1]:,.0f}" if ends else ""
    return Estimate(stored, f"estimated when the labels were corrected{between}")


def _changes(data: RunData, summary: Summary) -> Matrix:
    names = data.class_names
    top = tuple(
        (names[a], names[b], f"{count:,}", f"{count / max(int(summary.given[a]), 1):.1%}")
        for a, b, count in summary.top_pairs(10)
    )
    if data.n_classes > diagnostics.MAX_CLASSES:
        return Matrix((), names, None, top)
    counts = summary.matrix()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    if data.n_classes > figures.TABLE_CLASSES:
        title = "Given class (rows) → class after correction (columns)"
        picture = figures.matrix_image(shares, names, title, "given", "after correction")
        return Matrix((), names, picture, top)
    texts = [[f"{value:,}" for value in row] for row in counts]
    return Matrix(_cells(names, shares, texts), names, None, top)


def _transition_matrix(data: RunData, transition: Transition | None) -> Matrix | None:
    if transition is None:
        return None
    T, names = transition.T, data.class_names
    off = T - np.diag(np.diag(T))
    order = np.argsort(-off, axis=None, kind="stable")[:10]
    pairs = [divmod(int(cell), len(names)) for cell in order]
    top = tuple((names[i], names[j], f"{T[i, j]:.3f}", "") for i, j in pairs if off[i, j] > 0)
    if len(names) > figures.TABLE_CLASSES:
        title = "Estimated noise: true class (rows) → given class (columns)"
        picture = figures.matrix_image(T, names, title, "true class", "given class")
        return Matrix((), names, picture, top)
    texts = [[f"{value:.2f}" for value in row] for row in T]
    return Matrix(_cells(names, T, texts), names, None, top)


def _cells(
    names: tuple[str, ...], shares: NDArray[np.floating], texts: list[list[str]]
) -> tuple[tuple[str, tuple[Share, ...]], ...]:
    return tuple(
        (name, tuple(Share(t, float(s)) for t, s in zip(line, share, strict=True)))
        for name, line, share in zip(names, texts, shares, strict=True)
    )


def _examples(data: RunData, flips: tuple[Flip, ...], items: Items, untold: bool) -> list[Example]:
    """As the page shows them; `untold`: two readings are open, so no single chance is known."""
    names = data.class_names
    shown = []
    for flip in flips:
        item = items.get(flip.index)
        fields = {k: _one_line(v, _TEXT_SHOWN) for k, v in item.fields.items()}
        name = fields.pop("sample", str(flip.index))
        longest = max(fields, key=lambda key: len(fields[key]), default=None)
        reads = longest is not None and len(fields[longest]) > LONG_TEXT
        text = fields.pop(longest) if longest is not None and reads else None
        shown.append(
            Example(
                flip=flip,
                name=f"row {flip.index}" if name.isdecimal() else name,
                given=names[flip.given],
                other=None if flip.other < 0 else names[flip.other],
                wrong=None if untold else chance(flip.suspicion, data.n),
                right=None if untold else chance(flip.confidence, data.n),
                image=None if item.image is None else base64.b64encode(item.image).decode("ascii"),
                text=text,
                fields={k: clean_text(v, 80) for k, v in list(fields.items())[:6]},
            )
        )
    return shown


def _annotators(data: RunData) -> list[tuple[str, ...]]:
    """Name, labels, share of them that is right and worst mistake of each, the worst first."""
    found = data.section("annotators")
    columns = [
        found.get(name) for name in ("quality", "standard_error", "labels", "names", "worst")
    ]
    if not all(isinstance(column, list) for column in columns):
        return []
    numbers = (int, float)
    people = [
        (share, f"{share:.1%} ± {error:.1%}", f"{count:,}", clean_text(name), clean_text(worst))
        for share, error, count, name, worst in zip(*columns, strict=False)
        if all(isinstance(value, numbers) for value in (share, error, count))
    ]
    return [(name, count, share, worst) for _, share, count, name, worst in sorted(people)]


def _one_line(text: object, limit: int) -> str:
    return clean_text(" ".join(str(text).split()), limit)


def _rerun(data: RunData) -> dict[str, Any]:
    run = data.section("run")
    command = run.get("command")
    if isinstance(command, list):
        command = " ".join(str(part) for part in command)
    versions = data.section("versions") or {
        name: run[name] for name in ("adacorr", "torch", "numpy") if name in run
    }
    config = data.run.file("config.toml").read_text(encoding="utf-8")
    cut = len(config) > CONFIG_LENGTH
    return {
        "command": clean_text(command, 2000) if command else None,
        "seed": _seed(data),
        "versions": {clean_text(k): clean_text(v) for k, v in list(versions.items())[:30]},
        "config": config[:CONFIG_LENGTH] + ("\n…" if cut else ""),
    }


def _seed(data: RunData) -> str | None:
    for section in ("run", "train", "data"):
        if "seed" in data.section(section):
            return clean_text(data.section(section)["seed"])
    return None

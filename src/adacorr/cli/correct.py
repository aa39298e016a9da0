"""``adacorr correct``: a table of labels and probabilities in, a corrected table out."""

from __future__ import annotations

import json as json_format
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from adacorr.cli.invocation import command_line
from adacorr.cli.table_options import files, one_input, request
from adacorr.core.validation import InputError
from adacorr.files import temporary_sibling, together

if TYPE_CHECKING:
    from adacorr.correction import Settings, TableResult

_BAR_AFTER = 0.5  # seconds of work before a bar is worth showing


def correct(
    source: Annotated[str | None, Parameter(name="INPUT")] = None,
    /,
    *,
    output: str | None = None,
    labels: Path | None = None,
    probs: Path | None = None,
    label_column: str | None = None,
    probs_column: str | None = None,
    class_columns: str | None = None,
    top_k_columns: str | None = None,
    classes: str | None = None,
    n_classes: int | None = None,
    delta: str = "auto",
    transition: Path | None = None,
    max_flip_error: float | None = None,
    normalize: bool = False,
    verified: Path | None = None,
    seed: int = 0,
    dry_run: bool = False,
    overwrite: bool = False,
    run_dir: Path | None = None,
    report: Path | None = None,
    engine: Literal["local", "dask"] = "local",
    scheduler: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Correct labels from predicted probabilities.

    The output repeats every input column and adds adacorr_label, adacorr_ratio and
    adacorr_flipped (and, with delta "auto", adacorr_confidence). The input is never changed, and
    the output appears only when it is complete. Messages count rows from 0, after the header.

    Parameters
    ----------
    source
        A .csv, .csv.gz, .tsv or .parquet file, a folder of parquet files, a quoted pattern such
        as 'folder/*.parquet', or a URL of these (s3://..., with adacorr[cluster]).
    output
        Where to write, also a URL; the suffix chooses parquet or CSV, for several files it is a
        folder. It repeats every input column and adds adacorr_label, adacorr_ratio,
        adacorr_flipped, and with delta "auto" adacorr_confidence. For .npy input, .npy writes the
        corrected labels alone.
    labels
        Labels as a .npy file, with --probs, instead of INPUT.
    probs
        Probabilities (N, K) as a .npy file.
    label_column
        The column of given labels. Default: label, labels, given_label, target, y, ...
    probs_column
        One list column with all probabilities. Default: pred_probs, probs, ... or the only list.
    class_columns
        One column per class: names with commas, or a prefix with a star such as "p_*".
        Default: prob_*, proba_*, p_*, ...
    top_k_columns
        Two list columns with commas: the indices of the most probable classes and their
        probabilities; the rest of a row is spread evenly over the other classes.
        Default: indices,values.
    classes
        Class names with commas, in the order of the probabilities, or a .txt file with one name
        per line. Default: the names of the class columns, or the distinct labels in sorted order.
    n_classes
        With top-k columns and integer labels: how many classes there are. Default: the largest
        class index in the table plus 1.
    delta
        "auto" fits a noise model; a number in (0, 1] flips to the most probable class when
        p(label) / p(most probable) is below it; a .npy file holds one threshold per pair
        [suggested, given].
    transition
        A .npy file with T[true, given], if you know it; for delta "auto".
    max_flip_error
        With "auto": apply only changes whose probability of being wrong is below this.
    normalize
        Accept rows that do not sum to 1 (tolerance 0.01) and divide them by their sum.
    verified
        Answers of people: a CSV or parquet file with columns row (or id) and label, for example
        one that adacorr ask wrote. They choose the rule, their rows keep their label, and what
        they prove is printed.
    seed
        With --verified: the seed of adacorr ask.
    dry_run
        Say what would change and write nothing.
    overwrite
        Replace an output or report that exists.
    run_dir
        Also write a run directory, for adacorr report and adacorr review.
    report
        Also write an HTML report there.
    engine
        "dask" spreads the files over worker processes; the result is the same.
    scheduler
        The address of a running Dask scheduler whose workers see the same files. Default: workers
        on this machine.
    json
        Print one JSON object instead of text.
    quiet
        Print nothing but errors.
    """
    from adacorr.cli.outputs import check_new
    from adacorr.correction import Settings, correct_table

    inputs = one_input(source, labels, probs)
    _check_outputs(output, dry_run, run_dir, report)
    _check_apart(output, run_dir, report)
    for path in (output, report):
        if path is not None and not dry_run:
            check_new(path, overwrite, *files(inputs))
    columns = request(label_column, probs_column, class_columns, classes, top_k_columns, n_classes)
    settings = Settings(
        _delta(delta), _array(transition), max_flip_error, normalize, verified, seed
    )
    several = sum(place is not None for place in (output, run_dir, report)) > 1
    with (
        _terminated_like_interrupted(),
        _run_folder(run_dir, report, inputs) as folder,
        together() if several else nullcontext(),
    ):
        with _progress(quiet or json) as progress, client_of(engine, scheduler) as client:
            result = correct_table(
                inputs,
                None if dry_run else output,
                columns=columns,
                settings=settings,
                run_dir=folder,
                client=client,
                command=command_line(),
                progress=progress,
            )
        if report is not None and folder is not None:
            _report(folder, report)
    written = [str(path) for path in (None if dry_run else output, run_dir, report) if path]
    if json:
        print(_as_json(result, written))
    elif not quiet:
        print(_as_text(result, settings, written, dry_run))


def _check_outputs(
    output: str | None, dry_run: bool, run_dir: Path | None, report: Path | None
) -> None:
    if dry_run and (run_dir or report):
        raise InputError("expected --dry-run alone, got it with --run-dir or --report")
    if not dry_run and output is None and run_dir is None and report is None:
        raise InputError("expected --output PATH (or --dry-run to write nothing), got neither")
    if report is not None and not report.parent.is_dir():
        raise InputError(f"{report}: expected an existing output folder, got no {report.parent}")


def _check_apart(output: str | None, run_dir: Path | None, report: Path | None) -> None:
    """Three outputs need three places."""
    from adacorr.tables.remote import is_url, without_file_scheme

    output = without_file_scheme(output)
    places = [("--output", output), ("--run-dir", run_dir), ("--report", report)]
    seen: dict[Path, str] = {}
    for option, place in places:
        if place is None or is_url(place):
            continue
        path = Path(place).resolve()
        if path in seen:
            raise InputError(f"{option}: expected another place than {seen[path]}, got {place}")
        seen[path] = option


def _delta(text: str) -> Any:
    if text == "auto":
        return text
    if text.endswith(".npy"):
        return _array(Path(text))
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--delta: expected auto, a number in (0, 1] or a .npy file, got {text!r}"
        ) from None


def _array(path: Path | None) -> Any:
    from adacorr.tables.sources import load_npy

    return None if path is None else load_npy(path)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """A polite kill cleans up like Ctrl-C."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread: nothing to protect
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def client_of(engine: str, scheduler: str | None) -> Iterator[Any]:
    """A Dask client where that engine is asked for, else None."""
    if scheduler is not None and engine != "dask":
        raise InputError("--scheduler: expected only with --engine dask, got it without")
    if engine != "dask":
        yield None
        return
    from adacorr.correction.cluster import connect

    with connect(scheduler) as client:
        yield client


@contextmanager
def _run_folder(
    run_dir: Path | None, report: Path | None, inputs: str | tuple[Path, Path]
) -> Iterator[Path | None]:
    """The run directory; a temporary one when only a report is wanted."""
    if run_dir is not None or report is None:
        yield run_dir
        return
    from adacorr.correction.sinks import writing

    name = Path(inputs if isinstance(inputs, str) else inputs[0]).name
    temporary = temporary_sibling(report.with_name(f"{report.name}.run"))
    with writing(report):
        temporary.mkdir()
    try:
        yield temporary / name
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _report(folder: Path, report: Path) -> None:
    from adacorr.report import write_report
    from adacorr.runs.directory import Run

    write_report(Run.open(folder), report)


@contextmanager
def _progress(silent: bool) -> Iterator[Any]:
    """A bar with rows per second on a terminal, once the work has proved to be long."""
    if silent or not sys.stderr.isatty():
        yield lambda stage, rows, total: None
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._waiting: dict[str, int] = {}

    def __call__(self, stage: str, rows: int, total: int | None) -> None:
        self._waiting[stage] = self._waiting.get(stage, 0) + rows
        if time.monotonic() - self._began < _BAR_AFTER:
            return
        if self._bar is None:
            self._bar = _rich_bar()
            self._bar.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        self._bar.advance(self._tasks[stage], self._waiting.pop(stage))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} rows/s" if task.speed else "")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        Speed(),
        Remaining(),
        console=Console(stderr=True),
        transient=True,
    )


def _as_json(result: TableResult, written: list[str]) -> str:
    stats = result.stats
    return json_format.dumps(
        {
            "rows": stats.rows,
            "flipped": stats.flipped,
            "review": stats.review,
            "classes": list(result.class_names),
            "classes_from_data": result.classes_from_data,
            "noise_rate": result.noise_rate,
            "noise_rate_from": result.noise_rate_from,
            "expected_wrong_flips": stats.expected_wrong_flips,
            "expected_missed_errors": stats.expected_missed_errors,
            "noise_rate_interval": result.interval,
            "suspects": [
                {"row": row, "given": given, "other": other, "suspicion": round(doubt, 4)}
                for row, given, other, doubt in result.suspects()
            ],
            "top_changes": [
                {"given": a, "corrected": b, "rows": n} for a, b, n in result.top_pairs()
            ],
            "rule": result.summary,
            "seconds": round(result.seconds, 3),
            "certificate": None if result.certificate is None else result.certificate.to_dict(),
            "written": written,
        },
        default=_plain,
    )


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _as_text(result: TableResult, settings: Settings, written: list[str], dry_run: bool) -> str:
    stats = result.stats
    verb = "would change" if dry_run else "changed"
    share = stats.flipped / stats.rows
    lines = [f"{verb} {stats.flipped:,} of {stats.rows:,} labels ({share:.1%})"]
    pairs = result.top_pairs()
    if pairs:
        wide = max(len(f"{a} -> {b}") for a, b, _ in pairs)
        lines += ["most frequent changes (given -> corrected):"]
        lines += [f"  {f'{a} -> {b}':<{wide}}  {n:,}" for a, b, n in pairs]
    if result.classes_from_data:
        lines.append(result.codec.guess)
        lines.append("  (give --classes if the probabilities are in another order)")
    if result.layout.top_k and not result.layout.known_classes:
        lines.append(f"classes: {len(result.class_names):,}, as the largest class index tells")
        lines.append("  (give --n-classes or --classes if there are more)")
    lines.append(_noise_text(result))
    if stats.expected_wrong_flips is not None and stats.expected_missed_errors is not None:
        lines.append(
            f"expected: {stats.expected_wrong_flips:,.0f} of the changes wrong, "
            f"{stats.expected_missed_errors:,.0f} wrong labels left"
        )
    if settings.max_flip_error is not None:
        lines.append(f"withheld for review: {stats.review:,}")
    if result.certificate is not None:
        lines += [f"proved: {result.certificate.sentence}", f"  ({result.certificate.basis})"]
    lines += _suspect_lines(result)
    if result.summary.get("note"):
        lines.append(f"note: {result.summary['note']}")
    lines += [f"warning: {sentence}" for sentence in result.summary.get("warnings", ())]
    speed = stats.rows / max(result.seconds, 1e-9)
    where = ", ".join(written) or "nothing"
    lines.append(f"wrote {where} in {result.seconds:.1f} s ({speed:,.0f} rows/s)")
    return "\n".join(lines)


def _noise_text(result: TableResult) -> str:
    """The share of wrong labels: a number with its interval, an interval, or why there is none."""
    between = "" if result.interval is None else "{:.1%} to {:.1%}".format(*result.interval)
    if result.noise_rate is not None:
        rate, basis = result.noise_rate, result.noise_rate_from
        within = f", between {between}" if between else ""
        return f"estimated noise rate of the given labels: {rate:.1%}{within} (from {basis})"
    if between:
        return f"noise rate of the given labels: {between}, which the data do not tell apart"
    return f"noise rate: {result.noise_rate_from}"


def _suspect_lines(result: TableResult) -> list[str]:
    suspects = result.suspects()
    if not suspects:
        return []
    rows = [f"  row {r:,}: {g}, perhaps {o} ({doubt:.0%} suspicion)" for r, g, o, doubt in suspects]
    return ["most suspicious labels (column adacorr_suspicion ranks all):", *rows]

"""``adacorr correct``: a table of labels and probabilities in, a corrected table out."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from adacorr.cli.invocation import command_line
from adacorr.cli.options import LOCAL, NEW, TEXT, EngineOptions, Outputs, Printing
from adacorr.cli.table_options import FOUND, Inputs, TableOptions, files
from adacorr.core.validation import InputError
from adacorr.files import temporary_sibling, together

if TYPE_CHECKING:
    from adacorr.correction import TableSettings


@Parameter(name="*")
@dataclass(frozen=True)
class RuleOptions:
    """The rule that decides which labels change.

    Attributes
    ----------
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
        one that adacorr ask wrote, or a run whose review page was used. They choose the rule, their
        rows keep their label, and what they prove is printed and goes into the run.
    seed
        With --verified: the seed of adacorr ask.
    """

    delta: str = "auto"
    transition: Path | None = None
    max_flip_error: float | None = None
    normalize: bool = False
    verified: Path | None = None
    seed: int = 0

    def settings(self) -> TableSettings:
        """The same with files read."""
        from adacorr.cli.answers import verified_by
        from adacorr.correction import TableSettings

        return TableSettings(
            _delta(self.delta),
            _array(self.transition),
            self.max_flip_error,
            self.normalize,
            verified_by(self.verified),
            self.seed,
        )


AUTO = RuleOptions()


def correct(
    source: Annotated[str | None, Parameter(name="INPUT")] = None,
    /,
    *,
    output: str | None = None,
    table: TableOptions = FOUND,
    rule: RuleOptions = AUTO,
    dry_run: bool = False,
    outputs: Outputs = NEW,
    run_dir: Path | None = None,
    report: Path | None = None,
    where: EngineOptions = LOCAL,
    printing: Printing = TEXT,
) -> None:
    """Correct labels from predicted probabilities.

    The output repeats every input column and adds adacorr_label, adacorr_ratio, adacorr_flipped and
    adacorr_decided_by (given, rule or answers), and with delta "auto" adacorr_confidence,
    adacorr_suspicion and adacorr_alternative. The input is never changed, and the output appears
    only when it is complete. Messages count rows from 0, after the header.

    Parameters
    ----------
    source
        A .csv, .csv.gz, .tsv or .parquet file, a folder of parquet files, a quoted pattern such
        as 'folder/*.parquet', or a URL of these (s3://..., with adacorr[cluster]).
    output
        Where to write, also a URL; the suffix chooses parquet or CSV, for several files it is a
        folder. For .npy input, .npy writes the corrected labels alone.
    dry_run
        Say what would change and write nothing.
    run_dir
        Also write a run directory, for adacorr report and adacorr review.
    report
        Also write an HTML report there.
    """
    from adacorr.cli.answers import keep_certificate
    from adacorr.cli.correct_summary import facts, text
    from adacorr.cli.progress import row_bar
    from adacorr.correction import correct_table
    from adacorr.runs.directory import Run

    inputs = table.inputs(source)
    places = _places(output, dry_run, run_dir, report)
    for path in (output, report):
        if path is not None and not dry_run:
            outputs.check(path, *files(inputs))
    columns, settings = table.request(), rule.settings()
    with (
        _terminated_like_interrupted(),
        _run_folder(run_dir, report, inputs) as folder,
        together() if len(places) > 1 else nullcontext(),
    ):
        with row_bar(printing.silent) as progress, where.client() as client:
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
        if folder is not None:
            note = result.summary.get("note") or ""
            keep_certificate(Run(folder), result.certificate, rule.verified, note, rule.seed)
        if report is not None and folder is not None:
            _report(folder, report)
    printing.result(facts(result, places), text(result, settings, places, dry_run))


def _places(
    output: str | None, dry_run: bool, run_dir: Path | None, report: Path | None
) -> list[str]:
    """Where something will be written: at least one place, each another one; none for a dry run."""
    from adacorr.cli.outputs import check_apart

    if dry_run and (run_dir or report):
        raise InputError("expected --dry-run alone, got it with --run-dir or --report")
    if not dry_run and output is None and run_dir is None and report is None:
        raise InputError("expected --output PATH (or --dry-run to write nothing), got neither")
    if report is not None and not report.parent.is_dir():
        raise InputError(f"{report}: expected an existing output folder, got no {report.parent}")
    check_apart({"--output": output, "--run-dir": run_dir, "--report": report})
    return [str(path) for path in (None if dry_run else output, run_dir, report) if path]


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
def _run_folder(run_dir: Path | None, report: Path | None, inputs: Inputs) -> Iterator[Path | None]:
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

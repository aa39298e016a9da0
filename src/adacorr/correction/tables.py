"""Correct a table on disk: survey, fit, apply, write. Memory does not grow with the rows.

Two passes. The first checks every row and samples; the rule is fitted on the sample; the second
applies it file by file (:func:`correct_file`). A cluster (:mod:`adacorr.correction.cluster`) runs
`survey_source` and `correct_file` elsewhere; here what they return is merged, in order of files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core import kernel
from adacorr.core.answers import Answers
from adacorr.core.asking import check_seed
from adacorr.core.by_class import MIN_ROWS
from adacorr.core.informed import Answered, proved
from adacorr.core.lrt import Rule
from adacorr.core.sparse import TopK, TopKRule, complete, confident_noise_rate, fit_top_k
from adacorr.core.transition import estimate_transition
from adacorr.core.validation import InputError
from adacorr.correction.arrays import fit_rule
from adacorr.correction.panel import PanelRule, fit_panel_rule
from adacorr.correction.process import Corrected, Plan, Stats, correct_source
from adacorr.correction.result import TableResult
from adacorr.correction.rundir import RunSink, row_names, write_config
from adacorr.correction.sinks import OUTPUT_SUFFIXES, completing, is_csv, open_sink, paced, writing
from adacorr.correction.survey import (
    NO_CUTOFF,
    NOBODY,
    Sample,
    Survey,
    sure_cutoff,
    survey_source,
)
from adacorr.correction.verified import Verified
from adacorr.files import atomic_folder, drop_unfinished, together
from adacorr.runs.directory import MAX_CLASSES as MAX_RUN_CLASSES
from adacorr.runs.manifest import sealed
from adacorr.tables.decode import Place, decode_probs
from adacorr.tables.labels import encode_given, stated_order
from adacorr.tables.layout import Layout, Request, find_layout
from adacorr.tables.pipeline import behind
from adacorr.tables.places import Target, arriving, targets
from adacorr.tables.remote import Remote, is_url, without_file_scheme
from adacorr.tables.sources import (
    ArraySource,
    Source,
    is_many,
    names_apart,
    open_arrays,
    open_sources,
    suffix_of,
)

if TYPE_CHECKING:
    from distributed import Client

    from adacorr.labels import Codec

BATCH_ROWS = 1 << 16
BATCH_ELEMENTS = 1 << 21
NOT_ESTIMATED = "not estimated: too few confidently predicted rows"
LARGE_T = 3000  # classes above which a dense K x K estimate costs too much memory
_NUMBA_PAYS = 300_000_000  # probabilities in the whole table, against the time to import numba

Progress = Callable[[str, int, int | None], None]
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class TableSettings:
    """How to decide; the fields of :func:`adacorr.correct`."""

    delta: ArrayLike | str = "auto"
    T: ArrayLike | None = None
    max_flip_error: float | None = None
    normalize: bool = False
    verified: Any = None
    rng: int = 0


def correct_table(
    source: str | Path | tuple[str | Path, ...],
    output: str | Path | None = None,
    *,
    columns: Request | None = None,
    settings: TableSettings | None = None,
    run_dir: str | Path | None = None,
    client: Client | None = None,
    command: str = "",
    batch_rows: int | None = None,
    progress: Progress = lambda stage, rows, total: None,
) -> TableResult:
    """Correct the labels of a table on disk.

    Parameters
    ----------
    source : a CSV or parquet file, a folder of parquet files, a pattern such as ``a/*.parquet``, a
        URL of these that fsspec can open, or .npy files: labels (N,), or (N, M) for several
        annotators, and pred_probs of one model or more.
    output : where the table with its new columns goes; None writes nothing. A folder for several
        files; otherwise the suffix decides between parquet and CSV, and .npy (for .npy input)
        holds the corrected labels alone.
    columns : which columns hold labels and probabilities; found by name and type otherwise. Several
        label columns are annotators, several blocks of probabilities are models.
    settings : delta, T, max_flip_error, normalize, verified and rng as in
        :func:`adacorr.correct`; verified may be a CSV or parquet file with columns row (or id) and
        label.
    run_dir : also write a run directory there, for the report and the review page.
    client : of a Dask cluster, which then reads and writes the files; all workers must see them.
    command : recorded in the run directory.
    batch_rows : rows per batch; the result does not depend on it.
    progress : called with a stage, rows done since the last call, and rows in all where known.
    """
    began = time.perf_counter()
    source, output = without_file_scheme(source), without_file_scheme(output)
    if client is not None:  # workers have folders of their own
        source, output = _absolute(source), _absolute(output)
    request, settings = columns or Request(), settings or TableSettings()
    many = not isinstance(source, tuple) and is_many(source)
    sources = open_inputs(source)
    stamps = _stamps(sources)
    target = None if output is None else Remote(str(output)) if is_url(output) else Path(output)
    folder = None if run_dir is None else Path(run_dir)
    if client is not None:
        _check_cluster(source, folder)
    _check_places(source, sources, target, folder, many)
    layout = common_layout(sources, request)
    rows = batch_rows or rows_per_batch(sources, layout)
    verified = Verified.of(settings.verified)
    asked = None if verified is None else verified.rows(sources)
    survey, starts = survey_all(
        sources, layout, rows, progress, client, normalize=settings.normalize, answered=asked
    )
    answers = None
    if verified is not None and asked is not None:
        answers = verified.answers(asked, survey.rows, survey.codec(layout))
    plan, noise = _plan(survey, layout, settings, answers, rows, _typed(sources, target))
    if folder is not None and len(plan.codec.names) > MAX_RUN_CLASSES:
        got = f"{len(plan.codec.names):,}; write --output alone"
        wanted = f"at most {MAX_RUN_CLASSES:,} classes in a run directory or report"
        raise InputError(f"{folder}: expected {wanted}, got {got}")

    def result(stats: Stats) -> TableResult:
        spent = time.perf_counter() - began
        certificate = None if stats.tally is None else proved(plan.rule, stats.tally)
        people = ()
        if isinstance(plan.rule, PanelRule) and stats.quality is not None:
            people = plan.rule.people(stats.quality)
        said = plan.rule.summary
        return TableResult(stats, plan.codec, *noise, said, layout, spent, certificate, people)

    def describe(path: Path, stats: Stats) -> None:
        files = [] if client or is_url(source) else [Path(str(s.path)) for s in sources]
        rule = {"delta": settings.delta, "T": settings.T, "max_flip_error": settings.max_flip_error}
        write_config(path, result(stats), source, sources[0], rule, command, files)

    outputs = _Outputs(target, folder, many, client)
    read = Inputs(sources, starts, stamps, survey.rows)
    return result(_write(read, plan, outputs, progress, describe))


def correct_file(
    source: Source,
    plan: Plan,
    target: Target,
    also: Callable[[Corrected], None] | None = None,
    start: int = 0,
) -> Generator[Stats]:
    """Correct one file into where `target` says; counts of each batch.

    `start` is the number of its first row in the whole input; `also` gets every batch too. Counts
    merge: ``reduce(Stats.merge, correct_file(...))``.
    """
    with writing(target.output), arriving(target) as temporary:
        sink = open_sink(temporary, target.output, source, plan)
        with (
            completing(sink, target.output) as write,
            behind(paced(write, temporary)) as write_behind,
        ):

            def both(done: Corrected) -> None:
                write_behind(done)
                if also is not None:
                    also(done)

            yield from correct_source(source, plan, both, start)


def open_inputs(source: str | Path | tuple[str | Path, ...]) -> list[Source]:
    if isinstance(source, tuple):
        return [open_arrays(Path(source[0]), [Path(path) for path in source[1:]])]
    return open_sources(source)


def _absolute(place: Any) -> Any:
    if place is None or is_url(place) or isinstance(place, tuple):
        return place
    return str(Path(place).absolute())


def _stamps(sources: Sequence[Source]) -> dict[Path, Stamp]:
    """What changes when a file is replaced or written to; of files that are still there."""
    paths = {path for s in sources for path in s.paths if isinstance(path, Path)}
    found = {}
    for path in paths:
        with suppress(FileNotFoundError):
            state = path.stat()
            found[path] = state.st_ino, state.st_size, state.st_mtime_ns
    return found


def _check_cluster(source: str | Path | tuple[str | Path, ...], run_dir: Path | None) -> None:
    if isinstance(source, tuple):
        raise InputError("--engine dask: expected INPUT files, got --labels and --probs")
    if run_dir is not None:
        raise InputError(
            "--engine dask: expected --output alone, got --run-dir or --report; "
            "they hold all rows in one place: run without --engine dask for them"
        )


def _check_places(
    source: str | Path | tuple[str | Path, ...],
    sources: Sequence[Source],
    output: Path | Remote | None,
    run_dir: Path | None,
    many: bool,
) -> None:
    """Refuse outputs that would touch an input or could not be finished, before any work."""
    folder = many and not is_url(source) and Path(source).is_dir()  # pyright: ignore[reportArgumentType]
    for path in (output, run_dir):
        if not isinstance(path, Path):
            continue
        if not path.parent.is_dir():
            raise InputError(f"{path}: expected an existing output folder, got no {path.parent}")
        _check_apart(path, sources)
        if path is run_dir or many:
            drop_unfinished(path)
        if folder and Path(source).resolve() in path.resolve().parents:  # pyright: ignore[reportArgumentType]
            raise InputError(f"{path}: expected an output outside the input folder, got inside")
        if (path is run_dir or many) and path.exists() and (path.is_file() or _has_files(path)):
            raise InputError(f"{path}: expected a new or empty folder, got an existing one")
    if output is None:
        return
    arrays = isinstance(source, tuple)
    suffixes = (*OUTPUT_SUFFIXES, ".npy") if arrays else OUTPUT_SUFFIXES
    if many and suffix_of(output) in suffixes:
        raise InputError(f"{output}: expected a folder name, as the input is one, got a file name")
    if not many and suffix_of(output) not in suffixes:
        got = output.suffix or "no suffix"
        raise InputError(f"{output}: expected an output named {' or '.join(suffixes)}, got {got}")
    if not many and output.is_dir():
        raise InputError(f"{output}: expected a file name, got an existing folder")
    if isinstance(output, Remote) and str(output).rstrip("/") in _inputs_and_folders(sources):
        raise InputError(f"{output}: expected an output other than the input, got the input itself")
    if many and isinstance(output, Remote) and output.is_dir() and output.files("*") != []:
        raise InputError(f"{output}: expected a new or empty folder, got an existing one")


def _check_apart(path: Path, sources: Sequence[Source]) -> None:
    found = (Path(name) for name in _inputs_and_folders(sources) if not is_url(name))
    if path.exists() and any(path.samefile(other) for other in found):
        raise InputError(f"{path}: expected an output other than the input, got the input itself")


def _inputs_and_folders(sources: Sequence[Source]) -> set[str]:
    paths = {path for s in sources for path in s.paths}
    return {str(p) for p in paths} | {str(p.parent) for p in paths if len(sources) > 1}


def _has_files(path: Path) -> bool:
    return next(path.iterdir(), None) is not None


def common_layout(sources: Sequence[Source], request: Request) -> Layout:
    """The same columns in every file."""
    first = sources[0]
    if isinstance(first, ArraySource):
        request = replace(
            request, label_column=first.label_columns, probs_column=first.probs_columns
        )
    layout = find_layout(first.types, str(first.path), request)
    for source in sources[1:]:
        for name in layout.needed:
            if source.types.get(name) != sources[0].types[name]:
                got = f"type {source.types[name]}" if name in source.types else "none"
                raise InputError(
                    f"{source.path}: expected a column {name!r} of type "
                    f"{sources[0].types[name]} as in {sources[0].path.name}, got {got}"
                )
    order = stated_order(first, layout.label)
    for name in layout.labels[1:]:
        if stated_order(first, name) != order:
            raise InputError(
                f"{first.path}: expected the classes of column {layout.label!r} in the order that "
                f"its type states, got others in column {name!r}; name them with --classes"
            )
    return replace(layout, order=order)


def rows_per_batch(sources: Sequence[Source], layout: Layout) -> int:
    """So many that a batch stays small in memory, whatever the number of classes."""
    for source in sources:
        for batch in source.batches(layout.needed, 1):
            if batch.num_rows:
                place = Place(source, layout)
                f = decode_probs(batch, place, check=False, normalize=False)
                k = max(f.width, 8) if isinstance(f, TopK) else f.shape[1]
                return int(np.clip(BATCH_ELEMENTS // k, 64, BATCH_ROWS))
    raise InputError(f"{sources[0].path}: expected at least one row, got none")


def survey_all(
    sources: Sequence[Source],
    layout: Layout,
    rows: int,
    progress: Progress,
    client: Client | None,
    *,
    normalize: bool,
    answered: NDArray[np.int64] | None = None,
) -> tuple[Survey, list[int]]:
    """The first pass over all files, and the number of the first row of each."""
    counts = [source.n_rows for source in sources]
    total = None if None in counts else sum(n for n in counts if n is not None)
    options: dict[str, Any] = {
        "batch_rows": rows,
        "normalize": normalize,
        "progress": lambda done: progress("checking", done, total),
        "answered": NOBODY if answered is None else np.unique(answered),
    }
    cutoff = NO_CUTOFF if total is None else sure_cutoff(total)
    elsewhere = None
    if client is not None:
        from adacorr.correction import cluster

        elsewhere = iter(cluster.survey_files(client, sources, layout, **options))
    survey, starts = Survey(), []
    for source in sources:
        if elsewhere is not None:
            part = next(elsewhere)
        else:
            part = survey_source(source, layout, survey.rows, cutoff=cutoff, **options)
        differ = survey.rows and part.rows and part.n_classes != survey.n_classes
        if differ and not layout.top_k:
            raise InputError(
                f"{source.path}: expected {survey.n_classes} probabilities per row as in the "
                f"files before, got {part.n_classes}"
            )
        starts.append(survey.rows)
        survey = survey.merge(part)
    return survey, starts


def _plan(
    survey: Survey,
    layout: Layout,
    settings: TableSettings,
    answers: Answers | None,
    rows: int,
    typed: bool,
) -> tuple[Plan, tuple[float | None, str]]:
    codec, sample = survey.codec(layout), survey.sample
    assert sample is not None
    codes = encode_given(codec, sample.labels, Place(sample, layout))
    f = complete(sample.pred_probs, len(codec.names))
    seed = check_seed(settings.rng)
    if layout.annotators:
        rule = _panel_rule(codes, f, layout, settings)
        stated = rule.summary["noise_rate"]
        noise = stated, "not estimated" if stated is None else "the annotators and the model"
        return Plan(layout, codec, rule, settings.normalize, rows, typed, answers, seed), noise
    dense = not isinstance(f, TopK)
    if dense and survey.rows * survey.n_classes >= _NUMBA_PAYS:
        kernel.load(survey.n_classes)
    options: dict[str, Any] = {
        "delta": settings.delta,
        "T": settings.T,
        "max_flip_error": settings.max_flip_error,
    }
    if dense:
        answered = _answered(survey, layout, codec, answers) if answers else None
        rule = fit_rule(codes, f, **options, answered=answered)
    else:
        rule = fit_top_k(codes, f, **options)
    noise = _noise_rate(rule, codes, f)
    return Plan(layout, codec, rule, settings.normalize, rows, typed, answers, seed), noise


def _panel_rule(
    codes: NDArray[np.int64], f: Any, layout: Layout, settings: TableSettings
) -> PanelRule:
    """For several annotators."""
    if not isinstance(settings.delta, str) or settings.T is not None:
        raise InputError("labels: expected delta='auto' and no T with several annotators")
    if isinstance(f, TopK):
        raise InputError(
            f"labels: expected all probabilities with several annotators, got the largest of "
            f"{f.n_classes:,}"
        )
    return fit_panel_rule(codes, f, layout.annotators, settings.max_flip_error)


def _answered(survey: Survey, layout: Layout, codec: Codec, answers: Answers) -> Answered:
    """The rows that people answered, as the first pass met them."""
    sample = Sample.joined(survey.answered)
    codes = encode_given(codec, sample.labels, Place(sample, layout))
    f: Any = complete(sample.pred_probs, len(codec.names))
    return Answered(codes, f, answers.codes)


def _noise_rate(rule: Rule | TopKRule, codes: Any, f: Any) -> tuple[float | None, str]:
    how = "given labels among confidently predicted rows"
    stated = rule.summary.get("noise_rate")
    if stated is not None:
        return float(stated), "the fitted noise model"
    if rule.summary["rule"] == "auto":
        return None, "not estimated"  # its note says why
    if isinstance(f, TopK):
        rate = confident_noise_rate(codes, f)
    elif f.shape[1] > LARGE_T:
        return None, f"not estimated for more than {LARGE_T} classes"
    else:
        found = estimate_transition(codes, f)
        rate = found.noise_rate if found.counts.sum() >= MIN_ROWS else None
    return (rate, how) if rate is not None else (None, NOT_ESTIMATED)


def _typed(sources: Sequence[Source], output: Path | Remote | None) -> bool:
    return output is not None and is_csv(sources[0]) and suffix_of(output) in (".parquet", ".pq")


@dataclass(frozen=True)
class Inputs:
    """The files, as the first pass left them.

    Attributes
    ----------
    starts : the number of the first row of each in the whole input.
    stamps : what changes when one of them is replaced.
    rows : of all together.
    """

    sources: Sequence[Source]
    starts: Sequence[int]
    stamps: Mapping[Path, Stamp]
    rows: int


@dataclass(frozen=True)
class _Outputs:
    """Where the second pass writes (None where it does not), and who runs it."""

    table: Path | Remote | None
    run_dir: Path | None
    many: bool
    client: Client | None


def _write(
    inputs: Inputs,
    plan: Plan,
    outputs: _Outputs,
    progress: Progress,
    describe: Callable[[Path, Stats], None],
) -> Stats:
    """The second pass. Outputs take their names at the very end, and only if all went well."""
    sources, rows = inputs.sources, inputs.rows
    with ExitStack() as stack:
        if outputs.table is not None and outputs.run_dir is not None:
            stack.enter_context(together())
        run_folder = also = None
        ends: Sequence[Target | None] = [None] * len(sources)
        if outputs.table is not None:
            stack.enter_context(writing(outputs.table))
            names = names_apart(sources)
            ends = stack.enter_context(targets(outputs.table, names, folder=outputs.many))
        if outputs.run_dir is not None:
            stack.enter_context(writing(outputs.run_dir))
            run_folder = stack.enter_context(atomic_folder(outputs.run_dir))
            stack.enter_context(sealed(run_folder))
            sink = RunSink(run_folder, rows, plan, row_names(sources[0], plan.layout))
            also = stack.enter_context(completing(sink, outputs.run_dir))
        stats = Stats()
        # closing: an interrupt must unwind the parts now, not when they are collected
        with closing(_parts(inputs, plan, ends, also, outputs.client, progress)) as parts:
            for part in parts:
                stats = stats.merge(part)
        if stats.rows != rows:
            raise InputError(
                f"{sources[0].path}: expected {rows} rows as at first, got {stats.rows}; "
                "the input changed while it was read"
            )
        for path, now in _stamps(sources).items():
            if now != inputs.stamps[path]:
                raise InputError(f"{path}: expected the same file in both passes, got another")
        if run_folder is not None:
            describe(run_folder, stats)
    return stats


def _parts(
    inputs: Inputs,
    plan: Plan,
    ends: Sequence[Target | None],
    also: Callable[[Corrected], None] | None,
    client: Client | None,
    progress: Progress,
) -> Generator[Stats]:
    """Counts of every batch, or of every file if a cluster did them, in order."""
    sources, starts, rows = inputs.sources, inputs.starts, inputs.rows
    if client is not None:
        from adacorr.correction import cluster

        yield from cluster.correct_files(
            client, sources, plan, ends, starts, lambda done: progress("correcting", done, rows)
        )
        return
    for source, end, start in zip(sources, ends, starts, strict=True):
        if end is None:
            one = correct_source(source, plan, also or (lambda done: None), start)
        else:
            one = correct_file(source, plan, end, also, start)
        with closing(one) as parts:
            for part in parts:
                progress("correcting", part.rows, rows)
                yield part

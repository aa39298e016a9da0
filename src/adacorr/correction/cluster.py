"""Files spread over a Dask cluster; one file is one partition.

Tasks are pure: a worker that dies loses nothing, its files are done again elsewhere. What comes
back are small mergeable sums (:class:`~adacorr.correction.survey.Survey`,
:class:`~adacorr.correction.process.Stats`); rows stay with the workers.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial, reduce
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

from adacorr.core.validation import InputError, one_line
from adacorr.correction.process import Plan, Stats, correct_source
from adacorr.correction.survey import Survey, sure_cutoff, survey_source
from adacorr.tables.layout import Layout
from adacorr.tables.places import Target
from adacorr.tables.sources import Source

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK = "127.0.0.1"
NO_WORKERS = 60.0  # seconds without any worker before we give up
_POLL = 0.1
AHEAD = 3  # items of a stream that are under way for each thread of a worker
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Pool(ProcessPoolExecutor):
    """Processes of this machine; both ways things travel as on a cluster, by cloudpickle."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        return super().submit(_call, _Carried((fn, args, options)))


def _call(carried: Any) -> _Carried:
    fn, args, options = carried
    return _Carried(fn(*args, **options))


class _Carried:
    """Arrives as the value itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle  # Dask's own

        return cloudpickle.loads, (cloudpickle.dumps(self.value),)


@contextmanager
def connect(scheduler: str | None) -> Iterator[Client]:
    """A client of the scheduler at that address, or of a cluster on this machine's cores."""
    try:
        import dask.config as settings
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "--engine dask: expected the extra adacorr[cluster], got no dask"
        ) from None
    if scheduler is None:
        from dask.system import CPU_COUNT

        # A scheduler with an address runs what anybody sends it, and this machine has other users.
        # So ours has none: its processes are reached through pipes. What is left of its web
        # servers, which Dask always starts, answers nothing.
        closed = {f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")}
        pool = _Pool(CPU_COUNT, mp_context=get_context("spawn"))
        with (
            pool,
            settings.set(closed),
            LocalCluster(
                processes=False,
                n_workers=1,
                threads_per_worker=CPU_COUNT,
                executor=pool,
                memory_limit=0,  # rows are in the other processes
                scheduler_kwargs={"dashboard": False},
                dashboard_address=f"{LOOPBACK}:0",
                worker_dashboard_address=f"{LOOPBACK}:0",
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    for name in ("distributed.client", "distributed.utils", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is one line
    try:
        client = Client(scheduler, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        reason = one_line(error)
        raise InputError(f"--scheduler {scheduler}: expected a scheduler, got: {reason}") from error
    with client:
        yield client


def survey_files(
    client: Client,
    sources: Sequence[Source],
    layout: Layout,
    *,
    batch_rows: int,
    progress: Callable[[int], None],
    **options: Any,
) -> list[Survey]:
    """The first pass, file by file; the survey of each in order. `options` are its own."""
    counts = [source.n_rows for source in sources if source.n_rows is not None]
    if len(counts) < len(sources):  # CSV: only reading tells
        counts = _map(client, partial(_count, layout=layout, batch_rows=batch_rows), sources)
    starts = [sum(counts[:i]) for i in range(len(counts))]
    options |= {"batch_rows": batch_rows, "cutoff": sure_cutoff(sum(counts))}
    work = partial(_survey, layout=layout, options=options)
    items = list(zip(sources, starts, strict=True))
    return _map(client, work, items, lambda survey: progress(survey.rows))


def correct_files(
    client: Client,
    sources: Sequence[Source],
    plan: Plan,
    targets: Sequence[Target | None],
    starts: Sequence[int],
    progress: Callable[[int], None],
) -> list[Stats]:
    """The second pass, file by file; the counts of each in order."""
    items = list(zip(sources, targets, starts, strict=True))
    return _map(client, _correct, items, lambda stats: progress(stats.rows), shared=plan)


def _count(source: Source, *, layout: Layout, batch_rows: int) -> int:
    return sum(batch.num_rows for batch in source.batches([layout.label], batch_rows))


def _survey(item: tuple[Source, int], *, layout: Layout, options: dict[str, Any]) -> Survey:
    source, start = item
    return survey_source(source, layout, start, **options)


def _correct(item: tuple[Source, Target | None, int], plan: Plan) -> Stats:
    from adacorr.correction.tables import correct_file

    source, target, start = item
    if target is None:
        parts = correct_source(source, plan, lambda done: None, start)
    else:
        parts = correct_file(source, plan, target, start=start)
    return reduce(Stats.merge, parts, Stats())


def stream(
    client: Client,
    function: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Iterable[Item],
) -> Iterator[Result]:
    """``function(shared, item)`` of every item, in order; the items are drawn as they are needed.

    `shared` travels once to each worker, and again to one that takes the place of another.
    """
    held = client.submit(_same, shared, pure=False)
    waiting: deque[Any] = deque()

    def first() -> Result:
        (future,) = _finished(client, [waiting[0]])
        found: Any = future.result()
        waiting.popleft()
        return found

    try:
        with _failures():
            for item in items:
                waiting.append(client.submit(function, held, item, pure=False))
                workers: Any = client.nthreads()
                if len(waiting) >= AHEAD * max(1, sum(workers.values())):
                    yield first()
            while waiting:
                yield first()
    finally:
        with suppress(Exception):
            client.cancel([held, *waiting])


def _same(shared: Shared) -> Shared:
    return shared


def _map(
    client: Client,
    function: Callable[..., Result],
    items: Sequence[Item],
    done: Callable[[Result], None] = lambda result: None,
    shared: Any = None,
) -> list[Result]:
    """``[function(item) for item in items]``; `shared` is one more argument, sent once."""
    import dask.bag
    from dask.delayed import delayed

    extra = [] if shared is None else [delayed(shared, pure=True)]
    bag = dask.bag.from_sequence(items, partition_size=1)
    # a name of its own, or a scheduler that remembers an earlier run would answer with that
    parts = bag.map_partitions(partial(_each, function, uuid.uuid4().hex), *extra)
    futures: Any = client.compute(parts.to_delayed(optimize_graph=False))
    found: dict[str, Result] = {}
    try:
        with _failures():
            for future in _finished(client, futures):
                result: Any = future.result()
                found[future.key] = result[0]
                done(found[future.key])
    finally:
        with suppress(Exception):
            client.cancel(futures)
    return [found[future.key] for future in futures]


@contextmanager
def _failures() -> Iterator[None]:
    """What becomes of a cluster, in one line."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (KilledWorker, BrokenExecutor) as error:
        raise InputError(f"cluster: expected workers that live, got: {error}") from error
    except (CancelledError, CommClosedError) as error:  # nobody but us cancels, and we have not
        raise _lost(error) from error


def _lost(error: BaseException) -> InputError:
    reason = one_line(error)
    return InputError(f"cluster: expected a scheduler that lives, got: {reason}")


def _finished(client: Client, futures: list[Any]) -> Iterator[Any]:
    """Futures as they finish; an error once there has been nobody to work for a while."""
    from distributed import as_completed

    waiting, alone = as_completed(futures), 0.0
    while not waiting.is_empty():
        batch = waiting.next_batch(block=False)
        yield from batch
        if batch:
            alone = 0.0
            continue
        time.sleep(_POLL)
        try:
            workers = client.nthreads()
        except (OSError, TimeoutError) as error:
            raise _lost(error) from error
        alone = 0.0 if workers else alone + _POLL
        if alone > NO_WORKERS:
            raise InputError(f"cluster: expected a worker, got none for {NO_WORKERS:.0f} s")


def _each(
    function: Callable[..., Result], run: str, items: Sequence[Any], *extra: Any
) -> list[Result]:
    return [function(item, *extra) for item in items]

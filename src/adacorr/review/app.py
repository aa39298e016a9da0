"""The review page's server: small JSON answers about flips, by number only."""

from __future__ import annotations

import inspect
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Body, Cookie, FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask

from adacorr.core.certificate import flip_error_limit, reviews_needed
from adacorr.core.validation import InputError
from adacorr.review.answers import Said
from adacorr.review.beside import Beside
from adacorr.review.export import APPLIED, export
from adacorr.review.guard import AUTHOR, Gate, Guard, set_cookies
from adacorr.review.interview import CERTIFICATE, Interview, final_file
from adacorr.review.previews import Late, Previews
from adacorr.review.questions import too_large
from adacorr.review.queue import ChangeQueue, Flips, Order, audited, load_flips, load_rows
from adacorr.review.search import Search
from adacorr.review.store import ACCEPT, OTHER, REJECT, SKIP, SignOff, Store
from adacorr.runs.reader import RunData, clean_text
from adacorr.runs.samples import Items

CONFIDENCE = 0.95
TOP_PROBABILITIES = 6
MAX_AT_ONCE = 100
PICTURE_SIDE = 512
SAMPLE_SECONDS = 10.0
SHOW_ALL = 20_000
"""In larger runs the samples beside another are shown only if they are asked about themselves."""
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

SampleNumber = Annotated[int, PathParameter(ge=0, le=2**40)]
ClassNumber = Annotated[int, Query(ge=0, le=2**31)]
Author = Annotated[str, Cookie(alias=AUTHOR, max_length=100)]
Client = Annotated[str, Query(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9-]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SentDecision(_Strict):
    """One decision as the page sends it."""

    flip: int = Field(ge=0, le=2**40)
    choice: Literal["accept", "reject", "other", "skip"]
    label: int | None = Field(default=None, ge=0, le=2**31)
    seen: int = Field(default=0, ge=0, le=2**62)
    note: str = Field(default="", max_length=500)


class SentDecisions(_Strict):
    reviewer: str = Field(min_length=1, max_length=60)
    decisions: list[SentDecision] = Field(min_length=1, max_length=MAX_AT_ONCE)


class Given(_Strict):
    """One answer as the page sends it; no label: cannot tell."""

    reviewer: str = Field(min_length=1, max_length=60)
    row: int = Field(ge=0, le=2**40)
    label: int | None = Field(default=None, ge=0, le=2**31)
    blind: bool = True
    note: str = Field(default="", max_length=500)


class Undo(_Strict):
    reviewer: str = Field(min_length=1, max_length=60)


@dataclass
class Desk:
    """One run under review: its flips, its decisions and its samples."""

    data: RunData
    flips: Flips
    store: Store
    queue: ChangeQueue
    items: Items
    target: float = 0.05
    interview: Interview | None = None
    names: tuple[str, ...] = field(init=False)
    samples: NDArray[np.int64] = field(init=False)
    previews: Previews = field(init=False)
    search: Search = field(init=False)

    def __post_init__(self) -> None:
        self.names = self.data.class_names
        self.samples = np.unique(
            self.flips.index if self.interview is None else self.interview.rows.index
        )
        self.search = Search(self.data, self.items, self.items.wanted)
        self.previews = Previews(lambda sample: self.items.get(sample), SAMPLE_SECONDS)

    @classmethod
    def open(cls, data: RunData, database: Path, target: float = 0.05) -> Desk:
        flips = load_flips(data)
        store = Store(database, flips, data.n_classes)
        queue = ChangeQueue.create(flips, store.audit_order())
        if too_large(data):
            return cls(data, flips, store, queue, Items(data, flips.index, PICTURE_SIDE), target)
        rows = load_rows(data)
        interview = Interview(data, store, rows)
        some = np.concatenate([flips.row, interview.questions.order])
        shown = np.arange(data.n) if data.n <= SHOW_ALL else some
        items = Items(data, rows.index[shown], PICTURE_SIDE)
        return cls(data, flips, store, queue, items, target, interview)

    def item(self, flip: int) -> dict[str, Any]:
        """A flip as the page shows it."""
        flips, sure = self.flips, float(self.flips.confidence[flip])
        return {
            "flip": flip,
            "row": int(flips.row[flip]),
            "sample": int(flips.index[flip]),
            "given": int(flips.given[flip]),
            "proposed": int(flips.proposed[flip]),
            "ratio": round(float(flips.ratio[flip]), 6),
            "confidence": None if np.isnan(sure) else round(sure, 4),
            "bars": self.bars(
                int(flips.row[flip]), int(flips.given[flip]), int(flips.proposed[flip])
            ),
            "seen": int(self.store.latest[flip]),
            "skipped": bool(self.store.state[flip] == SKIP),
            "withheld": bool(flips.withheld[flip]),
            "suspect": bool(flips.suspect[flip]),
            "suspicion": round(float(flips.suspicion[flip]), 4),
        }

    def progress(self) -> dict[str, Any]:
        """Counts, the audit, and who has decided how much."""
        state = self.store.current()
        suspect = self.flips.suspect
        counts = np.bincount(state[~suspect], minlength=5)
        judged = np.isin(state[suspect], (ACCEPT, REJECT, OTHER))
        return {
            "total": int((~suspect).sum()),
            "suspects": len(judged),
            "suspects_decided": int(judged.sum()),
            "accepted": int(counts[ACCEPT]),
            "rejected": int(counts[REJECT]),
            "other": int(counts[OTHER]),
            "skipped": int(counts[SKIP]),
            "reviewers": self.store.counts_by_reviewer(),
            "audit": self.audit(state),
            "note": self.items.note(wait=False),
        }

    def audit(self, state: NDArray[np.int8]) -> dict[str, Any]:
        """The Clopper-Pearson limit on the flip error, from the audit sample alone."""
        total = len(self.queue.orders["audit"])
        reviewed, wrong = audited(self.queue.orders["audit"], state)
        answer: dict[str, Any] = {
            "total": total,
            "reviewed": reviewed,
            "wrong": wrong,
            "confidence": CONFIDENCE,
            "target": self.target,
            "limit": None,
            "needed": None,
        }
        if total:
            needed = _reviews_needed(self.target, wrong, total)
            answer["limit"] = _limit(wrong, reviewed, total)
            answer["needed"] = None if needed is None else max(0, needed - reviewed)
        return answer

    def decide(self, sent: SentDecisions, author: str) -> list[dict[str, Any]]:
        """Write the decisions; those that someone else made first come back."""
        decisions = [self._checked(verdict) for verdict in sent.decisions]
        refused = self.store.decide(decisions, clean_text(sent.reviewer, 60), author)
        return [
            {"flip": e.flip, "choice": e.choice, "label": e.label, "reviewer": e.reviewer}
            for e in refused
        ]

    def _checked(self, verdict: SentDecision) -> SignOff:
        self.check(verdict.flip)
        known = verdict.label is not None and verdict.label < len(self.names)
        if (verdict.choice == "other") != (verdict.label is not None) or (
            verdict.label is not None and not known
        ):
            raise HTTPException(422, "expected a class of this run exactly with choice 'other'")
        note = clean_text(verdict.note, 500)
        return SignOff(verdict.flip, verdict.choice, verdict.label, verdict.seen, note)

    def class_of(self, label: int | None) -> int | None:
        if label is not None and label >= len(self.names):
            raise HTTPException(422, f"expected a class below {len(self.names)}, got {label}")
        return label

    def known(self, sample: int) -> int:
        """A sample of this run, by its number in the source; others are not looked for."""
        at = int(np.searchsorted(self.samples, sample))
        if at == len(self.samples) or self.samples[at] != sample:
            raise HTTPException(404, f"expected a sample of this run, got {sample}")
        return sample

    def find(self, text: str, among: str, after: int) -> dict[str, Any]:
        """The first sample after one that a text leads to, from the start again at the end."""
        found = self.search.find(text)
        if among == "changes":
            found = found[np.isin(found, self.flips.index)]
        if not len(found):
            where = "changes and suspects" if among == "changes" else "samples of this page"
            raise HTTPException(404, f"nothing found among the {where}: {clean_text(text)}")
        later = found[found > after]
        sample = int(later[0] if len(later) else found[0])
        if among == "changes":
            item = self.item(int(np.flatnonzero(self.flips.index == sample)[0]))
        else:
            assert self.interview is not None
            item = self.interview.question(
                int(np.flatnonzero(self.interview.rows.index == sample)[0])
            )
        return {"item": item, "found": len(found)}

    def rest(self) -> NDArray[np.int64] | None:
        """What the rule that the answers chose is least sure of; None before there is one."""
        found = None if self.interview is None else self.interview.analyst.latest
        return None if found is None else found.doubtful(self.flips.row)

    def check(self, flip: int) -> None:
        if flip >= len(self.flips):
            raise HTTPException(404, f"expected a flip below {len(self.flips)}, got {flip}")

    def bars(self, row: int, *always: int) -> list[tuple[int, float]]:
        """(class, probability) of a row, the largest first; some classes are always among them."""
        if self.data.pred_probs is None:
            return []
        p = np.asarray(self.data.pred_probs[row], dtype=np.float64)
        p = np.nan_to_num(p, nan=0.0, posinf=0.0, neginf=0.0)
        shown = set(np.argsort(-p, kind="stable")[:TOP_PROBABILITIES].tolist()) | set(always)
        return [(c, round(float(p[c]), 5)) for c in sorted(shown, key=lambda c: (-p[c], c))]


@lru_cache(1024)
def _limit(wrong: int, reviewed: int, total: int) -> float:
    return flip_error_limit(wrong, reviewed, CONFIDENCE, n_flips=total)


@lru_cache(1024)  # asked for with every decision, and dear: a search within a search
def _reviews_needed(target: float, wrong: int, total: int) -> int | None:
    """Audit reviews, all but `wrong` right, until the target is shown; None: out of reach."""
    try:
        return reviews_needed(target, CONFIDENCE, wrong, n_flips=total)
    except InputError:
        return None


def create_app(desk: Desk, guard: Guard) -> Gate:
    """The web application: the page, its three files, and the answers below ``/api``."""
    options: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": None}
    if "telemetry" in inspect.signature(FastAPI).parameters:  # newer versions would look for it
        options["telemetry"] = {"auto_configure": False}
    app = FastAPI(title="adacorr review", **options)

    async def unavailable(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": f"not saved: {clean_text(error, 300)}"}, 503)

    for kind in (sqlite3.Error, InputError, OSError):
        app.add_exception_handler(kind, unavailable)
    app.add_exception_handler(Late, _late)
    app.add_exception_handler(RequestValidationError, _not_understood)

    _add_page(app, guard)
    _add_run(app, desk, guard)
    _add_reads(app, desk, f"/api/{guard.run}")
    _add_writes(app, desk, f"/api/{guard.run}")
    if desk.interview is not None:
        add_questions(app, desk, desk.interview, f"/api/{guard.run}")
    return Gate(app, guard)


async def _late(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": clean_text(error, 300)}, 504)


async def _not_understood(_: Request, error: Exception) -> Response:
    """What was wrong and where, without the value: not all that JSON can say can be said back."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    status = 400 if first["loc"][0] == "body" else 422
    return JSONResponse({"detail": clean_text(f"{place}: {first['msg']}", 300)}, status)


def _add_page(app: FastAPI, guard: Guard) -> None:
    folder = files("adacorr.review") / "static"
    page = (folder / "index.html").read_text(encoding="utf-8").replace("{{run}}", guard.run)

    @app.get("/")
    def index(
        request: Request, token: Annotated[str | None, Query(max_length=100)] = None
    ) -> Response:
        if not guard.admits(token, request.cookies):
            return PlainTextResponse(
                "This review asks for a token: open the address that adacorr printed.", 403
            )
        answer = RedirectResponse("/", 303) if token else Response(page, media_type="text/html")
        set_cookies(answer, guard, request.cookies.get(AUTHOR))
        return answer

    def serve(body: bytes, media_type: str) -> Callable[[], Response]:
        return lambda: Response(body, media_type=media_type)

    for file in folder.iterdir():
        if media_type := _TYPES.get(Path(file.name).suffix):
            app.get(f"/{file.name}")(serve(file.read_bytes(), media_type))


def _add_run(app: FastAPI, desk: Desk, guard: Guard) -> None:
    @app.get("/api/run")
    def run() -> dict[str, Any]:
        pairs = desk.flips.pairs(len(desk.names))
        return {
            "run": guard.run,
            "title": clean_text(desk.data.run.path.resolve().name),
            "names": desk.names,
            "pairs": pairs[:500],
            "withheld": int(desk.flips.withheld.sum()),
            "changes": int((~desk.flips.suspect).sum()),
            "suspects": int(desk.flips.suspect.sum()),
            "questions": desk.interview is not None,
            "no_questions": too_large(desk.data),
        }


def _add_reads(app: FastAPI, desk: Desk, api: str) -> None:
    @app.get(f"{api}/progress")
    def progress(client: Client | None = None) -> dict[str, Any]:
        if client is not None:
            desk.queue.keep(client)
        return desk.progress()

    @app.get(f"{api}/queue")
    def queue(
        client: Client,
        order: Order = "doubtful",
        limit: Annotated[int, Query(ge=1, le=MAX_AT_ONCE)] = 8,
        given: ClassNumber | None = None,
        proposed: ClassNumber | None = None,
    ) -> list[dict[str, Any]]:
        if order == "rest" and (rest := desk.rest()) is not None:
            desk.queue.orders["rest"] = rest
        pair = None if given is None or proposed is None else (given, proposed)
        found = desk.queue.next(desk.store.current(), order, client, limit, pair)
        return [desk.item(flip) for flip in found]

    @app.get(f"{api}/find")
    def find(
        text: Annotated[str, Query(min_length=1, max_length=200)],
        among: Literal["changes", "questions"] = "changes",
        after: Annotated[int, Query(ge=-1, le=2**40)] = -1,
    ) -> dict[str, Any]:
        if among == "questions" and desk.interview is None:
            raise HTTPException(404, "this run has no questions")
        return desk.find(text, among, after)

    @app.get(f"{api}/fields/{{sample}}")
    async def fields(sample: SampleNumber) -> JSONResponse:
        item = await desk.previews.get(desk.known(sample))
        body = {"fields": item.fields, "image": item.image is not None}
        return JSONResponse(body, headers=_CACHE_FOR_GOOD)

    @app.get(f"{api}/image/{{sample}}")
    async def image(sample: SampleNumber) -> Response:
        item = await desk.previews.get(desk.known(sample))
        if item.image is None:
            raise HTTPException(404, "this sample has no picture")
        return Response(item.image, media_type="image/png", headers=_CACHE_FOR_GOOD)

    @app.get(f"{api}/export")
    def download(
        format: Literal["csv", "parquet"] = "csv", unreviewed: Literal["keep", "accept"] = "keep"
    ) -> FileResponse:
        folder = tempfile.TemporaryDirectory(prefix="adacorr-")
        path = Path(folder.name) / f"labels.{format}"
        export(desk.data, desk.store, path, unreviewed)
        return FileResponse(
            path, filename=f"final-labels.{format}", background=BackgroundTask(folder.cleanup)
        )


def add_questions(app: FastAPI, desk: Desk, interview: Interview, api: str) -> None:
    """Questions, answers and what follows from them."""

    neighbours = Beside.open(interview.data, interview.rows)

    def person(reviewer: str, author: str) -> tuple[str, str]:
        return clean_text(reviewer, 60), author

    @app.get(f"{api}/questions")
    def questions(
        client: Client,
        reviewer: Annotated[str, Query(max_length=60)] = "",
        limit: Annotated[int, Query(ge=1, le=MAX_AT_ONCE)] = 8,
        author: Author = "",
    ) -> list[dict[str, Any]]:
        return interview.ask(client, person(reviewer, author), limit)

    @app.get(f"{api}/hint/{{row}}")
    def hint(row: Annotated[int, PathParameter(ge=0, le=2**40)]) -> dict[str, Any]:
        check(row)
        given = int(interview.rows.given[row])
        return {"given": given, "bars": desk.bars(row, given)}

    @app.get(f"{api}/beside/{{row}}")
    def beside(
        row: Annotated[int, PathParameter(ge=0, le=2**40)],
        given: ClassNumber,
        proposed: ClassNumber,
    ) -> dict[str, Any]:
        check(row)
        labels = [desk.class_of(label) for label in (given, proposed)]
        return neighbours.of(row, [label for label in labels if label is not None])

    @app.get(f"{api}/outlook")
    def outlook() -> dict[str, Any]:
        return interview.status()

    @app.post(f"{api}/answer")
    def answer(sent: Annotated[Given, Body()], author: Author = "") -> dict[str, Any]:
        check(sent.row)
        name, _ = person(sent.reviewer, author)
        label = desk.class_of(sent.label)
        interview.answer(
            Said(sent.row, label, name, author, sent.blind, clean_text(sent.note, 500))
        )
        return interview.status()

    @app.post(f"{api}/unanswer")
    def unanswer(sent: Annotated[Undo, Body()], author: Author = "") -> dict[str, Any]:
        row = interview.undo(*person(sent.reviewer, author))
        return {
            "item": None if row is None else interview.question(row),
            "status": interview.status(),
        }

    @app.post(f"{api}/apply")
    def apply(sent: Annotated[Undo, Body()]) -> dict[str, Any]:
        return {**interview.apply(), "status": interview.status()}

    @app.get(f"{api}/certificate")
    def certificate() -> FileResponse:
        final_file(interview)
        path = interview.data.run.file(CERTIFICATE)
        return FileResponse(path, filename=CERTIFICATE, media_type="text/html")

    @app.get(f"{api}/labels")
    def labels() -> FileResponse:
        return FileResponse(final_file(interview), filename=APPLIED)

    def check(row: int) -> None:
        if row >= interview.data.n:
            raise HTTPException(404, f"expected a row below {interview.data.n}, got {row}")


_CACHE_FOR_GOOD = {"Cache-Control": "private, max-age=31536000, immutable"}


def _add_writes(app: FastAPI, desk: Desk, api: str) -> None:
    @app.post(f"{api}/decide")
    def decide(sent: Annotated[SentDecisions, Body()], author: Author = "") -> dict[str, Any]:
        refused = desk.decide(sent, author)
        if desk.interview is not None:
            desk.interview.analyst.tell()
        return {"refused": refused, "progress": desk.progress()}

    @app.post(f"{api}/undo")
    def undo(sent: Annotated[Undo, Body()], author: Author = "") -> dict[str, Any]:
        flip = desk.store.undo(clean_text(sent.reviewer, 60), author)
        if desk.interview is not None:
            desk.interview.analyst.tell()
        item = None if flip is None else desk.item(flip)
        return {"item": item, "progress": desk.progress()}

"""What a sample looks like to a person: a picture, or named fields. Shared by report and review."""

from __future__ import annotations

import io
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING

from adacorr.rundata import RunData, clean_text

if TYPE_CHECKING:
    from adacorr.data import Dataset

FIELD_LENGTH = 600
MAX_FIELDS = 16


@dataclass(frozen=True)
class Item:
    """A sample ready to be shown; both parts may be empty."""

    image: bytes | None = None  # PNG
    fields: dict[str, str] = field(default_factory=dict)


class Items:
    """The samples behind a run, opened in the background: a large source takes its time.

    Without the source everything else works, and `note` says that samples are not shown.
    """

    def __init__(self, data: RunData) -> None:
        self._source: Future[Dataset | str] = Future()
        Thread(target=self._load, args=(data,), daemon=True).start()

    def get(self, index: int) -> Item:
        """The sample with this number in its source; empty when it cannot be shown."""
        dataset = self._source.result()
        if isinstance(dataset, str) or not 0 <= index < len(dataset):
            return Item()
        from adacorr.data import preview

        try:
            seen = preview(dataset, index)
        except (ValueError, OSError, IndexError):
            return Item()
        fields = {
            clean_text(key): clean_text(value, FIELD_LENGTH)
            for key, value in list(seen.fields.items())[:MAX_FIELDS]
        }
        return Item(seen.png, fields)

    def note(self, wait: bool = True) -> str | None:
        """Why there are no samples; None when there are, or while that is unknown."""
        if not wait and not self._source.done():
            return None
        found = self._source.result()
        return found if isinstance(found, str) else None

    def _load(self, data: RunData) -> None:
        try:
            self._source.set_result(_open(data))
        except BaseException as error:  # a waiting reader must get an answer, whatever went wrong
            self._source.set_result(clean_text(f"Samples are not shown: {error}", 300))


def _open(data: RunData) -> Dataset | str:
    from adacorr.data import open_source

    if not data.section("data").get("source"):
        return "Samples are not shown: the run does not name the data it came from."
    dataset = open_source(data.section("data"))
    if dataset is None:
        source = clean_text(data.section("data")["source"], 200)
        return f"Samples are not shown: the data of this run cannot be opened ({source})."
    return dataset


def thumbnail(png: bytes, side: int) -> bytes | None:
    """The picture no larger than `side` pixels, as PNG; None when it cannot be read."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png), formats=("PNG", "JPEG")) as picture:
            picture.load()
            small = picture if picture.mode in ("L", "RGB", "RGBA") else picture.convert("RGB")
            small.thumbnail((side, side))
            out = io.BytesIO()
            small.save(out, "PNG", optimize=True)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return out.getvalue()

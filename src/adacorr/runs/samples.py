"""What a sample looks like to a person: a picture, or named fields. Shared by report and review."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.data import Dataset, open_source, preview
from adacorr.runs.reader import RunData, clean_text

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

    Parameters
    ----------
    data : the run.
    wanted : numbers (in the source) of the samples that may be asked for.
    side : pictures are at most this many pixels on a side.
    """

    def __init__(self, data: RunData, wanted: NDArray[np.int64], side: int) -> None:
        self._show: Future[Callable[[int], Item] | str] = Future()
        Thread(target=self._open, args=(data, wanted, side), daemon=True).start()

    def get(self, index: int) -> Item:
        """The sample with this number in its source; empty when it cannot be shown."""
        show = self._show.result()
        if isinstance(show, str):
            return Item()
        try:
            item = show(index)
        except (ValueError, OSError, IndexError):
            return Item()
        fields = {
            clean_text(key): clean_text(value, FIELD_LENGTH)
            for key, value in list(item.fields.items())[:MAX_FIELDS]
        }
        return Item(item.image, fields)

    def note(self, wait: bool = True) -> str | None:
        """Why there are no samples; None when there are, or while that is unknown."""
        if not wait and not self._show.done():
            return None
        show = self._show.result()
        return show if isinstance(show, str) else None

    def _open(self, data: RunData, wanted: NDArray[np.int64], side: int) -> None:
        try:
            self._show.set_result(_opener(data, wanted, side))
        except Exception as error:  # a waiting reader must get an answer, whatever went wrong
            self._show.set_result(clean_text(f"Samples are not shown: {error}", 300))


def _opener(data: RunData, wanted: NDArray[np.int64], side: int) -> Callable[[int], Item] | str:
    settings = data.section("data")
    source = settings.get("source")
    if not isinstance(source, str) or not source:
        return "Samples are not shown: the run does not name the data it came from."
    if data.section("correct") and not data.section("method"):  # made by `adacorr correct`
        return _table_rows(Path(source), settings, wanted)
    dataset = open_source(settings)
    if dataset is None:
        return (
            f"Samples are not shown: the run's data cannot be opened ({clean_text(source, 200)})."
        )
    return lambda index: _from_dataset(dataset, index, side)


def _table_rows(
    source: Path, settings: dict[str, Any], wanted: NDArray[np.int64]
) -> Callable[[int], Item] | str:
    from adacorr.runs.table_rows import TableRows

    if source.suffix == ".npy":
        return "Samples are not shown: the run was made from arrays, which hold no rows to read."
    listed = settings.get("probs_columns")
    hidden = {settings.get("label_column"), *(listed if isinstance(listed, list) else [])}
    rows = TableRows(source, wanted, {name for name in hidden if isinstance(name, str)})
    return lambda index: Item(None, rows.get(index))


def _from_dataset(dataset: Dataset, index: int, side: int) -> Item:
    if not 0 <= index < len(dataset):
        return Item()
    seen = preview(dataset, index, side)
    return Item(seen.png, seen.fields)


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

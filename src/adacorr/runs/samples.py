"""What a sample looks like to a person: a picture, or named fields. Shared by report and review."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.data import Dataset, Preview, open_source, preview
from adacorr.data import table as tables
from adacorr.data.identity import file_content, source_digest
from adacorr.data.images import LazyImages, decode
from adacorr.data.named.catalog import CATALOG
from adacorr.data.previews import picture
from adacorr.runs.reader import RunData, clean_lines, clean_text
from adacorr.runs.telling import Known, telling_features
from adacorr.tables.remote import is_url
from adacorr.tables.sources import files_behind

FIELD_LENGTH = 4000
MAX_FIELDS = 16


class Items:
    """The samples behind a run, opened in the background: a large source takes its time.

    Rows are found by the names that the source gives them, else by their row numbers as long as the
    source is what it was. Without the source everything else works, and `note` says why samples are
    not shown.

    Parameters
    ----------
    data : the run.
    wanted : row numbers (in the source) of the samples that may be asked for.
    side : pictures are at most this many pixels on a side.
    """

    def __init__(self, data: RunData, wanted: NDArray[np.int64], side: int) -> None:
        self.wanted = np.unique(wanted)
        self._found: Future[tuple[_Shown | None, str | None]] = Future()
        Thread(target=self._open, args=(data, wanted, side), daemon=True).start()

    def get(self, index: int) -> Preview:
        """The sample with this row number in its source; empty when it cannot be shown."""
        shown, _ = self._found.result()
        if shown is None:
            return Preview()
        try:
            item = shown.show(index)
        except (ValueError, OSError, IndexError):
            return Preview()
        fields = {
            clean_text(key): clean_lines(value, FIELD_LENGTH)
            for key, value in list(item.fields.items())[:MAX_FIELDS]
        }
        return Preview(item.image, fields)

    def search(self, text: str) -> list[int]:
        """Row numbers of samples that hold a text (casefolded), ascending; of tables only."""
        shown, _ = self._found.result()
        return [] if shown is None else shown.search(text)

    def note(self, wait: bool = True) -> str | None:
        """What is to be said of the samples, such as why there are none; None: nothing (yet)."""
        if not wait and not self._found.done():
            return None
        return self._found.result()[1]

    def _open(self, data: RunData, wanted: NDArray[np.int64], side: int) -> None:
        try:
            self._found.set_result(_opener(data, wanted, side))
        except Exception as error:  # a waiting reader must get an answer, whatever went wrong
            self._found.set_result((None, clean_text(f"Samples are not shown: {error}", 300)))


@dataclass(frozen=True)
class _Shown:
    """Ways to look at a sample by its number, and to find samples by a text in them."""

    show: Callable[[int], Preview]
    search: Callable[[str], list[int]] = lambda text: []


def _opener(data: RunData, wanted: NDArray[np.int64], side: int) -> tuple[_Shown, str | None]:
    settings = data.section("data")
    source = settings.get("source")
    if not isinstance(source, str) or not source:
        raise InputError("the run does not name the data it came from.")
    names = _Names.of(data, wanted)
    changed = _changed(source, settings.get("source_sha256"))
    if changed and not names.ids:
        raise InputError(
            f"{source} has changed since the run, and its rows have no column of ids to find them "
            "by."
        )
    note = f"{clean_text(source, 200)} has changed since the run; rows are found by their ids."
    kind = data.section("clean").get("kind")
    if kind == "images" and (Path(source).is_dir() or settings.get("image_column")):
        shown = _Shown(_pictures(source, settings, names, side))
        return shown, note if changed else None
    if data.kind == "correct" or (kind in ("text", "values") and is_table(source)):
        ids = names.ids if changed else None
        known = None if changed else _known(data)
        return _table_rows(source, settings, wanted, ids, known), note if changed else None
    known = None if changed else _known(data)
    shown = _Shown(_dataset_rows(source, settings, names, side, known))
    return shown, note if changed else None


def _known(data: RunData) -> Known:
    pairs = [(batch.index, batch.given) for batch in data.batches()]
    return Known.some(*(np.concatenate(part) for part in zip(*pairs, strict=True)))


def _changed(source: str, digest: object) -> bool:
    """Whether the files behind a run are others than it read; False where it does not say."""
    if not isinstance(digest, str) or is_url(source):
        return False
    files = [Path(str(file)) for file in files_behind(source)]
    return source_digest(files) != digest


class _Names:
    """What the run knows of the rows that may be asked for, by row number."""

    def __init__(self) -> None:
        self.ids: dict[int, str] = {}
        self.contents: dict[int, str] = {}

    @classmethod
    def of(cls, data: RunData, wanted: NDArray[np.int64]) -> _Names:
        names, rows = cls(), np.unique(wanted)
        if "id" not in data.columns:
            return names
        for batch in data.batches(texts=True):
            for i in np.flatnonzero(np.isin(batch.index, rows)).tolist():
                number = int(batch.index[i])
                if batch.id is not None:
                    names.ids[number] = batch.id[i]
                if batch.content is not None:
                    names.contents[number] = batch.content[i]
        return names


def is_table(source: str) -> bool:
    """A table file; else a dataset by name or an .npz."""
    return not (source.partition(":")[0] in CATALOG or source.endswith(".npz"))


def _pictures(
    source: str, settings: dict[str, Any], names: _Names, side: int
) -> Callable[[int], Preview]:
    """The files of a folder by the run's ids, or a table's column: read when they are looked at."""
    folder, column = Path(source), str(settings.get("image_column"))
    listed = [] if folder.is_dir() else tables.image_sources(tables.read(folder), column, folder)[0]

    def show(index: int) -> Preview:
        name = names.ids.get(index, str(index))
        if folder.is_dir() and (".." in Path(name).parts or Path(name).is_absolute()):
            return Preview(None, {"sample": name, "note": "outside of the run's folder"})
        found = folder / name if folder.is_dir() else listed[index]
        if isinstance(found, Path) and not found.is_file():
            return Preview(None, {"sample": name, "note": "no longer in the source"})
        content = names.contents.get(index)
        if content and isinstance(found, Path) and file_content(found) != content:
            return Preview(None, {"sample": name, "note": "changed since the run"})
        return Preview(picture(decode(found, name), side), {"sample": name})

    return show


def _table_rows(
    source: str,
    settings: dict[str, Any],
    wanted: NDArray[np.int64],
    ids: dict[int, str] | None,
    known: Known | None,
) -> _Shown:
    from adacorr.runs.table_rows import TableRows

    if source.endswith(".npy"):
        raise InputError("the run was made from arrays, which hold no rows to read.")
    lists = [settings.get(name) for name in ("probs_columns", "annotator_columns")]
    listed = [name for found in lists if isinstance(found, list) for name in found]
    hidden = {settings.get("label_column"), *listed}
    key = settings.get("id_column")
    rows = TableRows(
        Path(source),
        wanted,
        {name for name in hidden if isinstance(name, str)},
        ids=ids,
        id_column=key if isinstance(key, str) else None,
        known=known,
    )
    return _Shown(lambda index: Preview(None, rows.get(index)), rows.search)


def _dataset_rows(
    source: str,
    settings: dict[str, Any],
    names: _Names,
    side: int,
    known: Known | None,
) -> Callable[[int], Preview]:
    dataset = open_source(settings)
    if dataset is None:
        raise InputError(f"the run's data cannot be opened ({clean_text(source, 200)}).")
    first = _telling(dataset, known)
    by_id = {} if dataset.ids is None else {str(name): i for i, name in enumerate(dataset.ids)}

    def show(index: int) -> Preview:
        name = names.ids.get(index) if by_id else None
        place = index if name is None else by_id.get(name)
        if place is None:
            return Preview(None, {"sample": str(name), "note": "no longer in the source"})
        if not 0 <= place < len(dataset):
            return Preview()
        if name is not None and _other_content(dataset, place, names.contents.get(index)):
            return Preview(None, {"sample": name, "note": "changed since the run"})
        seen = preview(dataset, place, side)
        if seen.image is not None or not first:
            return seen
        shown = {key: seen.fields[key] for key in ("sample", *first) if key in seen.fields}
        return Preview(None, shown)

    return show


def _telling(dataset: Dataset, known: Known | None) -> list[str]:
    """Columns of a table of features, the most telling ones first; empty for other samples."""
    names, features = dataset.feature_names, dataset.features
    if known is None or names is None or not isinstance(features, np.ndarray):
        return []
    if features.ndim != 2 or not len(known.rows) or known.rows[-1] >= len(dataset):
        return []
    return telling_features(names, features[known.rows], known)


def _other_content(dataset: Dataset, place: int, content: str | None) -> bool:
    """Whether the file behind a sample is another one than the run read."""
    images = dataset.features
    if not content or not isinstance(images, LazyImages):
        return False
    file = images.sources[place]
    return isinstance(file, Path) and file_content(file) != content

"""A run as tasks of Label Studio: JSON with predictions, and the labelling configuration.

A task's ``data`` holds ``adacorr_row``, by which finished tasks find their way back
(:mod:`adacorr.runs.imports`), the sample (``image`` or ``text``), and the columns of a table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import CANNOT_TELL
from adacorr.files import atomic
from adacorr.runs.reader import Batch, RunData
from adacorr.runs.samples import Items

CONTROL, SHOWN = "label", "sample"
LOCAL_FILES = "/data/local-files/?d="
"""Where Label Studio serves files below its document root (LOCAL_FILES_DOCUMENT_ROOT)."""


def write_tasks(
    data: RunData, path: Path, *, most: int | None = None, prefix: str | None = None
) -> tuple[int, str]:
    """Write a JSON list of tasks; return how many, and the labelling configuration as XML.

    Parameters
    ----------
    most : only the so many most suspicious rows; None: all. They come most suspicious first.
    prefix : the address in front of the path of an image; default: Label Studio's local files.
    """
    rows = _most_suspicious(data, most)
    folder = _image_folder(data)
    if prefix is None:
        prefix = LOCAL_FILES + (quote(folder.name) + "/" if folder is not None else "")
    items = None if folder is not None else Items(data, rows, side=1)
    tasks: dict[int, dict[str, Any]] = {}
    wanted = set(rows.tolist())
    for batch in data.batches(texts=True):
        for i, number in enumerate(batch.index.tolist()):
            if number in wanted:
                fields = {} if items is None else items.get(number).fields
                tasks[number] = _task(data, batch, i, fields, prefix if items is None else None)
    with atomic(path) as temporary, open(temporary, "w", encoding="utf-8") as handle:
        json.dump([tasks[n] for n in rows.tolist()], handle, ensure_ascii=False, indent=1)
    return len(tasks), labelling_config(data.run.class_names(), image=folder is not None)


def labelling_config(class_names: list[str], *, image: bool) -> str:
    """The interface for the tasks: paste it into the project's labelling interface.

    >>> "<Choice value='a&amp;b'" in labelling_config(["a&b"], image=False).replace('"', "'")
    True
    """
    shown = "Image" if image else "Text"
    choices = "\n".join(
        f"    <Choice value={quoteattr(name)}/>" for name in [*class_names, CANNOT_TELL]
    )
    return (
        f'<View>\n  <{shown} name="{SHOWN}" value="${"image" if image else "text"}"/>\n'
        f'  <Choices name="{CONTROL}" toName="{SHOWN}" choice="single">\n{choices}\n'
        "  </Choices>\n</View>\n"
    )


def _task(
    data: RunData, batch: Batch, i: int, fields: dict[str, str], prefix: str | None
) -> dict[str, Any]:
    names = data.run.class_names()
    name = None if batch.id is None else batch.id[i]
    about: dict[str, Any] = {**fields, "adacorr_row": int(batch.index[i])}
    if name is not None:
        about["adacorr_id"] = name
    about |= {"given": names[batch.given[i]], "suspicion": round(float(batch.doubt[i]), 4)}
    if prefix is not None:
        about["image"] = prefix + quote(name or str(batch.index[i]))
    else:
        about["text"] = text_of(fields)
    if batch.decided_by is not None:
        about["decided_by"] = batch.decided_by[i]
    return {"data": about, "predictions": [_prediction(batch, i, names)]}


def _prediction(batch: Batch, i: int, names: list[str]) -> dict[str, Any]:
    """What the run would say: its suggestion, else the class that it finds more probable."""
    doubt = float(batch.doubt[i])
    instead = batch.suggested[i] != batch.given[i] or (doubt > 0.5 and batch.other[i] >= 0)
    code = int(batch.other[i] if instead else batch.given[i])
    return {
        "model_version": "adacorr",
        "score": round(doubt if instead else 1 - doubt, 4),
        "result": [
            {
                "from_name": CONTROL,
                "to_name": SHOWN,
                "type": "choices",
                "value": {"choices": [names[code]]},
            }
        ],
    }


def text_of(fields: dict[str, str]) -> str:
    """The text of a row: its longest field where that is prose, else all fields."""
    longest = max(fields.values(), key=len, default="")
    return longest if len(longest) > 60 else "\n".join(f"{k}: {v}" for k, v in fields.items())


def _most_suspicious(data: RunData, most: int | None) -> NDArray[np.int64]:
    """Row numbers in the source, most suspicious first."""
    pairs = [(batch.doubt, batch.index) for batch in data.batches()]
    doubt, rows = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return rows[np.lexsort((rows, -doubt))[:most]]


def _image_folder(data: RunData) -> Path | None:
    source = data.section("data").get("source")
    folder = Path(source) if isinstance(source, str) else None
    return folder if folder is not None and folder.is_dir() and "id" in data.columns else None

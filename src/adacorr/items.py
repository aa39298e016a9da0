"""What a sample looks like to a person: a picture, or named fields. Shared by report and review."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from adacorr.rundata import RunData, clean_text

FIELD_LENGTH = 600
MAX_FIELDS = 16


@dataclass(frozen=True)
class Item:
    """A sample ready to be shown; both parts may be empty."""

    image: bytes | None = None  # PNG
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Items:
    """The samples behind a run. Without their source everything works, and `note` says so."""

    dataset: Any | None
    note: str | None

    @classmethod
    def open(cls, data: RunData) -> Items:
        try:
            from adacorr.data import open_source

            dataset = open_source(data.section("data"))
        except (ValueError, OSError, ImportError) as error:
            return cls(None, clean_text(f"Samples are not shown: {error}", 300))
        if dataset is None:
            return cls(None, "Samples are not shown: this run does not name the data it came from.")
        return cls(dataset, None)

    def get(self, index: int) -> Item:
        """The sample with this number in its source; empty when it cannot be shown."""
        if self.dataset is None or not 0 <= index < len(self.dataset):
            return Item()
        from adacorr.data import preview

        try:
            seen = preview(self.dataset, index)
        except (ValueError, OSError, IndexError):
            return Item()
        fields = {
            clean_text(key): clean_text(value, FIELD_LENGTH)
            for key, value in list(seen.fields.items())[:MAX_FIELDS]
        }
        return Item(seen.png, fields)


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

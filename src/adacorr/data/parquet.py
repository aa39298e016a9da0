"""Hugging Face's parquet layout: a struct column of image bytes and an integer label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.tables import parquet

if TYPE_CHECKING:
    import pyarrow as pa


def read_image_shards(
    paths: list[Path], label_keys: tuple[str, ...]
) -> tuple[list[bytes], NDArray[np.int64], tuple[str, ...] | None]:
    """Encoded images, labels, and the class names where the file's metadata has them."""
    images: list[bytes] = []
    labels, names = [], None
    for path in paths:
        table = parquet.read(path)
        image = next((c for c in ("img", "image") if c in table.column_names), None)
        label = next((c for c in label_keys if c in table.column_names), None)
        if image is None or label is None:
            raise InputError(
                f"{path}: expected columns img and {label_keys[-1]}, "
                f"got {', '.join(table.column_names)}"
            )
        images += image_bytes(table, image, path)
        values = table.column(label).to_numpy()
        if values.dtype.kind not in "iu":
            raise InputError(f"{path}: expected integers in column {label}, got {values.dtype}")
        labels.append(values.astype(np.int64))
        names = names or _class_names(table, label)
    return images, np.concatenate(labels), names


def image_bytes(table: pa.Table, column: str, path: Path, *, gaps: bool = False) -> list[bytes]:
    """The bytes of an image column: binary, or a struct with a field ``bytes``.

    With `gaps` an empty cell is an image of no bytes, which cannot be read; else it is an error.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = table.column(column)
    if pa.types.is_struct(values.type):
        values = pc.struct_field(values, "bytes")  # pyright: ignore[reportAttributeAccessIssue]
    out = values.to_pylist()
    for row, value in enumerate(out):
        if not isinstance(value, bytes) and not (gaps and value is None):
            raise InputError(
                f"{path}: expected image bytes in column {column}, "
                f"got {type(value).__name__} in row {row}"
            )
    return [value or b"" for value in out]


def _class_names(table: pa.Table, label: str) -> tuple[str, ...] | None:
    """Hugging Face writes its ClassLabel names into the schema's metadata."""
    raw = (table.schema.metadata or {}).get(b"huggingface")
    try:
        names = json.loads(raw)["info"]["features"][label]["names"] if raw else None
    except (ValueError, KeyError, TypeError):
        return None
    return tuple(str(n) for n in names) if isinstance(names, list) else None

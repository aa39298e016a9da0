"""What commands on tables have in common: which input, and which of its columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from adacorr.core.validation import InputError

if TYPE_CHECKING:
    from adacorr.tables.layout import Request


def one_input(
    source: str | None, labels: Path | None, probs: Path | None
) -> str | tuple[Path, Path]:
    """INPUT, or --labels and --probs together."""
    if source and labels is None and probs is None:
        return source
    if source is None and labels is not None and probs is not None:
        return labels, probs
    raise InputError("expected INPUT, or --labels and --probs together, got something else")


def files(inputs: str | tuple[Path, Path]) -> Iterable[Path]:
    """The files on this machine that an output must not replace."""
    from adacorr.tables.remote import is_url, without_file_scheme
    from adacorr.tables.sources import files_behind

    if isinstance(inputs, tuple):
        return inputs
    place = without_file_scheme(inputs)
    return [] if is_url(place) else [Path(str(file)) for file in files_behind(place)]


def request(
    label_column: str | None,
    probs_column: str | None,
    class_columns: str | None,
    classes: str | None,
    top_k_columns: str | None,
    n_classes: int | None,
) -> Request:
    """The columns that the flags name."""
    from adacorr.tables.layout import Request

    return Request(
        label_column,
        probs_column,
        _split(class_columns),
        _classes(classes),
        _pair(top_k_columns),
        n_classes,
    )


def _split(text: str | None) -> list[str] | None:
    """``a,b`` -> names; quotes protect commas, as in CSV."""
    return None if text is None else next(csv.reader([text], skipinitialspace=True), [])


def _classes(text: str | None) -> list[str] | None:
    if text is None or not text.endswith(".txt"):
        return _split(text)
    try:
        return Path(text).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{text}: expected one class name per line, got: {error}") from None


def _pair(text: str | None) -> tuple[str, str] | None:
    names = _split(text)
    if names is None:
        return None
    if len(names) != 2:
        raise InputError(f"--top-k-columns: expected two columns, got {text!r}")
    return names[0], names[1]

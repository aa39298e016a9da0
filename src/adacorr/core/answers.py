"""What people said of single rows: a label, or that they cannot tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import InputError
from adacorr.labels import Codec, is_number

CANNOT_TELL = "cannot tell"
"""The answer of a person who looked and could not decide."""
DECIDERS = ("given", "rule", "answers")
"""Whose word a label is."""


@dataclass(frozen=True)
class Answers:
    """Answers of people, in the order of the rows.

    Attributes
    ----------
    rows : row numbers, ascending, each once.
    codes : the class index that a person named; -1 where nobody could tell.
    """

    rows: NDArray[np.int64]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, rows: ArrayLike, codes: ArrayLike) -> Answers:
        """From class indices (-1: cannot tell) in any order."""
        r, c = np.asarray(rows, dtype=np.int64), np.asarray(codes, dtype=np.int64)
        order = np.argsort(r, kind="stable")
        return cls(r[order], c[order])

    @property
    def cannot_tell(self) -> NDArray[np.bool_]:
        """Where a person looked and could not decide: missing in a fit, wrong in a limit."""
        return self.codes < 0

    @property
    def definite(self) -> Answers:
        """Those that name a class."""
        return Answers(self.rows[~self.cannot_tell], self.codes[~self.cannot_tell])

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return len(self.rows) > 0

    def between(self, start: int, stop: int) -> Answers:
        """Those on rows from start up to, not including, stop; rows keep their numbers."""
        a, b = np.searchsorted(self.rows, [start, stop])
        return Answers(self.rows[a:b], self.codes[a:b])

    def where(self, chosen: NDArray[np.bool_]) -> Answers:
        """Those on the chosen rows; `chosen` has an entry for each row there is."""
        here = chosen[self.rows]
        return Answers(self.rows[here], self.codes[here])

    def deciders(self, flipped: NDArray[np.bool_], first_row: int = 0) -> NDArray[np.int64]:
        """Places in `DECIDERS`; `flipped` starts at row `first_row`."""
        by, known = flipped.astype(np.int64), self.definite
        by[known.between(first_row, first_row + len(flipped)).rows - first_row] = 2
        return by

    def applied(self, codes: NDArray[np.int64], first_row: int = 0) -> NDArray[np.int64]:
        """Labels with the verified ones in place; `codes` starts at row `first_row`."""
        new, known = codes.copy(), self.definite.between(first_row, first_row + len(codes))
        new[known.rows - first_row] = known.codes
        return new


def encode_answers(verified: Any, n_rows: int, codec: Codec) -> Answers:
    """Answers as a user passes them, as class indices.

    Parameters
    ----------
    verified : ``{row: label}``; an array of length `n_rows` with a gap where nobody was asked
        (None, NaN, an empty string, a masked entry, or -1 among integers); None; or Answers. A
        label may be "cannot tell".
    n_rows : how many rows there are.
    codec : of the given labels: what labels look like.

    >>> codec = Codec(("cat", "dog"), np.array(["cat", "dog"]))
    >>> encode_answers({2: "cat", 0: "cannot tell"}, 3, codec).codes
    array([-1,  0])
    >>> encode_answers([None, "dog", None], 3, codec)
    Answers(rows=array([1]), codes=array([1]))
    """
    if isinstance(verified, Answers):
        return _checked(verified, n_rows, len(codec.names))
    if verified is None:
        return Answers.of([], [])
    pairs = verified.items() if isinstance(verified, Mapping) else _present(verified, n_rows)
    return encode_pairs(pairs, n_rows, class_codes(codec))


def encode_pairs(
    pairs: Iterable[tuple[Any, Any]], n_rows: int, codes: Mapping[str, int]
) -> Answers:
    """(row, label) pairs as answers; a row may come twice only if both say the same."""
    found: dict[int, int] = {}
    for place, label in pairs:
        row = _row(place, n_rows)
        text = _text(label)
        code = codes.get(text, -1 if text == CANNOT_TELL else codes.get(_plain(text)))
        if code is None:
            names = ", ".join(list(codes)[:8]) + (", ..." if len(codes) > 8 else "")
            raise InputError(
                f"verified: expected a label among {names}, or {CANNOT_TELL!r}, "
                f"got {label!r} for row {row}"
            )
        if found.setdefault(row, code) != code:
            raise InputError(f"verified: expected one answer for row {row}, got two that differ")
    return Answers.of(list(found), list(found.values()))


def class_codes(codec: Codec) -> dict[str, int]:
    """What an answer may be spelled like -> class index; integers may be text, as in a CSV file.

    Where the names are numbers, an answer means the name, although the labels of a run are indices;
    "3", "3.0" and "03" are then the same, as CSV files do not keep them apart.

    >>> class_codes(Codec.of_indices(["2", "0"]))
    {'2': 0, '0': 1}
    """
    names = {name: code for code, name in enumerate(codec.names)}
    marks = {_text(mark): code for code, mark in enumerate(codec.marks.tolist())}
    if codec.marks.dtype.kind == "i" and all(map(is_number, names)):
        marks = {}
    codes = marks | names
    for plain, meant in _plain_numbers(codes).items():
        if len(meant) == 1:
            codes.setdefault(plain, *meant)
    return codes


def _plain_numbers(codes: Mapping[str, int]) -> dict[str, set[int]]:
    """Whole numbers without the zeros around them -> the classes that are spelled with."""
    found: dict[str, set[int]] = {}
    for text, code in codes.items():
        if (plain := _plain(text)) != text:
            found.setdefault(plain, set()).add(code)
    return found


def _plain(text: str) -> str:
    return str(int(float(text))) if is_number(text) and float(text).is_integer() else text


def _checked(answers: Answers, n_rows: int, n_classes: int) -> Answers:
    rows, codes = answers.rows, answers.codes
    if len(rows) != len(codes) or (np.diff(rows) <= 0).any():
        raise InputError("verified: expected ascending rows with a code each, got others")
    if len(rows) and not (rows[0] >= 0 and rows[-1] < n_rows):
        raise InputError(f"verified: expected rows 0 to {n_rows - 1}, got {rows[0]} to {rows[-1]}")
    if len(rows) and not (codes.min() >= -1 and codes.max() < n_classes):
        raise InputError(
            f"verified: expected class indices up to {n_classes - 1}, or -1, got others"
        )
    return answers


def _present(verified: Any, n_rows: int) -> list[tuple[int, Any]]:
    """(row, label) of the entries of an array that are no gaps."""
    hidden = np.ma.getmaskarray(verified) if isinstance(verified, np.ma.MaskedArray) else None
    values = verified.data if isinstance(verified, np.ma.MaskedArray) else verified
    array = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
    if array.ndim != 1 or len(array) != n_rows:
        raise InputError(
            f"verified: expected {{row: label}} or an array of length {n_rows} with gaps, "
            f"got shape {array.shape}"
        )
    gap = np.array([_is_gap(value) for value in array.tolist()])
    gap = gap if hidden is None else gap | hidden
    return [(int(row), array[row]) for row in np.flatnonzero(~gap)]


def _is_gap(value: Any) -> bool:
    if value is None or value == "":
        return True
    if isinstance(value, Integral):
        return int(value) == -1
    return type(value).__name__ in ("NAType", "NaTType") or value != value


def _row(place: Any, n_rows: int) -> int:
    if isinstance(place, Integral) and not isinstance(place, bool) and 0 <= int(place) < n_rows:
        return int(place)
    raise InputError(f"verified: expected row numbers 0 to {n_rows - 1}, got {place!r}")


def _text(label: Any) -> str:
    """One spelling for 3, 3.0, True and their numpy kinds."""
    if isinstance(label, bytes):
        return label.decode("utf-8", "replace")
    if isinstance(label, int | float | np.number | np.bool_) and float(label).is_integer():
        return str(int(label))
    return str(label)

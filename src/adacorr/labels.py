"""The one class codec: labels of any kind <-> class indices, class names, and their order.

Class j is column j of ``pred_probs``. What the columns stand for is settled once, in the same way
for arrays, frames, tables and datasets, by the first of these that tells:

1. names that the user gives, one per column;
2. the names of the columns, where they name the classes (``p_cat``: a shared prefix is cut off);
3. the type of the labels, where it states an order (a categorical, an Enum, a ClassLabel);
4. integers, also spelled as texts: class indices;
5. distinct texts: numbers by number, others sorted. That is a guess, and the codec says so.

Integers are names where the class names are integers ("1", "2", "3"), and indices elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import InputError, RowError, check_codes, one_line

_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})\Z")
_PADDED = re.compile(r"\d{1,18}\Z")
_NUMBER = re.compile(r"[+-]?\d{1,18}(\.\d{1,18})?\Z")
_PREFIX_END = "_.:/- "


class OrderError(InputError):
    """The labels do not settle the classes; readers of files say where `label` was met."""

    def __init__(self, expected: str, got: str, label: str | None = None) -> None:
        super().__init__(f"labels: expected {expected}, got {got}; pass classes= to name them")
        self.expected, self.got, self.label = expected, got, label


@dataclass(frozen=True, eq=False)
class Codec:
    """What the labels of one input mean.

    Attributes
    ----------
    names : the K class names, in the order of the columns of ``pred_probs``.
    marks : (K,) int64 or str, what stands in the labels for each class.
    guess : how the order was guessed, in one sentence; empty where something told it.

    >>> codec = make_codec(3, {"10", "2", "9"})
    >>> codec.names, codec.encode(np.array(["10", "2"])).tolist()
    (('2', '9', '10'), [2, 0])
    """

    names: tuple[str, ...]
    marks: NDArray[Any]
    guess: str = ""

    @classmethod
    def of_indices(cls, names: Sequence[Any]) -> Codec:
        """For integer labels that are class indices, whatever the classes are called."""
        return cls(tuple(str(name) for name in names), np.arange(len(names)))

    @cached_property
    def integers(self) -> bool:
        """The labels are integers, perhaps spelled as texts."""
        return self.marks.dtype.kind == "i" or all(map(is_integer, self.marks.tolist()))

    @cached_property
    def by_index(self) -> bool:
        """The labels are the class indices 0 to K - 1, perhaps spelled as texts."""
        k = len(self.marks)
        if self.marks.dtype.kind == "i":
            return np.array_equal(self.marks, np.arange(k))
        return self.marks.tolist() == [str(i) for i in range(k)]

    @property
    def surprising(self) -> bool:
        """The order was guessed, and is not the one that sorting the labels as text would give."""
        return bool(self.guess) and list(self.names) != sorted(self.names)

    @property
    def expected(self) -> str:
        """What an error says of a label that is none of the classes."""
        if self.marks.dtype.kind == "i" and self.by_index:
            return f"integers in [0, {len(self.marks)})"
        return f"labels among {shorten([str(mark) for mark in self.marks[:6]])}"

    def encode(self, labels: ArrayLike, name: str = "labels") -> NDArray[np.int64]:
        """Labels -> class indices; RowError at the first that is none of the classes."""
        y, marks = plain_labels(labels, name), self.marks
        if y.dtype.kind in "iu" and marks.dtype.kind == "i" and self.by_index:
            return check_codes(y, len(marks), name=name).copy()
        if y.dtype.kind == "U" or not self.integers:  # integers may be spelled as texts
            marks, y = marks.astype(str), y.astype(str)
        elif marks.dtype.kind == "U":
            marks = marks.astype(np.int64)
        order = np.argsort(marks, kind="stable")
        codes = order[np.minimum(np.searchsorted(marks, y, sorter=order), len(marks) - 1)]
        wrong = marks[codes] != y
        if wrong.any():
            row = int(wrong.argmax())
            raise RowError(name, self.expected, repr(y[row].item()), row)
        return codes.astype(np.int64, copy=False)

    def decode(self, codes: NDArray[np.integer]) -> NDArray[Any]:
        """Class indices -> labels of the kind that the user has."""
        return self.marks[codes]


@dataclass(frozen=True)
class Encoded:
    """Labels as class indices, and the way back."""

    codes: NDArray[np.int64]
    codec: Codec

    def decode(self, codes: NDArray[np.integer]) -> NDArray[Any]:
        return self.codec.decode(codes)


def encode_labels(
    labels: ArrayLike,
    n_classes: int,
    classes: Sequence[Any] | ArrayLike | None = None,
    *,
    columns: Sequence[Any] | None = None,
    order: Sequence[Any] | None = None,
) -> Encoded:
    """Labels of any kind as class indices in [0, n_classes); see the order at the top.

    Parameters
    ----------
    labels : (N,) integers or strings; a categorical brings its own order.
    classes : names by the user, one per column of ``pred_probs``.
    columns : the names of those columns, if they have any.
    order : the classes in the order that the labels' type states; read off `labels` by default.

    >>> encode_labels(["dog", "cat"], 2).codes.tolist()
    [1, 0]
    >>> encode_labels([0, 1], 2, ["1", "0"]).codes.tolist()  # the names are integers
    [1, 0]
    """
    y = plain_labels(labels)
    seen = None if y.dtype.kind in "iu" else set(np.unique(y).tolist())
    codec = make_codec(
        n_classes, seen, classes=classes, columns=columns, order=order or stated_order(labels)
    )
    return Encoded(codec.encode(y), codec)


def make_codec(
    n_classes: int,
    seen: Collection[str] | None,
    *,
    classes: Sequence[Any] | ArrayLike | None = None,
    columns: Sequence[Any] | None = None,
    order: Sequence[Any] | None = None,
) -> Codec:
    """Settle what the labels mean; `seen` are the distinct texts, None where they are integers.

    >>> make_codec(2, {"cat", "dog"}, columns=["p_dog", "p_cat"]).names
    ('dog', 'cat')
    """
    order = None if order is None else [str(name) for name in order]
    names = None if classes is None else _class_names(classes, n_classes)
    if names is None and columns is not None:
        names = names_of_columns(columns, order or seen)
    integers = seen is None or (len(seen) > 0 and all(map(is_integer, seen)))
    if seen is None and order is not None and (names is None or set(names) == set(order)):
        names = _class_names(order, n_classes) if names is None else names
        place = {name: i for i, name in enumerate(order)}
        return Codec(names, np.array([place[name] for name in names], np.int64))
    if names is None and order is not None:
        names = _class_names(order, n_classes)
    if integers and names is not None and not all(map(is_integer, names)):
        return Codec(names, _indices(n_classes, seen is not None))
    if names is not None:
        marks = np.array(names, np.int64) if seen is None else _spelled_as(seen, names)
        return Codec(names, marks)
    indices = {str(i) for i in range(n_classes)} if integers and seen else set()
    if integers and (seen is None or indices.issuperset(seen) or len(seen) != n_classes):
        guess = _by_number(indices) if seen is not None else ""
        marks = _indices(n_classes, seen is not None)
        return Codec(tuple(str(i) for i in range(n_classes)), marks, guess)
    return _guessed(n_classes, seen or ())


def _guessed(n_classes: int, seen: Collection[str]) -> Codec:
    """The distinct texts in order: of numbers by number, of others as text."""
    odd = [text for text in seen if is_integer(text)]
    if odd and not all(map(_NUMBER.match, seen)):
        raise OrderError("names in the whole column", repr(odd[0]), odd[0])
    if len(seen) != n_classes:
        got = f"{len(seen)}: {shorten(in_order(seen))}"
        raise OrderError(f"{n_classes} distinct names, one per column of pred_probs", got)
    names = in_order(seen)
    guess = _by_number(seen) or f"classes in sorted order of the labels: {shorten(names)}"
    return Codec(tuple(names), np.array(names, str), guess)


def _spelled_as(seen: Collection[str], names: Sequence[str]) -> NDArray[np.str_]:
    """The names as the labels spell them: "3.0" or "03" is the class 3."""
    spelled = {float(text): text for text in seen if _NUMBER.match(text)}
    if len(spelled) < len(seen) or not all(map(_NUMBER.match, names)):
        return np.array(names, str)
    return np.array([spelled.get(float(name), name) for name in names], str)


def _by_number(seen: Collection[str]) -> str:
    """What to say where the order by number differs from that of the texts."""
    names = in_order(seen)
    if not all(map(_NUMBER.match, seen)) or names == sorted(seen):
        return ""
    return f"classes in the order of the numbers in the labels, not of their text: {shorten(names)}"


def in_order(names: Collection[str]) -> list[str]:
    """Numbers by number, anything else sorted as text.

    >>> in_order({"10", "9", "1"}), in_order({"10.0", "9.0"}), in_order({"b", "a", "10"})
    (['1', '9', '10'], ['9.0', '10.0'], ['10', 'a', 'b'])
    """
    if all(map(_NUMBER.match, names)):
        return sorted(names, key=lambda name: (float(name), name))
    return sorted(names)


def names_of_columns(
    columns: Sequence[Any], labels: Collection[str] | None
) -> tuple[str, ...] | None:
    """The class names that the columns state; None where they are no names of classes.

    A prefix that all columns share is cut off where what remains are labels. One label among the
    names is enough for them to count: another that is not is then an error, not a guess.

    Parameters
    ----------
    columns : names of the columns, in their order.
    labels : the distinct labels as texts; None for integers.

    >>> names_of_columns(["p_fox", "p_dog", "p_cat"], {"cat", "dog"})
    ('fox', 'dog', 'cat')
    >>> names_of_columns(["prob_1", "prob_10", "prob_2"], None)
    ('1', '10', '2')
    >>> names_of_columns(["p_10", "p_02"], None)
    ('10', '2')
    >>> names_of_columns(["p0", "p1"], {"cat", "dog"}) is None
    True
    """
    if not all(isinstance(name, str | Integral) for name in columns):
        return None
    texts = [str(name) for name in columns]
    prefix = len(os.path.commonprefix(texts))  # noqa: RUF071
    ways = [tuple(text[cut:] for text in texts) for cut in range(prefix + 1)]
    numbers = _whole_numbers(ways)
    if labels is None or all(map(is_integer, labels)):
        return numbers or _without_prefix(texts)
    shared = [len(set(labels).intersection(way)) for way in ways]
    best = int(np.argmax(shared))
    if numbers and shared[best] < len(labels) and all(map(_NUMBER.match, labels)):  # such as "3.0"
        return numbers
    return ways[best] if shared[best] else None


def _whole_numbers(ways: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The first way in which all columns are numbers; "07" is 7 where no way has only "7"."""
    for pattern in (_INTEGER, _PADDED):
        for way in ways:
            plain = tuple(str(int(text)) for text in way if pattern.match(text))
            if len(set(plain)) == len(way):
                return plain
    return None


def _without_prefix(texts: Sequence[str]) -> tuple[str, ...]:
    """Names for display: a shared prefix up to a mark such as ``_`` is no part of them."""
    shared = os.path.commonprefix(texts)  # noqa: RUF071
    cut = 1 + max(shared.rfind(mark) for mark in _PREFIX_END)
    return tuple(text[cut:] for text in texts)


def column_names(table: Any) -> list[Any] | None:
    """The names of a table's columns; None for what has none, such as an array."""
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return None if names is None else list(names)


def stated_order(labels: Any) -> list[Any] | None:
    """The classes in the order that a categorical of pandas or an Enum of polars states.

    A categorical of integers states none: its labels are those integers, not their places.
    """
    if hasattr(labels, "cat") and hasattr(getattr(labels, "cat", None), "categories"):
        labels = labels.cat
    if hasattr(labels, "categories") and hasattr(labels, "codes"):
        order = list(labels.categories)
        return None if all(isinstance(name, Integral) for name in order) else order
    dtype = getattr(labels, "dtype", None)
    if type(dtype).__name__ == "Enum" and hasattr(dtype, "categories"):
        return list(getattr(dtype, "categories"))  # noqa: B009
    return None


def plain_labels(labels: ArrayLike, name: str = "labels") -> NDArray[Any]:
    """(N,) integers or strings, whatever holds them; anything else is refused."""
    try:
        y = np.asarray(labels)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = one_line(error)
        raise InputError(
            f"{name}: expected an array of shape (N,), got one that cannot be: {reason}"
        ) from None
    if y.ndim != 1:
        raise InputError(f"{name}: expected shape (N,), got {y.shape}")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    if y.dtype.kind in "OT" or (y.dtype.kind == "U" and isinstance(labels, list | tuple)):
        # numpy would turn ["a", 1] into two strings without a word
        y = _one_kind(list(labels) if isinstance(labels, list | tuple) else y.tolist(), name)
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    if y.dtype.kind not in "iuU":
        raise InputError(f"{name}: expected integers or strings, got dtype {y.dtype}")
    return y


def _one_kind(values: list[Any], name: str) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if all(issubclass(kind, str) for kind in kinds):
        return np.asarray(values, dtype=str)
    if all(issubclass(kind, Integral) for kind in kinds):
        return np.asarray(values, dtype=np.int64)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(f"{name}: expected all integers or all strings, got {names}")


def _class_names(classes: Sequence[Any] | ArrayLike, n_classes: int) -> tuple[str, ...]:
    names = tuple(str(name) for name in np.asarray(classes).tolist())
    if len(names) != n_classes:
        raise InputError(
            f"classes: expected {n_classes} names, one per column of pred_probs, "
            f"got {len(names)}: {shorten(names)}"
        )
    if len(set(names)) < n_classes:
        raise InputError(f"classes: expected distinct names, got a repeated one: {shorten(names)}")
    return names


def _indices(n_classes: int, as_text: bool) -> NDArray[Any]:
    return np.arange(n_classes).astype(str if as_text else np.int64)


def is_integer(text: str) -> bool:
    """A whole number as Python writes it; "007" is a name.

    >>> is_integer("7"), is_integer("-1"), is_integer("007"), is_integer("7.0")
    (True, True, False, False)
    """
    return _INTEGER.match(text) is not None


def is_number(text: str) -> bool:
    """
    >>> is_number("007"), is_number("-1.5"), is_number("1e5")
    (True, True, False)
    """
    return _NUMBER.match(text) is not None


def shorten(names: Sequence[str]) -> str:
    """
    >>> shorten(("a", "b")), shorten(tuple("abcdefg"))
    ('a, b', 'a, b, c, d, e, ...')
    """
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")

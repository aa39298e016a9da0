"""Where a table keeps its labels and probabilities: found by flags, names and types."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adacorr.core.validation import InputError
from adacorr.labels import Codec, make_codec

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CLASSES = 1_000_000  # that a table may name
LABEL_NAMES = ("label", "labels", "given_label", "given", "noisy_label", "target", "class", "y")
_WEAK_NAMES = ("class", "y")  # often something else beside a column of labels
PROBS_NAMES = ("pred_probs", "probs", "probabilities", "pred_prob", "proba", "predict_proba")
TOP_K_NAMES = (("indices", "values"), ("top_k_indices", "top_k_values"))
CLASS_PREFIXES = ("pred_prob_", "pred_probs_", "probs_", "prob_", "proba_", "p_")
OUTPUT_COLUMNS = (
    "adacorr_label",
    "adacorr_ratio",
    "adacorr_flipped",
    "adacorr_confidence",
    "adacorr_suspicion",
    "adacorr_alternative",
    "adacorr_review",
    "adacorr_majority",
    "adacorr_decided_by",
)


@dataclass(frozen=True)
class Request:
    """What the user said about the columns; None means: find it.

    Several label columns are annotators, one each; several columns or blocks of probabilities are
    models. A text that is no column itself may stand for several: ``a,b`` or ``annotator_*``.
    """

    label_column: str | Sequence[str] | None = None
    probs_column: str | Sequence[str] | None = None
    class_columns: Sequence[str] | Sequence[Sequence[str]] | None = None  # names, or a prefix: p_*
    classes: Sequence[str] | None = None
    top_k_columns: tuple[str, str] | None = None  # class indices, and their probabilities
    n_classes: int | None = None  # where neither names nor columns tell: top-k


@dataclass(frozen=True)
class Layout:
    """The columns of a table that matter here.

    Attributes
    ----------
    label : the column of given labels; of several annotators, the first one's.
    columns : the one list column, one column per class, or the two of top-k probabilities; of
        several models, those of the first.
    is_list, top_k : which of the three.
    class_names : the K names where the user told them.
    n_classes : K where the user told it.
    order : the classes in the order that the type of the labels states, if it does.
    annotators : the label column of each annotator, where there are several.
    others : the columns of each further model, of the same kind as `columns`.
    """

    label: str
    columns: tuple[str, ...]
    is_list: bool
    class_names: tuple[str, ...] | None
    top_k: bool = False
    n_classes: int | None = None
    order: tuple[str, ...] | None = None
    annotators: tuple[str, ...] = ()
    others: tuple[tuple[str, ...], ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All columns of labels."""
        return self.annotators or (self.label,)

    @property
    def models(self) -> tuple[Layout, ...]:
        """The layout of each model alone."""
        blocks = (self.columns, *self.others)
        return tuple(replace(self, columns=block, others=()) for block in blocks)

    @property
    def per_class(self) -> bool:
        """One column per class."""
        return not (self.is_list or self.top_k)

    def codec(self, n_classes: int, seen: Collection[str] | None) -> Codec:
        """What the labels mean; `seen` are the distinct texts, None where they are integers."""
        columns = self.columns if self.per_class else None
        return make_codec(
            n_classes, seen, classes=self.class_names, columns=columns, order=self.order
        )

    @property
    def known_classes(self) -> int:
        """K before any row is read; 0 when only the rows can tell."""
        if self.class_names:
            return len(self.class_names)
        return len(self.columns) if self.per_class else self.n_classes or 0

    @property
    def needed(self) -> list[str]:
        return [*self.labels, *(name for model in self.models for name in model.columns)]


def find_layout(types: Mapping[str, pa.DataType], path: str, request: Request) -> Layout:
    """Decide once per input; every refusal names the file and the flag that settles it."""
    taken = [name for name in OUTPUT_COLUMNS if name in types]
    if taken:
        raise InputError(
            f"{path}: expected a table without output columns, got column {taken[0]!r}; "
            "correct the original table, or rename that column"
        )
    labels = _labels(types, path, request.label_column)
    rest = {name: kind for name, kind in types.items() if name not in labels}
    found = _probabilities(rest, path, labels[0], request)
    return replace(found, annotators=labels) if len(labels) > 1 else found


def _probabilities(
    types: Mapping[str, pa.DataType], path: str, label: str, request: Request
) -> Layout:
    """The layout of one label column and the probabilities that were asked for, or found."""
    classes = tuple(request.classes) if request.classes is not None else None
    ways = (request.probs_column, request.class_columns, request.top_k_columns)
    if sum(way is not None for way in ways) > 1:
        raise InputError(
            "expected one of --probs-column, --class-columns and --top-k-columns, got several"
        )
    if request.top_k_columns is not None:
        return _top_k(types, path, label, request)
    if request.class_columns is not None:
        blocks = [_class_columns(types, path, block) for block in _blocks(request.class_columns)]
        check_same_classes(path, blocks)
        return Layout(label, blocks[0], False, classes, others=tuple(blocks[1:]))
    if request.probs_column is not None:
        lists = [(name,) for name in _named(types, path, request.probs_column)]
        return Layout(label, lists[0], True, classes, others=tuple(lists[1:]))
    return _guess(types, path, label, request)


def _named(
    types: Mapping[str, pa.DataType], path: str, wanted: str | Sequence[str]
) -> tuple[str, ...]:
    """Columns by their names, with commas between several, or by a prefix with a star.

    >>> _named({"a": None, "a_1": None, "a_2": None, "x,y": None}, "t", ["a_*", "x,y", "a"])
    ('a_1', 'a_2', 'x,y', 'a')
    """
    found: list[str] = []
    for text in [wanted] if isinstance(wanted, str) else wanted:
        parts = [text] if text in types else next(csv.reader([text], skipinitialspace=True), [])
        for name in parts or [text]:
            starred = [] if name in types or not name.endswith("*") else _starred(types, name)
            if not starred:
                _present(types, path, name)
            found += starred or [name]
    if len(set(found)) < max(len(found), 1):
        raise InputError(f"{path}: expected distinct columns, got {found}")
    return tuple(found)


def _starred(types: Mapping[str, pa.DataType], pattern: str) -> list[str]:
    return [name for name in types if name.startswith(pattern[:-1])]


def _blocks(wanted: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    """The class columns of each model: lists of names, or prefixes with a star.

    >>> _blocks(["a", "b"]), _blocks(["m_*", "n_*"]), _blocks([["a", "b"], ["c", "d"]])
    ([['a', 'b']], [['m_*'], ['n_*']], [['a', 'b'], ['c', 'd']])
    """
    texts = [one for one in wanted if isinstance(one, str)]
    if len(texts) < len(wanted):
        return [part for one in wanted if not isinstance(one, str) for part in _blocks(one)]
    several = len(texts) > 1 and all(text.endswith("*") for text in texts)
    return [[text] for text in texts] if several else [texts]


def check_same_classes(path: str, blocks: Sequence[tuple[str, ...]]) -> None:
    """The same classes in the same order for each model, by what the names do not share."""
    if len({name for block in blocks for name in block}) < sum(map(len, blocks)):
        raise InputError(f"{path}: expected distinct columns for each model, got some twice")
    first = _cores(blocks[0])
    for block in blocks[1:]:
        if _cores(block) != first:
            raise InputError(
                f"{path}: expected the classes of {', '.join(blocks[0][:6])} in that order for "
                f"each model, got {', '.join(block[:6])}"
            )


def _cores(names: Sequence[str]) -> list[str]:
    """Names without what they all begin and end with."""
    start = len(os.path.commonprefix(list(names)))  # noqa: RUF071
    backwards = [name[start:][::-1] for name in names]
    end = len(os.path.commonprefix(backwards))  # noqa: RUF071
    return [text[end:][::-1] for text in backwards]


def _labels(
    types: Mapping[str, pa.DataType], path: str, wanted: str | Sequence[str] | None
) -> tuple[str, ...]:
    if wanted is not None:
        return _named(types, path, wanted)
    found = [name for name in LABEL_NAMES if name in types]
    sure = [name for name in found if name not in _WEAK_NAMES]
    if len(sure) > 1:
        raise InputError(
            f"{path}: expected one label column, got {' and '.join(sure)}; "
            "say which with --label-column"
        )
    if found:
        return (found[0],)
    raise InputError(
        f"{path}: expected a label column such as {LABEL_NAMES[0]!r}, got {_listing(types)}; "
        "name it with --label-column"
    )


def _present(types: Mapping[str, pa.DataType], path: str, name: str) -> None:
    if name not in types:
        raise InputError(f"{path}: expected a column {name!r}, got {_listing(types)}")


def _listing(types: Mapping[str, pa.DataType]) -> str:
    names = list(types)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return "columns " + ", ".join(names[:8]) + more if names else "no columns"


def _class_columns(
    types: Mapping[str, pa.DataType], path: str, wanted: Sequence[str]
) -> tuple[str, ...]:
    """The columns of a model that were asked for by name, or by one prefix with a star."""
    if len(wanted) == 1 and wanted[0].endswith("*"):
        found = tuple(_starred(types, wanted[0]))
        if len(found) < 2:
            raise InputError(
                f"{path}: expected at least 2 columns {wanted[0]}, got {len(found)} "
                f"among {_listing(types)}"
            )
        return found
    for name in wanted:
        _present(types, path, name)
    if len(set(wanted)) < max(2, len(wanted)):
        raise InputError(f"{path}: expected at least 2 distinct class columns, got {list(wanted)}")
    return tuple(wanted)


def _top_k(types: Mapping[str, pa.DataType], path: str, label: str, request: Request) -> Layout:
    columns = request.top_k_columns
    assert columns is not None
    for name in columns:
        _present(types, path, name)
    classes = tuple(request.classes) if request.classes is not None else None
    k = request.n_classes
    if k is not None and not 2 <= k <= MAX_CLASSES:
        raise InputError(f"n_classes: expected 2 to {MAX_CLASSES:,}, got {k}")
    if classes is not None and k not in (None, len(classes)):
        raise InputError(f"n_classes: expected {len(classes)} as there are classes, got {k}")
    return Layout(label, columns, False, classes, True, k)


def _guess(types: Mapping[str, pa.DataType], path: str, label: str, request: Request) -> Layout:
    import pyarrow.types as kinds

    classes = tuple(request.classes) if request.classes is not None else None
    for name in PROBS_NAMES:
        if name in types:
            return Layout(label, (name,), True, classes)
    for pair in TOP_K_NAMES:
        if all(name in types for name in pair):
            return _top_k(types, path, label, replace(request, top_k_columns=pair))
    lists = [
        name
        for name, kind in types.items()
        if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    ]
    if len(lists) == 1:
        return Layout(label, (lists[0],), True, classes)
    for prefix in CLASS_PREFIXES:
        found = tuple(_starred(types, f"{prefix}*"))
        if len(found) >= 2:
            return Layout(label, found, False, classes)
    if classes is not None and all(name in types for name in classes):
        return Layout(label, classes, False, classes)
    raise InputError(
        f"{path}: expected probabilities in a list column such as {PROBS_NAMES[0]!r} or in columns "
        f"such as prob_CLASS, got {_listing(types)}; name them with --probs-column or "
        "--class-columns"
    )

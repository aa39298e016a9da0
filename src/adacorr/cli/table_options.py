"""What commands on tables have in common: which input, and which of its columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from adacorr.core.validation import InputError

if TYPE_CHECKING:
    from adacorr.tables.layout import Request


Inputs: TypeAlias = "str | tuple[Path, ...]"  # a table, or .npy files of labels and probabilities
Columns = Annotated[tuple[str, ...], Parameter(negative="")]  # with commas, or several times


@Parameter(name="*")
@dataclass(frozen=True)
class TableOptions:
    """Which input, and which of its columns.

    Attributes
    ----------
    labels
        Labels as a .npy file, with --probs, instead of INPUT; (N, M) for several annotators.
    probs
        Probabilities (N, K) as a .npy file; of several models one file each, the mean counts.
    label_column
        The column of given labels. Default: label, labels, given_label, target, y, ... Several
        columns, with commas or a star ("annotator_*"), are annotators: empty where one said
        nothing; the result is what they and the model agree on, and says how good each one is.
    probs_column
        One list column with all probabilities. Default: pred_probs, probs, ... or the only list.
        Several columns are models; the mean counts.
    class_columns
        One column per class: names with commas, or a prefix with a star such as "p_*".
        Default: prob_*, proba_*, p_*, ... Once more for each further model: "first_*,second_*".
    top_k_columns
        Two list columns with commas: the indices of the most probable classes and their
        probabilities; the rest of a row is spread evenly over the other classes.
        Default: indices,values.
    classes
        Class names with commas, in the order of the probabilities, or a .txt file with one name
        per line. Default: the names of the class columns, or the distinct labels in sorted order.
    n_classes
        With top-k columns and integer labels: how many classes there are. Default: the largest
        class index in the table plus 1.
    """

    labels: Path | None = None
    probs: Annotated[tuple[Path, ...], Parameter(negative="", consume_multiple=True)] = ()
    label_column: Columns = ()
    probs_column: Columns = ()
    class_columns: Columns = ()
    top_k_columns: str | None = None
    classes: str | None = None
    n_classes: int | None = None

    def inputs(self, source: str | None) -> Inputs:
        """INPUT, or --labels and --probs together."""
        if source and self.labels is None and not self.probs:
            return source
        if source is None and self.labels is not None and self.probs:
            return self.labels, *self.probs
        raise InputError("expected INPUT, or --labels and --probs together, got something else")

    def request(self) -> Request:
        """The columns that the flags name."""
        from adacorr.tables.layout import Request

        return Request(
            self.label_column or None,
            self.probs_column or None,
            [_split(text) or [] for text in self.class_columns] or None,
            _classes(self.classes),
            _pair(self.top_k_columns),
            self.n_classes,
        )


FOUND = TableOptions()


def files(inputs: Inputs) -> Iterable[Path]:
    """The files on this machine that an output must not replace."""
    from adacorr.tables.remote import is_url, without_file_scheme
    from adacorr.tables.sources import files_behind

    if isinstance(inputs, tuple):
        return inputs
    place = without_file_scheme(inputs)
    return [] if is_url(place) else [Path(str(file)) for file in files_behind(place)]


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

"""The first pass: check every row, count them, learn the classes, keep a sample to fit on.

A survey of a part of the rows merges with that of another part; merged surveys equal the survey
of the whole, so files may be surveyed anywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adacorr.core.sampling import MAX_ROWS, priority, sample_size
from adacorr.core.sparse import TopK
from adacorr.core.validation import InputError
from adacorr.labels import Codec, OrderError, is_integer
from adacorr.tables.arrow import compute, from_numpy
from adacorr.tables.decode import Place, decode_probs
from adacorr.tables.labels import Sighting, encode_given, expected_label, given_labels
from adacorr.tables.layout import MAX_CLASSES, Layout
from adacorr.tables.pipeline import ahead
from adacorr.tables.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

NO_CUTOFF = 2**64 - 1
NOBODY = np.empty(0, dtype=np.int64)
_MAX_PIECES = 256


@dataclass(frozen=True)
class Sample:
    """Rows chosen by the hash of their number, `index`, in the whole input."""

    index: NDArray[np.int64]
    labels: pa.Array
    pred_probs: NDArray[np.floating] | TopK
    path = Path("sample")  # its rows have been checked: no message shows this

    def path_of(self, column: str) -> Path:
        return self.path

    @classmethod
    def joined(cls, parts: Sequence[Sample]) -> Sample:
        """All rows of all parts, in order of the rows."""
        import pyarrow as pa

        index = np.concatenate([part.index for part in parts])
        labels = pa.concat_arrays([part.labels for part in parts])
        return cls(index, labels, _concatenate([part.pred_probs for part in parts])).ordered()

    @classmethod
    def of(cls, parts: Sequence[Sample]) -> Sample:
        """The smallest hashes of all parts, in order of the rows."""
        whole = cls.joined(parts)
        size = _sample_size(whole.pred_probs)
        if len(whole.index) <= size:
            return whole
        return whole.take(np.sort(np.argpartition(priority(whole.index), size - 1)[:size]))

    @property
    def full(self) -> bool:
        """A row whose hash is above all of these will not be needed."""
        return len(self.index) >= _sample_size(self.pred_probs)

    def take(self, rows: NDArray[np.int64]) -> Sample:
        labels = self.labels.take(from_numpy(rows))
        return Sample(self.index[rows], labels, self.pred_probs[rows])

    def ordered(self) -> Sample:
        """In order of the rows; parts may have come in another one."""
        sorted_already = (np.diff(self.index) > 0).all()
        return self if sorted_already else self.take(np.argsort(self.index))


@dataclass(frozen=True)
class Survey:
    """What the first pass learns.

    Attributes
    ----------
    rows : how many there are.
    n_classes : how many probabilities each row has; 0 before the first row. Of top-k rows without
        a number of classes: the largest class index met so far, plus one.
    seen : each distinct text label and where it was first met; empty for integer labels.
    integers : the label column holds integers.
    chosen : rows to fit a rule on, in pieces; none of a small part of a large input, perhaps.
    answered : rows that people gave answers on, in pieces.
    """

    rows: int = 0
    n_classes: int = 0
    seen: dict[str, Sighting] = field(default_factory=dict)
    integers: bool = False
    chosen: tuple[Sample, ...] = ()
    answered: tuple[Sample, ...] = ()

    def merge(self, other: Survey) -> Survey:
        """Of another part of the input; neither part may depend on the order."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        return replace(
            self,
            rows=self.rows + other.rows,
            n_classes=max(self.n_classes, other.n_classes),
            seen={**other.seen, **self.seen},
            chosen=_bounded((*self.chosen, *other.chosen)),
            answered=(*self.answered, *other.answered),
        )

    @property
    def sample(self) -> Sample | None:
        """The rows to fit a rule on; None while there is none."""
        return Sample.of(self.chosen) if self.chosen else None

    def codec(self, layout: Layout) -> Codec:
        """What the labels mean; raises at a label that is none of the classes."""
        try:
            codec = layout.codec(self.n_classes, None if self.integers else self.seen)
        except OrderError as error:
            raise self._unsettled(error) from None
        known = set(codec.marks.tolist())
        for text, sighting in self.seen.items():
            if text not in known:
                raise sighting.error(expected_label(codec), repr(text))
        return codec

    def _unsettled(self, error: OrderError) -> InputError:
        """The same complaint in terms of the file."""
        if error.label is not None:
            return self.seen[error.label].error(error.expected, error.got)
        place = next(iter(self.seen.values())).place
        return InputError(
            f"{place.file.path}: expected {self.n_classes} distinct labels, one per probability, "
            f"got {error.got} "
            f"in column {place.layout.label!r}; name the classes with --classes"
        )


class Surveyor:
    """Surveys one file, or any run of rows, batch by batch."""

    def __init__(
        self,
        layout: Layout,
        *,
        normalize: bool,
        cutoff: int = NO_CUTOFF,
        answered: NDArray[np.int64] = NOBODY,
    ) -> None:
        self._layout = layout
        self._normalize = normalize
        self._survey = Survey()
        self._codec: Codec | None = None
        self._cutoff = np.uint64(cutoff)
        self._answered = answered  # ascending row numbers in the whole input

    def add(self, batch: pa.RecordBatch, place: Place, first_row: int) -> None:
        """Take in a batch; `first_row` is its place in the whole input, `place` in its file."""
        import pyarrow.types as kinds

        f = decode_probs(batch, place, check=True, normalize=self._normalize)
        labels = given_labels(batch, place)
        flat = labels.flatten() if self._layout.annotators else labels
        seen, k = self._survey.seen, f.shape[1]
        if isinstance(f, TopK):
            k = self._top_k_classes(f, flat)
        elif self._survey.n_classes not in (0, k):
            got, column = str(k), self._layout.columns[0]
            raise place.error(f"{self._survey.n_classes} probabilities", got, 0, column)
        integers = kinds.is_integer(flat.type)
        if integers:
            encode_given(self._integer_codec(k), labels, place)
        else:
            self._note_new(flat, place, k)
        chosen = self._choose(labels, f, first_row)
        answered = self._with_answered(labels, f, first_row)
        self._survey = Survey(self._survey.rows + len(f), k, seen, integers, chosen, answered)

    def _integer_codec(self, k: int) -> Codec:
        """Kept from batch to batch: 20,000 names take longer to make than a batch to check."""
        if self._codec is None or len(self._codec.names) != k:
            self._codec = self._layout.codec(k, None)
        return self._codec

    def _top_k_classes(self, f: TopK, labels: pa.Array) -> int:
        """K as told, or so many that every index and integer label up to here is a class."""
        import pyarrow.types as kinds

        if f.n_classes:
            return f.n_classes
        largest = [self._survey.n_classes - 1, int(f.indices.max())]
        if kinds.is_integer(labels.type):
            largest.append(compute().max(labels).as_py())
        else:
            texts = compute().unique(labels.drop_null()).to_pylist()
            texts = [text for text in texts if is_integer(text)]
            largest += [int(text) for text in texts]
        return min(max(largest), MAX_CLASSES) + 1

    def _note_new(self, labels: pa.Array, place: Place, k: int) -> None:
        pc = compute()
        seen = self._survey.seen
        columns = place.layout.labels
        for text in pc.unique(labels.drop_null()).to_pylist():
            if text not in seen:
                row, who = divmod(pc.index(labels, text).as_py(), len(columns))
                seen[text] = Sighting(place.in_column(columns[who]), row)
        if len(seen) <= (
            k if self._layout.known_classes or not self._layout.top_k else MAX_CLASSES
        ):
            return
        # Stop here: a wrong column, such as an identifier, must not fill memory.
        if self._layout.class_names or self._layout.per_class:  # the wrong label is then known
            Survey(n_classes=k, seen=seen).codec(self._layout)
        last = list(seen)[-1]
        raise seen[last].error(f"at most {k} distinct labels, one per probability", repr(last))

    def _choose(
        self, labels: pa.Array, f: NDArray[np.floating] | TopK, first_row: int
    ) -> tuple[Sample, ...]:
        """The rows chosen so far and those of this batch."""
        index, before = np.arange(first_row, first_row + len(f)), self._survey.chosen
        rows = np.flatnonzero(priority(index) <= self._cutoff)
        if not len(rows):
            return before
        chosen = _bounded((*before, Sample(index, labels, f).take(rows)))
        if len(chosen) == 1 and chosen[0].full:
            self._cutoff = priority(chosen[0].index).max()
        return chosen

    def _with_answered(
        self, labels: pa.Array, f: NDArray[np.floating] | TopK, first_row: int
    ) -> tuple[Sample, ...]:
        """The answered rows so far and those of this batch."""
        first, last = np.searchsorted(self._answered, [first_row, first_row + len(f)])
        if first == last:
            return self._survey.answered
        whole = Sample(np.arange(first_row, first_row + len(f)), labels, f)
        return (*self._survey.answered, whole.take(self._answered[first:last] - first_row))

    def result(self) -> Survey:
        return self._survey


def _bounded(parts: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The same sample, put together now and then: to add a piece costs little, and so do all."""
    rows = sum(len(part.index) for part in parts)
    enough = parts and rows >= 2 * _sample_size(parts[-1].pred_probs)
    return (Sample.of(parts),) if enough or len(parts) > _MAX_PIECES else parts


def _concatenate(
    parts: Sequence[NDArray[np.floating] | TopK],
) -> NDArray[np.floating] | TopK:
    if isinstance(parts[0], TopK):
        return TopK.concatenate([part for part in parts if isinstance(part, TopK)])
    return np.concatenate([part for part in parts if not isinstance(part, TopK)])


def _sample_size(f: NDArray[np.floating] | TopK) -> int:
    """Longer lists only ever make it smaller, so that samples of parts still merge."""
    return sample_size(f.width if isinstance(f, TopK) else f.shape[1])


def sure_cutoff(rows: int) -> int:
    """A hash that no row of the sample exceeds, when there are so many rows in all.

    With it the files of a cluster send the sample and hardly more, not a sample each. The number
    of rows below it is binomial: ten standard deviations above the largest sample.

    >>> sure_cutoff(1000) == NO_CUTOFF, round(sure_cutoff(10**9) / NO_CUTOFF * 10**9)
    (True, 204472)
    """
    share = (MAX_ROWS + 10 * MAX_ROWS**0.5) / max(rows, 1)
    return NO_CUTOFF if share >= 1 else int(share * NO_CUTOFF)


def survey_source(
    source: Source,
    layout: Layout,
    first_row: int,
    *,
    batch_rows: int,
    normalize: bool,
    cutoff: int = NO_CUTOFF,
    answered: NDArray[np.int64] = NOBODY,
    progress: Callable[[int], None] = lambda rows: None,
) -> Survey:
    """One file; `first_row` is its place in the whole input, `cutoff` see :func:`sure_cutoff`."""
    surveyor = Surveyor(layout, normalize=normalize, cutoff=cutoff, answered=answered)
    row = 0
    for batch in ahead(source.batches(layout.needed, batch_rows)):
        if batch.num_rows:
            surveyor.add(batch, Place(source, layout, row), first_row + row)
            row += batch.num_rows
            progress(batch.num_rows)
    return surveyor.result()

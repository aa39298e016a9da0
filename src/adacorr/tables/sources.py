"""Tables on disk as a stream of record batches: csv, parquet, arrays in .npy files.

A source is one file. It knows its path, its columns and their types, and yields batches from the
start as often as asked; nothing is kept in memory. Reading errors become one line with the path.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError, one_line
from adacorr.tables import parquet
from adacorr.tables.arrow import from_numpy
from adacorr.tables.remote import Remote, is_url

if TYPE_CHECKING:
    import pyarrow as pa

CSV_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_CSV_BLOCK = 1 << 22
_MAX_LINE = 1 << 24


class Source(Protocol):
    """One file of rows."""

    @property
    def path(self) -> Path | Remote: ...
    def path_of(self, column: str) -> Path | Remote:
        """Where a column is; the same file for all of them but for arrays."""
        ...

    @property
    def paths(self) -> Sequence[Path | Remote]:
        """All files behind the columns."""
        ...

    @property
    def n_rows(self) -> int | None:
        """None when only reading to the end can tell."""
        ...

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...
    @property
    def kept(self) -> Sequence[str]:
        """The columns that the output repeats."""
        ...

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of at most `rows` rows; all columns when `columns` is None."""
        ...


def suffix_of(path: Path | Remote) -> str:
    """``.csv.gz`` counts as one suffix.

    >>> suffix_of(Path("a.b/TABLE.CSV.GZ"))
    '.csv.gz'
    """
    name = path.name.lower()
    return next((s for s in CSV_SUFFIXES if name.endswith(s)), path.suffix.lower())


def open_sources(place: str | Path) -> list[Source]:
    """The files behind one input in order of name: itself, those of a folder or of a pattern."""
    return [_open_source(file) for file in files_behind(place)]


def is_many(place: str | Path) -> bool:
    """Whether the input stands for several files: a folder, or a pattern such as ``a/*.csv``."""
    if is_url(place):
        return glob.has_magic(str(place)) or Remote(str(place)).is_dir()
    return Path(place).is_dir() or (glob.has_magic(str(place)) and not Path(place).exists())


def files_behind(place: str | Path) -> list[Path] | list[Remote]:
    """In order of name."""
    files: list[Path] | list[Remote]
    path = Path(place)
    if is_url(place):
        files = Remote(str(place)).files()
    elif path.is_dir():
        files = sorted(path.glob("*.parquet"))
    elif path.exists() or not glob.has_magic(str(place)):
        files = [path]
    else:
        found = (Path(name) for name in glob.glob(str(place), recursive=True))
        files = sorted(file for file in found if file.is_file())
    if not files:
        what = "files behind a pattern" if path.suffix else "a folder with *.parquet files"
        raise InputError(f"{place}: expected {what}, got none")
    return files


def _open_source(path: Path | Remote) -> Source:
    if isinstance(path, Path) and not path.exists():
        raise InputError(f"{path}: expected an existing file or folder, got none")
    if suffix_of(path) in CSV_SUFFIXES:
        return open_csv(path)
    if suffix_of(path) in (".parquet", ".pq"):
        return open_parquet(path)
    raise InputError(
        f"{path}: expected a .parquet, .csv, .csv.gz or .tsv file or a folder of parquet files, "
        f"got {path.suffix or 'no suffix'}"
    )


def names_apart(sources: Sequence[Source]) -> list[str]:
    """A name for each file in one folder: its own, with subfolders where they differ."""
    parts = [str(source.path).replace(os.sep, "/").split("/") for source in sources]
    same = 0
    while all(len(part) > same + 1 and part[same] == parts[0][same] for part in parts):
        same += 1
    return ["/".join(part[same:]) for part in parts]


@contextmanager
def _reading(path: Path | Remote, kind: str) -> Iterator[None]:
    """Every way a library refuses a file becomes one line that names it."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except Exception as error:
        local = (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError, csv.Error)
        if not isinstance(error, local) and isinstance(path, Path):
            raise
        reason = one_line(error)
        raise InputError(f"{path}: expected a readable {kind}, got: {reason}") from error


@dataclass(frozen=True)
class ParquetSource:
    path: Path | Remote
    schema: pa.Schema
    n_rows: int
    compression: str

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        return self._types

    @cached_property
    def _types(self) -> Mapping[str, pa.DataType]:  # asked for column by column
        return dict(zip(self.schema.names, self.schema.types, strict=True))

    def path_of(self, column: str) -> Path | Remote:
        return self.path

    @property
    def paths(self) -> Sequence[Path | Remote]:
        return (self.path,)

    @property
    def kept(self) -> Sequence[str]:
        return self.schema.names

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        with _reading(self.path, "parquet file"), _opened(self.path) as handle:
            yield from parquet.batches(handle, self.path, columns, rows)


@contextmanager
def _opened(path: Path | Remote) -> Iterator[Any]:
    """What Arrow reads from: the path itself, or the open file behind a URL."""
    if isinstance(path, Path):
        yield path
        return
    with path.open() as handle:
        yield handle


def open_parquet(path: Path | Remote) -> ParquetSource:
    with (
        _reading(path, "parquet file"),
        _opened(path) as handle,
        parquet.opened(handle) as file,
    ):
        parquet.check_shape(file, path, parquet.size_of(handle))
        schema, meta = file.schema_arrow, file.metadata
        codec = "ZSTD"
        if meta.num_row_groups and meta.num_columns:
            codec = meta.row_group(0).column(0).compression
        _unique(schema.names, path)
        return ParquetSource(path, schema, meta.num_rows, codec)


@dataclass(frozen=True)
class CsvSource:
    """All columns are read as text, so that those we do not touch come out as they went in."""

    path: Path | Remote
    names: tuple[str, ...]
    n_rows: None = None

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        return self._types

    @cached_property
    def _types(self) -> Mapping[str, pa.DataType]:  # asked for column by column
        import pyarrow as pa

        return dict.fromkeys(self.names, pa.string())

    def path_of(self, column: str) -> Path | Remote:
        return self.path

    @property
    def paths(self) -> Sequence[Path | Remote]:
        return (self.path,)

    @property
    def kept(self) -> Sequence[str]:
        return self.names

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        names = list(self.names if columns is None else columns)
        with _reading(self.path, "CSV file"):
            try:
                for batch in self._read(names):
                    for start in range(0, batch.num_rows, rows):
                        yield batch.slice(start, rows)
            except pa.ArrowInvalid:
                # Only a reader of one thread knows the number of the bad row: let it find that.
                for _ in self._read(names, use_threads=False):
                    pass
                raise

    def _read(self, names: list[str], use_threads: bool = True) -> Iterator[pa.RecordBatch]:
        with _opened(self.path) as handle:
            yield from self._read_from(handle, names, use_threads)

    def _read_from(self, handle: Any, names: list[str], threads: bool) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        if not isinstance(handle, Path) and suffix_of(self.path).endswith(".gz"):
            handle = pa.CompressedInputStream(pa.PythonFile(handle, "r"), "gzip")
        reader = arrow_csv.open_csv(
            handle,
            arrow_csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=threads),
            arrow_csv.ParseOptions(delimiter=delimiter(self.path), newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=self.types, include_columns=names, strings_can_be_null=False
            ),
        )
        with reader:
            yield from reader


def delimiter(path: Path | Remote) -> str:
    return "\t" if suffix_of(path).startswith(".tsv") else ","


def open_csv(path: Path | Remote) -> CsvSource:
    def text() -> Any:
        file = path if isinstance(path, Path) else path.open()
        if suffix_of(path).endswith(".gz"):
            return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
        if isinstance(file, Path):
            return open(file, encoding="utf-8-sig", newline="")
        return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")

    with _reading(path, "CSV file"), text() as handle:
        names = next(csv.reader(_lines(handle, path), delimiter=delimiter(path)), None)
    if not names:
        raise InputError(f"{path}: expected a header line and rows, got an empty file")
    _separated(names, path)
    _unique(names, path)
    return CsvSource(path, tuple(names))


def _separated(names: Sequence[str], path: Path | Remote) -> None:
    """One column that looks like several: the separator is another one than the suffix says."""
    if len(names) == 1 and any(mark in names[0] for mark in ",;\t|"):
        wanted = "tabs" if delimiter(path) == "\t" else "commas (tabs in a .tsv file)"
        got = repr(names[0][:60])
        raise InputError(f"{path}: expected columns separated by {wanted}, got one column {got}")


def _lines(handle: Any, path: Path | Remote) -> Iterator[str]:
    """Lines of a bounded length: a packed file can hold gigabytes without an end of line."""
    while line := handle.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise InputError(f"{path}: expected a header line, got {_MAX_LINE:,} characters of one")
        yield line


def _unique(names: Sequence[str], path: Path | Remote) -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise InputError(f"{path}: expected distinct column names, got {repeated[0]!r} twice")


@dataclass(frozen=True)
class ArraySource:
    """``--labels labels.npy --probs probs.npy`` as a table: a column per annotator and model.

    Attributes
    ----------
    path : of the labels.
    labels : (N,), or (N, M) for several annotators.
    models : path and (N, K) probabilities of each model.
    """

    path: Path
    labels: NDArray[Any]
    models: tuple[tuple[Path, NDArray[Any]], ...]

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    @property
    def label_columns(self) -> tuple[str, ...]:
        m = 1 if self.labels.ndim == 1 else self.labels.shape[1]
        return _numbered("label", m)

    @property
    def probs_columns(self) -> tuple[str, ...]:
        return _numbered("pred_probs", len(self.models))

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        kind = pa.string() if self.labels.dtype.kind == "U" else pa.from_numpy_dtype(self.dtype)
        lists = {
            name: pa.list_(pa.from_numpy_dtype(f.dtype.newbyteorder("=")))
            for name, (_, f) in zip(self.probs_columns, self.models, strict=True)
        }
        return dict.fromkeys(self.label_columns, kind) | lists

    def path_of(self, column: str) -> Path:
        found = dict(zip(self.probs_columns, self.models, strict=True))
        return found[column][0] if column in found else self.path

    @property
    def paths(self) -> Sequence[Path]:
        return (self.path, *(path for path, _ in self.models))

    @property
    def kept(self) -> Sequence[str]:
        return self.label_columns  # the probabilities stay in their files

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.labels.dtype.newbyteorder("=")

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        names = list(self.types if columns is None else columns)
        given = self.labels if self.labels.ndim == 2 else self.labels[:, None]
        for start in range(0, len(self.labels), rows):
            part = slice(start, start + rows)
            made: dict[str, pa.Array] = {}
            for j, name in enumerate(self.label_columns):
                if name in names:
                    y = np.ascontiguousarray(given[part, j], self.dtype)
                    made[name] = pa.array(y) if y.dtype.kind == "U" else from_numpy(y)
            for name, (_, model) in zip(self.probs_columns, self.models, strict=True):
                if name in names:
                    f = np.ascontiguousarray(model[part])
                    f = f.astype(f.dtype.newbyteorder("="), copy=False)
                    flat = from_numpy(f.reshape(-1))
                    made[name] = pa.FixedSizeListArray.from_arrays(flat, f.shape[1])
            yield pa.record_batch(made)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name}_{i}" for i in range(count))


def open_arrays(labels: Path, probs: Sequence[Path]) -> ArraySource:
    """Labels (N,) or (N, M), and one array of probabilities for each model."""
    y, models = load_npy(labels), tuple((path, load_npy(path)) for path in probs)
    if y.ndim not in (1, 2) or y.dtype.kind not in "iuUb" or (y.ndim == 2 and not y.shape[1]):
        raise InputError(
            f"{labels}: expected integers or strings of shape (N,), or (N, M) for several "
            f"annotators, got {y.dtype} {y.shape}"
        )
    for path, f in models:
        if f.ndim != 2 or f.dtype.kind not in "fiub" or f.dtype.itemsize > 8:
            raise InputError(f"{path}: expected numbers of shape (N, K), got {f.dtype} {f.shape}")
        if len(y) != len(f):
            got = f"{len(y)} and {len(f)}"
            raise InputError(f"{labels}, {path}: expected the same length, got {got}")
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    return ArraySource(labels, y, models)


def load_npy(path: Path) -> NDArray[Any]:
    """A plain array as a memory map; never a pickle."""
    try:
        with warnings.catch_warnings():  # about headers written by Python 2: not the user's matter
            warnings.simplefilter("ignore")
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path}: expected an existing .npy file, got none") from None
    except Exception as error:  # a damaged header fails in numpy's parser in a dozen ways
        reason = one_line(error)
        raise InputError(f"{path}: expected a plain .npy array, got: {reason}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{path}: expected one .npy array, got an archive of several")
    return array

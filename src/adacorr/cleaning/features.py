"""Features of all samples, made once: on disk beside the run, in blocks, to be gone on with.

features.npy        (N, D) float32
cache/encoded.npy   which rows are done (1), could not be read (2), or wait (0)
cache/digests.npy   (N, 2) what each row's content was, so that known rows are not encoded again
cache/encoder.json  which encoder made them
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.encoders.encoded import Encoder, Vectors
from adacorr.cleaning.samples import Samples
from adacorr.cleaning.workers import HERE, Workers, one_thread
from adacorr.core.sampling import sample_rows
from adacorr.files import atomic

BLOCK = 2048
"""Rows encoded between two looks at the clock; a kill loses no more than these."""
FIT_ROWS = 50_000
"""Encoders are fitted to a sample of at most so many rows."""
REDUCED = 256
"""Models look at so many leading directions of wider features."""
WAITING, DONE, UNREADABLE = 0, 1, 2


@dataclass(frozen=True)
class Views:
    """Some rows, as models look at them."""

    dense: NDArray[np.float32]
    sparse: Any
    n_words: int

    def __getitem__(self, name: str) -> Any:
        """The view that a model asks for: "dense", "sparse" or "words"."""
        if name == "dense":
            return self.dense
        return self.sparse[:, : self.n_words] if name == "words" else self.sparse


class SparseView(Protocol):
    """Sparse rows, wherever they lie."""

    def take(self, rows: NDArray[np.int64]) -> Any: ...


class Tick(Protocol):
    """Told how many rows of how many are done."""

    def __call__(self, step: str, done: int, total: int) -> None: ...


def silent(step: str, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Features:
    """What models and neighbours look at.

    Attributes
    ----------
    dense : (N, D) float32; a memory map where there is a folder.
    reduced : (N, d) the leading directions, on one scale.
    sparse : blocks of CSR rows (words first), or None.
    n_words : how many of the sparse columns are words.
    readable : (N,) False where a sample could not be read or is empty; its row is zeros.
    digests : (N, 2) digests of the contents.
    identity : of the contents and the encoder.
    """

    dense: NDArray[np.float32]
    reduced: NDArray[np.float32]
    sparse: SparseView | None
    n_words: int
    readable: NDArray[np.bool_]
    digests: NDArray[np.uint64]
    identity: str

    def views(self, rows: NDArray[np.int64]) -> Views:
        """What models see of some rows."""
        sparse = None if self.sparse is None else self.sparse.take(rows)
        return Views(self.reduced[rows], sparse, self.n_words)


class SparseRows:
    """CSR rows in blocks of `BLOCK`; with a folder the blocks lie on disk as plain arrays."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._blocks: list[Any] = []

    def append(self, block: Any) -> None:
        if self._folder is not None:
            block = self._mapped(block, self._folder / "cache" / f"sparse-{len(self._blocks)}")
        self._blocks.append(block)

    @staticmethod
    def _mapped(block: Any, stem: Path) -> Any:
        from scipy.sparse import csr_matrix

        parts = []
        for name in ("data", "indices", "indptr"):
            path = stem.with_name(f"{stem.name}-{name}.npy")
            np.save(path, getattr(block, name))
            parts.append(np.load(path, mmap_mode="r"))
        return csr_matrix(tuple(parts), shape=block.shape, copy=False)

    def take(self, rows: NDArray[np.int64]) -> Any:
        """The rows, in that order."""
        from scipy.sparse import vstack

        order = np.argsort(rows, kind="stable")
        at = np.searchsorted(rows[order], np.arange(len(self._blocks) + 1) * BLOCK)
        picked = [
            self._blocks[b][rows[order[at[b] : at[b + 1]]] - b * BLOCK]
            for b in range(len(self._blocks))
            if at[b + 1] > at[b]
        ]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        found: Any = vstack(picked, format="csr")
        return found[back]


def make_features(
    samples: Samples,
    digests: NDArray[np.uint64],
    encoder: Encoder,
    folder: Path | None = None,
    tick: Tick = silent,
    engine: Workers = HERE,
) -> Features:
    """Encode every sample; what `folder` holds of an earlier, even a killed, run is used again."""
    whole = hashlib.sha256(digests.tobytes()).hexdigest()
    if encoder.fitted:
        tick("learning the columns" if samples.kind == "values" else "learning the words", 0, 1)
        one_thread(encoder.fit)(picked(samples.content, sample_rows(len(samples), FIT_ROWS)))
        tick("learned", 1, 1)
    maker = f"{encoder.name} {whole}" if encoder.fitted else encoder.name
    first = encoder.encode(picked(samples.content, np.arange(1)))
    store = _Store.open(folder, maker, digests, first.dense.shape[1])
    sparse = None
    if first.sparse is not None:  # words are not kept: weighing them again is quick
        sparse = SparseRows(None if len(samples) <= FIT_ROWS else folder)
        store.state[:] = WAITING
    todo = np.flatnonzero(store.state == WAITING)
    blocks = [todo[start : start + BLOCK] for start in range(0, len(todo), BLOCK)]
    contents = (picked(samples.content, rows) for rows in blocks)
    done = len(samples) - len(todo)
    tick(f"encoding {samples.kind}", done, len(samples))
    for rows, found in zip(blocks, engine.each(_encoded, encoder, contents), strict=True):
        store.put(rows, found.dense, found.readable)
        if sparse is not None:
            sparse.append(found.sparse)
        done += len(rows)
        tick(f"encoding {samples.kind}", done, len(samples))
    readable = np.asarray(store.state) == DONE
    return Features(
        store.features,
        _reduced(store.features, readable, folder),
        sparse,
        getattr(encoder, "n_words", 0),
        readable,
        digests,
        hashlib.sha256(f"{maker} {whole}".encode()).hexdigest(),
    )


def _encoded(encoder: Encoder, content: Any) -> Vectors:
    return encoder.encode(content)


def picked(content: Any, rows: NDArray[np.int64]) -> Any:
    """Some of the contents, whatever holds them."""
    if hasattr(content, "column_names"):
        first, last = int(rows[0]), int(rows[-1])
        whole = last - first + 1 == len(rows)  # rows increase: a slice, which copies nothing
        return content.slice(first, len(rows)) if whole else content.take(rows)
    if isinstance(content, np.ndarray):
        return content[rows]
    return [content[int(i)] for i in rows]


def array_at(folder: Path | None, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """A new array of zeros, in memory or as a file."""
    if folder is None:
        return np.zeros(shape, dtype)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return np.lib.format.open_memmap(path, "w+", dtype=dtype, shape=shape)


def array_there(
    folder: Path,
    name: str,
    shape: tuple[int | None, ...],
    dtype: Any,
    mode: Literal["r", "r+"] = "r+",
) -> NDArray[Any] | None:
    """An array of an earlier run, to go on with; None unless it is as it must be."""
    try:
        found = np.load(folder / name, mmap_mode=mode, allow_pickle=False)
    except Exception:  # a damaged header fails in numpy's parser in a dozen ways
        return None
    if not isinstance(found, np.memmap) or found.dtype != dtype or found.ndim != len(shape):
        return None
    fits = (n in (None, m) for n, m in zip(shape, found.shape, strict=True))
    return found if all(fits) else None


# -- what is there already -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Store:
    features: NDArray[np.float32]
    state: NDArray[np.uint8]

    @classmethod
    def open(
        cls, folder: Path | None, maker: str, digests: NDArray[np.uint64], width: int
    ) -> _Store:
        """The arrays, with the rows that are known already filled in."""
        old = None if folder is None else _known(folder, maker, width)
        if old is not None and np.array_equal(old[2], digests):
            return cls(old[0], old[1])
        filled = None if old is None else _looked_up(*old, digests)
        shape = (len(digests), width)
        store = cls(
            array_at(folder, "features.npy", shape, np.float32),
            array_at(folder, "cache/encoded.npy", shape[:1], np.uint8),
        )
        if filled is not None:
            rows, features, state = filled
            store.features[rows], store.state[rows] = features, state
        if folder is not None:
            np.save(folder / "cache" / "digests.npy", digests)
            with atomic(folder / "cache" / "encoder.json") as path:
                path.write_text(json.dumps({"encoder": maker, "width": width}))
        return store

    def put(
        self, rows: NDArray[np.int64], features: NDArray[np.float32], readable: NDArray[np.bool_]
    ) -> None:
        """Write some rows; they count as done only once they are on disk."""
        self.features[rows] = features
        _flush(self.features)
        self.state[rows] = np.where(readable, DONE, UNREADABLE)
        _flush(self.state)


def _flush(array: NDArray[Any]) -> None:
    if isinstance(array, np.memmap):
        array.flush()


def _known(folder: Path, maker: str, width: int) -> tuple[Any, Any, Any] | None:
    """Features, state and digests of an earlier run of the same encoder; None: there are none."""
    try:
        about = json.loads((folder / "cache" / "encoder.json").read_text())
    except (OSError, ValueError, RecursionError):
        return None
    digests = array_there(folder, "cache/digests.npy", (None, 2), np.uint64)
    if about != {"encoder": maker, "width": width} or digests is None:
        return None
    state = array_there(folder, "cache/encoded.npy", (len(digests),), np.uint8)
    features = array_there(folder, "features.npy", (len(digests), width), np.float32)
    return None if state is None or features is None else (features, state, digests)


def _looked_up(features: Any, state: Any, old: Any, new: Any) -> tuple[Any, Any, Any]:
    """Rows of the new samples whose content was encoded before, with features and state."""
    place = {row.tobytes(): i for i, row in enumerate(old) if state[i] != WAITING}
    found = [(i, place[key]) for i, row in enumerate(new) if (key := row.tobytes()) in place]
    rows, sources = np.array(found, np.int64).reshape(-1, 2).T
    return rows, np.array(features[sources]), np.array(state[sources])


class Reduction:
    """The leading directions of wide features, centred, with a typical size of one.

    Narrow features stay as they are. Fitted to a sample of the readable rows.
    """

    def __init__(self, features: NDArray[np.float32], readable: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(readable)
        rows = rows[sample_rows(len(rows), FIT_ROWS // 5)]
        self._pca: Any = None
        self.width = features.shape[1]
        if self.width <= REDUCED or len(rows) < 2:
            return
        from sklearn.decomposition import PCA

        self.width = min(REDUCED, len(rows) - 1)
        settings: Any = {"svd_solver": "randomized", "iterated_power": 2, "random_state": 0}
        self._pca = PCA(self.width, **settings)
        self._scale = self._pca.fit_transform(np.array(features[rows])).std() or 1.0

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """(B, width) of (B, D)."""
        if self._pca is None:
            return features
        return (self._pca.transform(features) / self._scale).astype(np.float32)


@one_thread
def _reduced(
    features: NDArray[np.float32], readable: NDArray[np.bool_], folder: Path | None
) -> NDArray[np.float32]:
    """All rows, a block at a time."""
    reduce = Reduction(features, readable)
    if reduce.width == features.shape[1]:
        return features
    out = array_at(folder, "cache/reduced.npy", (len(features), reduce.width), np.float32)
    for start in range(0, len(features), BLOCK):
        out[start : start + BLOCK] = reduce(features[start : start + BLOCK])
    return out

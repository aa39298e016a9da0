"""Numpy arrays out of pickles without running anything that the pickle names.

CIFAR's Python archives and CIFAR-N's ``.pt`` are pickles of dicts, lists and arrays. The reader
here answers the five names that such arrays need with small stand-ins of its own and refuses
every other name, so a hostile file can build dicts, lists, numbers and arrays, and nothing else.
"""

from __future__ import annotations

import codecs
import io
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError, one_line

_TYPECODE = re.compile(r"[biuf]\d{1,2}\Z")
_LEGACY_TORCH_MAGIC = 0x1950A86A20F9469CFC6C


class _Dtype:
    """Stands in for numpy.dtype: a type code and a byte order, checked."""

    def __init__(self, code: Any = None, align: Any = 0, copy: Any = 0) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|", "="):
            self.order = state[1]

    def numpy(self) -> np.dtype[Any]:
        if not isinstance(self.code, str) or not _TYPECODE.match(self.code):
            raise pickle.UnpicklingError(f"an array of type {self.code!r}")
        return np.dtype(self.order + self.code)


class _Array:
    """Stands in for numpy.ndarray: its bytes are read by us."""

    value: NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        if isinstance(raw, str):  # written by Python 2
            raw = raw.encode("latin1")
        if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array of Python objects")
        flat = np.frombuffer(raw, dtype.numpy())
        self.value = flat.reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError(f"text in {encoding!r}")
    return codecs.encode(text, "latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(f"the name {module_name}.{global_name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("torch tensors")


def read_pickle(raw: bytes, where: str) -> dict[str, Any]:
    """The dict of a CIFAR batch; keys become text, arrays numpy arrays."""
    return _guard(lambda: _Reader(io.BytesIO(raw), encoding="latin1").load(), where)


def read_torch(path: Path) -> dict[str, Any]:
    """The dict of arrays of a ``torch.save`` file, in its zip or its older form."""
    raw = path.read_bytes()
    read = _zipped if raw[:2] == b"PK" else _legacy
    return _guard(lambda: read(raw), str(path))


def _zipped(raw: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names = [name for name in archive.namelist() if name.split("/")[-1] == "data.pkl"]
        if len(names) != 1:
            raise pickle.UnpicklingError("a zip file without data.pkl")
        return _Reader(io.BytesIO(archive.read(names[0])), encoding="latin1").load()


def _legacy(raw: bytes) -> Any:
    stream = io.BytesIO(raw)
    if _Reader(stream, encoding="latin1").load() != _LEGACY_TORCH_MAGIC:
        raise pickle.UnpicklingError("another magic number")
    for _ in range(2):  # protocol version, sizes of C types
        _Reader(stream, encoding="latin1").load()
    return _Reader(stream, encoding="latin1").load()


def _guard(read: Any, where: str) -> dict[str, Any]:
    try:
        found = read()
        if not isinstance(found, dict):
            raise pickle.UnpicklingError(f"a {type(found).__name__}")
        return {_text(key): _unwrap(value) for key, value in found.items()}
    except Exception as error:  # a damaged pickle raises nearly anything
        reason = one_line(error)
        raise InputError(
            f"{where}: expected a pickle of plain arrays (nothing else is loaded), got {reason}"
        ) from error


def _text(key: Any) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)


def _unwrap(value: Any) -> Any:
    if isinstance(value, _Array):
        if value.value is None:
            raise pickle.UnpicklingError("an array without data")
        return value.value
    return value

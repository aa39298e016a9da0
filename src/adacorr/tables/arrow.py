"""The few places where pyarrow needs help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def compute() -> Any:
    """pyarrow's compute functions, which exist only at run time: type checkers do not know them."""
    import pyarrow.compute

    return pyarrow.compute


def from_numpy(values: NDArray[Any]) -> pa.Array:
    """A number or boolean column without a copy of the numbers.

    ``pa.array`` would do, but it imports pandas where that is installed: half a second for nothing.

    >>> from_numpy(np.array([True, False])).to_pylist(), from_numpy(np.array([1.5])).to_pylist()
    ([True, False], [1.5])
    """
    import pyarrow as pa

    n = len(values)
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), n, [None, pa.py_buffer(bits)])
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(values)])


def to_numpy(column: pa.Array) -> NDArray[Any]:
    """A number or boolean column without nulls; a read-only view where possible.

    >>> import pyarrow as pa
    >>> to_numpy(pa.array([3, 1, 2])[1:]).tolist(), to_numpy(pa.array([True, False])[1:]).tolist()
    ([1, 2], [False])
    """
    import pyarrow as pa

    start, n, data = column.offset, len(column), column.buffers()[1]
    if n == 0 or data is None:
        return np.empty(0, bool if pa.types.is_boolean(column.type) else np.float64)
    if pa.types.is_boolean(column.type):
        bits = np.frombuffer(data, np.uint8)
        return np.unpackbits(bits, count=start + n, bitorder="little")[start:].astype(bool)
    kind: Any = column.type.to_pandas_dtype()
    return np.frombuffer(data, kind, count=n, offset=start * np.dtype(kind).itemsize)

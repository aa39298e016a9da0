"""pyarrow's compute functions, which exist only at run time and are unknown to type checkers."""

from __future__ import annotations

from typing import Any


def compute() -> Any:
    import pyarrow.compute

    return pyarrow.compute

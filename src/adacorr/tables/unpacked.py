"""Files that are small on disk and huge in memory: refused before they are unpacked."""

from __future__ import annotations

from pathlib import Path

from adacorr.core.validation import InputError

HARMLESS_BYTES = 1 << 30
"""Whatever unpacks to less than this is read."""
MAX_RATIO = 200
"""Real data is hardly ever packed tighter; deflate reaches about 1,000 on zeros."""


def check_unpacked(
    path: object, size: int, packed: int | None = None, harmless: int | None = None
) -> None:
    """Raise if `size` bytes are to come out of the file at `path` and no honest file holds them.

    `packed` is the size of the file where `path` is no local one; up to `harmless` bytes are read.
    """
    if size <= (HARMLESS_BYTES if harmless is None else harmless):
        return
    packed = packed if packed is not None else Path(str(path)).stat().st_size
    if size > MAX_RATIO * packed:
        raise InputError(
            f"{path}: expected data packed at most {MAX_RATIO} to 1, got {size:,} bytes or more "
            f"in a file of {packed:,}"
        )

"""Files that are small on disk and huge in memory: refused before they are unpacked."""

from __future__ import annotations

from pathlib import Path

from adacorr.core.validation import InputError

HARMLESS_BYTES = 1 << 30
"""Whatever unpacks to less than this is read."""
MAX_RATIO = 200
"""Real data is hardly ever packed tighter; deflate reaches about 1,000 on zeros."""


def check_unpacked(path: Path, size: int) -> None:
    """Raise if `size` bytes are to come out of the file at `path` and no honest file holds them."""
    packed = path.stat().st_size
    if size > HARMLESS_BYTES and size > MAX_RATIO * packed:
        raise InputError(
            f"{path}: expected data packed at most {MAX_RATIO} to 1, got {size:,} bytes or more "
            f"in a file of {packed:,}"
        )

"""``--verified``: a file of answers, or the run on whose review page they were given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adacorr.correction.verified import Verified


def verified_by(path: Path | None, *, by_id: bool = False) -> Verified | None:
    """What people said; `by_id`: of a file with row numbers and ids the ids count."""
    from adacorr.correction.verified import read_verified

    if path is None:
        return None
    if path.is_dir():
        from adacorr.review import answers_of
        from adacorr.runs.directory import Run

        return answers_of(Run.open(path))
    return read_verified(path, by_id=by_id)

"""Labels and probabilities on disk (csv, parquet, npy, streamed) and in other libraries' frames."""

from adacorr.correction.frames import correct_frame, to_cleanlab
from adacorr.correction.result import TableResult
from adacorr.correction.tables import TableSettings, correct_table
from adacorr.tables.layout import Request

__all__ = [
    "Request",
    "TableResult",
    "TableSettings",
    "correct_frame",
    "correct_table",
    "to_cleanlab",
]

"""Labels and probabilities on disk (csv, parquet, npy, streamed) and in other libraries' frames."""

from adacorr.tables.adapters import correct_frame, to_cleanlab
from adacorr.tables.correct import Settings, correct_table
from adacorr.tables.layout import Request
from adacorr.tables.result import TableResult

__all__ = [
    "Request",
    "Settings",
    "TableResult",
    "correct_frame",
    "correct_table",
    "to_cleanlab",
]

"""Labels and probabilities on disk: csv, parquet, npy, streamed."""

from adacorr.tables.correct import Settings, correct_table
from adacorr.tables.layout import Request
from adacorr.tables.result import TableResult

__all__ = ["Request", "Settings", "TableResult", "correct_table"]

"""A run directory -> one self-contained HTML page."""

from adacorr.report.page import write_report

__all__ = ["write_report"]

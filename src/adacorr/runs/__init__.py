"""What a run directory is: its files, checked reads, the samples behind it, exports."""

from adacorr.runs.directory import Run

__all__ = ["Run"]

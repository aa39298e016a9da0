"""Named datasets, image folders, tables and arrays -> one Dataset type. Needs no torch."""

from adacorr.data.arrays import from_arrays
from adacorr.data.dataset import Dataset, Splits
from adacorr.data.load import load, open_source
from adacorr.data.previews import Preview, preview

__all__ = ["Dataset", "Preview", "Splits", "from_arrays", "load", "open_source", "preview"]

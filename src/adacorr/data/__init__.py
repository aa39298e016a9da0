"""Named datasets, image folders, tables and arrays -> one Dataset type. Needs no torch."""

from adacorr.data.arrays import from_arrays
from adacorr.data.dataset import Dataset, Splits
from adacorr.data.load import load, open_source
from adacorr.data.new import load_new
from adacorr.data.previews import Preview, preview

__all__ = [
    "Dataset",
    "Preview",
    "Splits",
    "from_arrays",
    "load",
    "load_new",
    "open_source",
    "preview",
]

"""Photos, texts or tables -> features -> out-of-fold models -> the rule -> a run directory."""

from adacorr.cleaning.clean import Cleaned, clean
from adacorr.cleaning.folds import Folds

__all__ = ["Cleaned", "Folds", "clean"]

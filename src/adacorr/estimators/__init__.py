"""scikit-learn estimators: correct labels inside a pipeline, a grid search or a fit.

`CorrectedClassifier` and `LabelCorrector` need scikit-learn alone; `AdaCorrClassifier` imports
torch when it is fitted.
"""

from adacorr.estimators.corrected import CorrectedClassifier
from adacorr.estimators.corrector import LabelCorrector
from adacorr.estimators.net import AdaCorrClassifier

__all__ = ["AdaCorrClassifier", "CorrectedClassifier", "LabelCorrector"]

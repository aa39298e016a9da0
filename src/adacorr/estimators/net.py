"""AdaCorr training as a scikit-learn classifier; torch is imported when it is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from adacorr.core.answers import encode_answers
from adacorr.core.validation import InputError
from adacorr.data.arrays import check_features, in_unit_range
from adacorr.labels import Codec
from adacorr.train.settings import Settings

if TYPE_CHECKING:
    from adacorr.train.methods.base import Method


class AdaCorrClassifier(ClassifierMixin, BaseEstimator):
    """A neural network that learns from noisy labels and corrects them.

    Needs ``pip install 'adacorr[train]'``. Rows (N, D) get a perceptron, images a convolutional
    net, unless `net` says otherwise; see :func:`adacorr.train.fit`. Images are (N, H, W), (N, H, W,
    C) or (N, C, H, W) with 1 or 3 channels, as bytes or as floats in [0, 1] or [0, 255]. It takes
    no `sample_weight`.

    Parameters
    ----------
    net : None, a name such as "mlp:hidden=256", a torch module, or a factory ``k -> module``.
    method : a name in :data:`adacorr.train.METHODS`, or a method such as ``AdaCorr(delta=0.5)``.
    epochs : None scales with the number of samples.
    batch_size, lr, weight_decay : of the optimiser.
    validation : fraction of the (noisy) samples held out to select the epoch.
    random_state : a seed; the same seed gives the same model.

    Attributes
    ----------
    classes_ : (K,) the class labels, sorted.
    corrected_labels_ : (N,) the labels after correction, by nets that did not learn from the row.
    correction_ : :class:`adacorr.Correction`, what was decided for each row and why (classes as
        places in ``classes_``); with answers of people also what these prove.
    pred_probs_ : (N, K) what the model says of the training samples.
    history_ : one dict per epoch.
    model_ : the trained model.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b", "c"], 150)
    >>> X = rng.normal(size=(450, 2)) + np.repeat([[-4, -4], [4, 4], [4, -4]], 150, axis=0)
    >>> given = y.copy()
    >>> given[::8] = "b"
    >>> model = AdaCorrClassifier(epochs=40).fit(X, given)
    >>> bool(np.mean(model.corrected_labels_ == y) > np.mean(given == y))
    True
    >>> model.predict([[-4, -4]]).item()
    'a'
    """

    def __init__(
        self,
        net: Any = None,
        *,
        method: str | Method = "adacorr",
        epochs: int | None = Settings.epochs,
        batch_size: int = Settings.batch_size,
        lr: float = Settings.lr,
        weight_decay: float = Settings.weight_decay,
        validation: float = 0.1,
        random_state: int | np.random.RandomState | None = Settings.seed,
    ) -> None:
        self.net = net
        self.method = method
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.validation = validation
        self.random_state = random_state

    def fit(self, X: Any, y: Any, verified: Any = None):
        """Train on (N, ...) samples and their possibly wrong labels (N,).

        `verified` is what people said of single rows, as in :func:`adacorr.correct`.
        """
        fit, methods = _import_torch()
        X, y = validate_data(self, X, y, dtype=_DTYPES, allow_nd=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError("y: expected at least 2 classes, got 1 class")
        codec = Codec(tuple(map(str, self.classes_.tolist())), self.classes_)
        self._unit = in_unit_range(X)
        result = fit(
            self.net,
            self._samples(X),
            codes,
            method=_method(self.method, methods),
            epochs=self.epochs,
            batch_size=self.batch_size,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            validation=self.validation,
            verified=encode_answers(verified, len(codes), codec),
        )
        self.corrected_labels_ = self.classes_[result.labels]
        self.correction_ = result.correction
        self.pred_probs_ = result.pred_probs
        self.history_ = result.history
        self.model_ = result.model
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(M, K) probabilities, columns in the order of ``classes_``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=_DTYPES, allow_nd=True, reset=False)
        return self.model_.predict_proba(self._samples(X))

    def _samples(self, X: NDArray[Any]) -> NDArray[Any]:
        """Images in the form that nets by name take; your own net gets what you pass."""
        own = self.net is not None and not isinstance(self.net, str)
        if X.ndim == 2 or own or _takes_anything(self.net):
            return X
        return check_features(X, unit=self._unit)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """(M,) the most probable labels."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


def _takes_anything(net: str | None) -> bool:
    name = (net or "").partition(":")[0]
    return name == "mlp" or "." in name


_DTYPES = [np.float32, np.uint8]  # bytes are images and stay bytes


def _import_torch() -> tuple[Any, dict[str, type[Method]]]:
    try:
        from adacorr.train import METHODS, fit
    except ImportError as error:
        raise ImportError(
            f"AdaCorrClassifier needs torch ({error}); get it: pip install 'adacorr[train]'"
        ) from error
    return fit, METHODS


def _method(method: str | Method, methods: dict[str, type[Method]]) -> Method:
    if not isinstance(method, str):
        return method
    if method not in methods:
        raise InputError(f"method: expected one of {', '.join(methods)}, got {method!r}")
    return methods[method]()

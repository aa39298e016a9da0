"""Probabilities of several models, or of repeated cross-validation: their mean decides.

Where models agree against a label, the mean opposes it as firmly as each of them; where they
differ, the mean is unsure. That is all the doubt it takes: on digits and Optdigits with three kinds
of models, and on CIFAR-10N with two networks, a further term for their spread (standard deviation,
votes, Jensen-Shannon divergence) changed the ranking of suspects by less than a hundredth, in
either direction; weights fitted to the given labels did harm, because a model that has learnt the
noise agrees with them best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import InputError, check_pred_probs
from adacorr.labels import column_names


def models_of(pred_probs: ArrayLike | Sequence[ArrayLike]) -> list[Any] | None:
    """The (N, K) arrays of several models; None where `pred_probs` is one such array.

    >>> models_of([[0.9, 0.1], [0.2, 0.8]]) is None
    True
    >>> len(models_of([[[0.9, 0.1]], [[0.7, 0.3]]]))
    2
    """
    if isinstance(pred_probs, list | tuple):
        first = pred_probs[0] if pred_probs else None
        inner = first[0] if isinstance(first, list | tuple) and first else None
        several = getattr(first, "ndim", 0) == 2 or isinstance(inner, list | tuple)
        return list(pred_probs) if several else None
    array: Any = pred_probs
    return list(array) if getattr(array, "ndim", 2) == 3 else None


def mean_probs(
    pred_probs: ArrayLike | Sequence[ArrayLike], *, normalize: bool = False
) -> tuple[NDArray[np.floating], list[Any] | None]:
    """(N, K) mean of all models, each checked, and the names of their columns (None: no names).

    >>> mean_probs([np.array([[0.9, 0.1]]), np.array([[0.7, 0.3]])])[0].round(2).tolist()
    [[0.8, 0.2]]
    """
    models = models_of(pred_probs)
    if models is None:
        one: Any = pred_probs
        return check_pred_probs(one, normalize=normalize), column_names(one)
    columns = column_names(models[0])

    def checked() -> Iterable[NDArray[np.floating]]:
        shape = None
        for i, model in enumerate(models):
            name = f"pred_probs[{i}]"
            f = check_pred_probs(model, normalize=normalize, name=name)
            if column_names(model) != columns:
                raise InputError(
                    f"{name}: expected the columns of pred_probs[0], {columns}, "
                    f"got {column_names(model)}"
                )
            shape = shape or f.shape
            if f.shape != shape:
                raise InputError(f"{name}: expected shape {shape}, got {f.shape}")
            yield f

    return mean_of(checked()), columns


def mean_of(models: Iterable[NDArray[np.floating]]) -> NDArray[np.floating]:
    """Mean of arrays of one shape; a row's mean depends on that row alone, to the last bit.

    >>> mean_of([np.array([[0.9, 0.1]]), np.array([[0.7, 0.3]])]).round(2).tolist()
    [[0.8, 0.2]]
    """
    left = iter(models)
    first, count = next(left), 1
    total = first.astype(np.promote_types(first.dtype, np.float32))
    for f in left:
        total, count = total + f, count + 1
    return total / count

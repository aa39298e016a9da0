"""Frames of other libraries in and out: pandas, polars, pyarrow, Hugging Face datasets, cleanlab.

Nothing here imports those libraries before the user has passed an object of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.models import models_of
from adacorr.core.validation import InputError, RowError
from adacorr.correction.arrays import Correction, correct
from adacorr.correction.panel import encode_panel
from adacorr.labels import column_names, encode_labels, stated_order
from adacorr.tables.layout import OUTPUT_COLUMNS, check_same_classes

if TYPE_CHECKING:
    import pandas as pd

Frame = TypeVar("Frame")


def correct_frame(
    frame: Frame,
    pred_probs: str | Sequence[str] | ArrayLike | Sequence[ArrayLike] | Sequence[Sequence[str]],
    *,
    label: str | Sequence[str] = "label",
    delta: ArrayLike | str = "auto",
    T: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    max_flip_error: float | None = None,
) -> Frame:
    """A frame with label column -> the same kind of frame with the correction's columns added.

    Parameters
    ----------
    frame : pandas or polars DataFrame, pyarrow Table, or ``datasets.Dataset``; not changed.
    pred_probs : (N, K) array, the name of a column of lists, or the names of K columns (a list or
        any 1-d array). Several models: a list of these.
    label : the column of given labels; several columns are annotators, with gaps. A ``ClassLabel``
        feature brings its own class names, and so do a pandas categorical and a polars Enum;
        `adacorr_label` is then of the same type.
    classes : names of the K probabilities. By default the names of their columns if these name the
        classes (a prefix such as ``p_`` may precede them), else those of the label's type, else
        the labels in sorted order.
    delta, T, max_flip_error : as in :func:`adacorr.correct`.

    Returns
    -------
    A new frame with all columns of `frame` and ``adacorr_label``, ``adacorr_ratio``,
    ``adacorr_flipped``, under "auto" ``adacorr_confidence``, ``adacorr_suspicion`` (P(the given
    label is wrong)) and ``adacorr_alternative`` (what may be right instead), and with
    `max_flip_error` ``adacorr_review``: changes that were withheld.
    With several annotators ``adacorr_majority`` is what most of them say.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"label": ["cat", "dog"], "p": [[0.9, 0.1], [0.8, 0.2]]})
    >>> correct_frame(frame, "p", delta=0.9)["adacorr_label"].to_list()
    ['cat', 'cat']
    """
    names = [label] if isinstance(label, str) else [str(name) for name in label]
    for name in names:
        if name not in _columns(frame):
            raise InputError(f"label: expected one of the columns {_columns(frame)}, got {name!r}")
    taken = [name for name in OUTPUT_COLUMNS if name in _columns(frame)]
    if taken:
        raise InputError(
            f"frame: expected a table without output columns, got column {taken[0]!r}; "
            "correct the original table, or rename that column"
        )
    models, columns = _models(frame, pred_probs)
    k, order = models[0].shape[-1], _stated_order(frame, names[0])
    if len(names) == 1:
        coded = encode_labels(_labels(frame, names[0]), k, classes, columns=columns, order=order)
        codes, codec = coded.codes, coded.codec
    else:
        given = np.column_stack([np.array(_column(frame, name), object) for name in names])
        codes, codec = encode_panel(given, k, classes, columns, order)
    f = models if len(models) > 1 else models[0]
    result = correct(codes, f, delta, T, max_flip_error=max_flip_error)
    assert result.given is not None
    added = {
        "adacorr_label": codec.decode(result.labels),
        "adacorr_ratio": result.ratio,
        "adacorr_flipped": result.flipped,
    }
    if result.confidence is not None:
        added["adacorr_confidence"] = result.confidence
    if isinstance(delta, str):
        added["adacorr_suspicion"] = result.suspicion
        assert result.alternative is not None
        added["adacorr_alternative"] = codec.decode(result.alternative)
    if result.to_review is not None:
        added["adacorr_review"] = result.to_review
    if len(names) > 1:
        added = {"adacorr_majority": codec.decode(result.given)} | added
    return _add(frame, names[0], added)


def to_cleanlab(labels: ArrayLike, correction: Correction) -> pd.DataFrame:
    """A correction as the frame of ``CleanLearning.get_label_issues()``.

    ``is_label_issue`` is where the label was changed or a change withheld for review,
    ``label_quality`` is 1 - suspicion: P(the given label is right), or with a threshold the
    likelihood ratio.
    ``CleanLearning().fit(X, labels, label_issues=frame)`` takes it. cleanlab's noise matrix is
    P(given | true) with one *column* per true class: the transpose of T here.

    >>> result = correct([0, 1], [[0.9, 0.1], [0.8, 0.2]], delta=0.9)
    >>> to_cleanlab([0, 1], result)["is_label_issue"].tolist()
    [False, True]
    """
    import pandas as pd

    given = np.asarray(labels)
    if given.shape != correction.flipped.shape:
        raise InputError(
            f"labels: expected {correction.flipped.shape[0]} as in the correction, "
            f"got shape {given.shape}"
        )
    withheld = False if correction.to_review is None else correction.to_review
    return pd.DataFrame(
        {
            "is_label_issue": correction.flipped | withheld,
            "label_quality": correction.ratio
            if correction.suspicion is None
            else 1 - correction.suspicion,
            "given_label": given,
            "predicted_label": correction.suggested,
        }
    )


# -- the four kinds of frame -----------------------------------------------------------------------


_NEARLY = {
    "LazyFrame": "call .collect() first",
    "IterableDataset": "load it without streaming",
    "DatasetDict": "pass one split at a time, such as frame['train']",
    "IterableDatasetDict": "pass one split at a time, loaded without streaming",
}


def _kind(frame: Any) -> str:
    """The library that `frame` comes from, by name, so that none needs to be imported."""
    module = type(frame).__module__.partition(".")[0]
    if type(frame).__name__ in _NEARLY:
        raise InputError(
            f"frame: expected a table in memory, got {type(frame).__name__}; "
            f"{_NEARLY[type(frame).__name__]}"
        )
    if module not in ("pandas", "polars", "pyarrow", "datasets"):
        raise InputError(
            "frame: expected a pandas, polars, pyarrow or datasets table, "
            f"got {type(frame).__name__}"
        )
    return module


def _columns(frame: Any) -> list[str]:
    names = frame.columns if _kind(frame) in ("pandas", "polars") else frame.column_names
    return list(names)


def _column(frame: Any, name: str) -> NDArray[Any]:
    kind = _kind(frame)
    if kind == "datasets":
        frame = frame.with_format("arrow")[:]  # its own numpy format rounds to float32
        kind = "pyarrow"
    if kind == "pyarrow":
        return np.asarray(frame.column(name).to_pylist())
    return np.asarray(frame[name])


def _labels(frame: Any, name: str) -> NDArray[Any]:
    """The column of labels, none of them missing."""
    kind = _kind(frame)
    if kind == "pandas":
        missing = frame[name].isna().to_numpy()
    elif kind == "polars":
        missing = frame[name].is_null().to_numpy()
    else:
        table = frame if kind == "pyarrow" else frame.with_format("arrow")[:]
        missing = table.column(name).is_null().to_numpy()
    if missing.any():
        raise RowError(f"column {name!r}", "a label in every row", "none", int(missing.argmax()))
    return _column(frame, name)


def _models(frame: Any, pred_probs: Any) -> tuple[list[NDArray[Any]], list[Any] | None]:
    """(N, K) numbers of each model, and the names of the columns of the first, if any."""
    first = next(iter(pred_probs), None) if isinstance(pred_probs, list | tuple) else None
    if isinstance(first, str) and len(pred_probs) > 1 and _holds_lists(frame, first):
        blocks = list(pred_probs)
    elif isinstance(first, list | tuple) and first and isinstance(first[0], str):
        blocks = list(pred_probs)
        check_same_classes("pred_probs", [tuple(block) for block in blocks])
    else:
        blocks = models_of(pred_probs) or [pred_probs]
    for block in blocks:
        _check_index(frame, block)
    found = [_probabilities(frame, block) for block in blocks]
    return [f for f, _ in found], found[0][1]


def _holds_lists(frame: Any, name: str) -> bool:
    values = _checked(frame, name)
    return len(values) > 0 and np.ndim(values[0]) == 1


def _probabilities(frame: Any, pred_probs: Any) -> tuple[NDArray[Any], list[Any] | None]:
    """(N, K) numbers of one model, and the names of their columns if they have any."""
    if isinstance(pred_probs, str):
        return np.asarray([np.asarray(row) for row in _checked(frame, pred_probs)]), None
    if getattr(pred_probs, "ndim", 1) == 1 and isinstance(next(iter(pred_probs), None), str):
        names = [str(name) for name in pred_probs]
        return np.column_stack([_checked(frame, name) for name in names]), names
    return np.asarray(pred_probs), column_names(pred_probs)


def _check_index(frame: Any, pred_probs: Any) -> None:
    """Rows of two pandas frames belong together by position or by index: never guess which."""
    ours: Any = getattr(frame, "index", None)
    theirs: Any = getattr(pred_probs, "index", None)
    if _kind(frame) != "pandas" or not hasattr(theirs, "equals") or len(ours) != len(theirs):
        return
    if ours.equals(theirs):
        return
    counted = type(theirs).__name__ == "RangeIndex" and theirs[0] == 0
    if counted and not ours.isin(theirs).all():
        return  # numbered anew, so by position
    raise InputError(
        "pred_probs: expected the index of the frame, got another or another order; pass "
        "pred_probs.loc[frame.index], or pred_probs.to_numpy() where the rows are in order"
    )


def _checked(frame: Any, name: str) -> NDArray[Any]:
    if name not in _columns(frame):
        raise InputError(f"pred_probs: expected columns of {_columns(frame)}, got {name!r}")
    return _column(frame, name)


def _stated_order(frame: Any, label: str) -> Sequence[Any] | None:
    """The classes in the order that the column's type states, if it does."""
    kind = _kind(frame)
    if kind == "datasets":
        return getattr(frame.features[label], "names", None)
    if kind == "pyarrow":
        from adacorr.tables.labels import order_in_schema

        column = frame.column(label)
        return order_in_schema(frame.schema, label, column.chunk(0)) if column.num_chunks else None
    return stated_order(frame[label])


def _add(frame: Any, label: str, added: dict[str, NDArray[Any]]) -> Any:
    kind = _kind(frame)
    if kind == "pandas":
        import pandas as pd

        new = pd.DataFrame(added, index=frame.index)
        if hasattr(frame[label], "cat"):
            new["adacorr_label"] = new["adacorr_label"].astype(frame[label].dtype)
        return pd.concat([frame, new], axis=1)
    if kind == "polars":
        import polars as pl

        new = {name: pl.Series(values) for name, values in added.items()}
        if isinstance(frame[label].dtype, pl.Enum | pl.Categorical):
            new["adacorr_label"] = new["adacorr_label"].cast(frame[label].dtype)
        return frame.with_columns(**new)
    if kind == "pyarrow":
        import pyarrow as pa

        for name, values in added.items():
            frame = frame.append_column(name, pa.array(values))
        return frame
    for name, values in added.items():
        feature = frame.features[label] if name == "adacorr_label" else None
        frame = frame.add_column(name, values.tolist(), feature=feature)
    return frame

"""``clean``: samples -> features -> out-of-fold models -> the rule -> a run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.cleaning.encoders.encoded import Encoder
from adacorr.cleaning.encoders.hub import fetches
from adacorr.cleaning.features import Features, Tick, make_features, silent
from adacorr.cleaning.folds import Folds, out_of_fold
from adacorr.cleaning.issues import Issues, Nearness, find_issues, find_nearness, sentences
from adacorr.cleaning.models import models_for
from adacorr.cleaning.rundir import begin, write_results, write_settings
from adacorr.cleaning.samples import Columns, Samples, digests, given_samples, open_samples
from adacorr.cleaning.workers import HERE, Workers
from adacorr.core.answers import Answers, encode_answers
from adacorr.core.models import mean_of
from adacorr.core.validation import InputError
from adacorr.correction.arrays import Correction, correct_codes
from adacorr.labels import Codec, Encoded
from adacorr.runs import Run


@dataclass(frozen=True)
class Cleaned:
    """Result of :func:`clean`.

    Attributes
    ----------
    correction : as :func:`adacorr.correct` gives it, labels of the kind that were passed in.
    pred_probs : (N, K) the mean of the models' out-of-fold probabilities.
    by_model : the same of each model, by its name.
    issues : what else is wrong with the data.
    suspicion : (N,) how likely the given label is wrong, for ordering.
    samples : the data, with the names of the classes.
    judged : (N,) False where a row is unreadable or its class has fewer samples than there are
        folds: its label stays.
    run : the run directory, where one was asked for.
    """

    correction: Correction
    pred_probs: NDArray[np.float32]
    by_model: dict[str, NDArray[np.float32]]
    issues: Issues
    suspicion: NDArray[np.float64]
    samples: Samples
    judged: NDArray[np.bool_]
    run: Run | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The K names."""
        return self.samples.class_names

    @property
    def also(self) -> list[str]:
        """What else is wrong with the data, in plain words."""
        small = np.unique(self.samples.labels[~self.judged & ~self.issues.unreadable])
        names = ", ".join(self.class_names[c] for c in small[:5])
        more = f" and {len(small) - 5} more" if len(small) > 5 else ""
        lines = [f"too few samples to judge: {names}{more}"] if len(small) else []
        return [*lines, *sentences(self.issues, self.class_names)]

    @property
    def labels(self) -> NDArray[Any]:
        """The corrected labels."""
        return self.correction.labels

    def suspects(self, n: int = 20) -> NDArray[np.int64]:
        """The rows whose given label is most likely wrong, worst first."""
        return np.argsort(-self.suspicion, kind="stable")[:n]

    def __repr__(self) -> str:
        from adacorr.cleaning.shown import summary

        return f"Cleaned({summary(self)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: what was found, and the first suspects with their samples."""
        from adacorr.cleaning.shown import cleaned_html

        return cleaned_html(self)

    def plot(self) -> Any:
        """As :meth:`adacorr.Correction.plot`."""
        return self.correction.plot()


def clean(
    data: Any,
    labels: ArrayLike | str | None = None,
    *,
    text_column: str | None = None,
    image_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    ignore_columns: Sequence[str] = (),
    encoder: str | None = None,
    folds: Folds | None = None,
    verified: Any = None,
    strict: bool = False,
    run_dir: str | Path | None = None,
    resume: bool = False,
    tick: Tick = silent,
    engine: Workers = HERE,
) -> Cleaned:
    """Photos, texts or a table in, clean labels out.

    Several kinds of model, none of which saw the label it judges, predict every row; the rule of
    :func:`adacorr.correct` decides.

    Parameters
    ----------
    data : a folder with one subfolder of images per class, a .csv or .parquet table, a named
        dataset; or a data frame (pandas, polars, pyarrow), a list of texts or of image paths, an
        array of numbers (N, D) or of images (N, H, W, C) in uint8.
    labels : (N,) integers or strings; for a table or frame the name of the column.
    text_column, image_column : what to judge by, when the table does not tell.
    group_column : rows of one group are never on both sides of a fold; default: copies and near
        copies.
    split_column : copies across its values are reported as leaks.
    ignore_columns : columns that must not be used.
    encoder : for images "efficientnet-lite0" (default), a transformers model by name or folder, or
        package.module:factory; for text "tfidf" (default) or a transformers model.
    folds : parts, repeats and seed.
    verified : what people said of single rows, as in :func:`adacorr.correct`.
    strict : stop at the first row that is empty or cannot be read; by default it is marked.
    run_dir : where to write; `resume` goes on with what is there.
    tick : called with (step, done, total).
    engine : where samples are encoded and predicted: here, or
        ``adacorr.cleaning.workers.Cluster(client)`` of a Dask client, with equal results.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> found = clean(x, y)
    >>> found.labels.shape, sorted(found.by_model)
    ((150,), ['boosting', 'linear', 'neighbours'])
    """
    choice = Columns(
        labels if isinstance(labels, str) else None,
        text_column,
        image_column,
        group_column,
        split_column,
        tuple(ignore_columns),
    )
    if isinstance(data, str | Path):
        if labels is not None and not isinstance(labels, str):
            raise InputError("labels: expected the name of a column beside a path, got values")
        samples = open_samples(data, choice)
    else:
        samples = given_samples(data, labels, choice)
    return clean_samples(
        samples,
        encoder=encoder,
        folds=folds,
        verified=verified,
        strict=strict,
        run_dir=run_dir,
        resume=resume,
        tick=tick,
        engine=engine,
    )


def clean_samples(
    samples: Samples,
    *,
    encoder: str | None = None,
    folds: Folds | None = None,
    verified: Any = None,
    strict: bool = False,
    run_dir: str | Path | None = None,
    resume: bool = False,
    tick: Tick = silent,
    engine: Workers = HERE,
) -> Cleaned:
    """What :func:`clean` does once it knows the samples."""
    how = folds or Folds()
    maker = encoder_for(samples.kind, encoder, tick)
    folder = None if run_dir is None else begin(Path(run_dir), resume)
    if folder is not None:
        write_settings(folder, samples, encoder, how)
    tick("reading", 0, 1)
    contents = digests(samples)
    features = make_features(samples, contents, maker, folder, tick, engine)
    check_readable(samples, features, strict)
    cleaned = judge(samples, features, how, verified, folder, tick, engine)
    if folder is None:
        return cleaned
    return replace(cleaned, run=write_results(folder, cleaned, maker.name, how))


def encoder_for(kind: str, name: str | None, tick: Tick = silent) -> Encoder:
    """The encoder of this kind of data; says so before it fetches anything."""
    if name is not None and fetches(name):
        tick(f"loading {name}, from the hub unless it is in the cache", 0, 1)
    if kind == "images":
        from adacorr.cleaning.encoders.images import image_encoder

        return image_encoder(name)
    if kind == "text" and name not in (None, "tfidf"):
        from adacorr.cleaning.encoders.sentences import SentenceEncoder

        return SentenceEncoder(str(name))
    if name not in (None, "tfidf"):
        raise InputError(f"encoder: expected none for a table of values, got {name!r}")
    if kind == "text":
        from adacorr.cleaning.encoders.text import TfidfEncoder

        return TfidfEncoder()
    from adacorr.cleaning.encoders.values import ValuesEncoder

    return ValuesEncoder()


def check_readable(samples: Samples, features: Features, strict: bool) -> None:
    """With `strict` every row must be readable; without it some."""
    bad = np.flatnonzero(~features.readable)
    if len(bad) and (strict or len(bad) == len(samples)):
        row = int(bad[0])
        what = row if samples.ids is None else samples.ids[row]
        kind = "a readable image" if samples.kind == "images" else "something in each row"
        raise InputError(
            f"{samples.name}: expected {kind}, got none in row {what} ({len(bad):,} such rows)"
        )


def judge(
    samples: Samples,
    features: Features,
    how: Folds,
    verified: Any = None,
    folder: Path | None = None,
    tick: Tick = silent,
    engine: Workers = HERE,
) -> Cleaned:
    """Predict every row out of fold, find what is wrong, and correct."""
    predicted = predict_rows(samples, features, how, folder, tick, engine)
    tick("correcting", 0, 1)
    found = decide(samples, features, predicted, verified)
    tick("correcting", 1, 1)
    return found


@dataclass(frozen=True)
class Predicted:
    """What the models say, before any rule: their probabilities by name, and the rows they know."""

    near: Nearness
    judged: NDArray[np.bool_]
    by_model: dict[str, NDArray[np.float32]]


def predict_rows(
    samples: Samples,
    features: Features,
    how: Folds,
    folder: Path | None = None,
    tick: Tick = silent,
    engine: Workers = HERE,
) -> Predicted:
    """Every row by models that did not see its label, nor that of a copy."""
    k = len(samples.class_names)
    near = find_nearness(features, exact_only=samples.kind == "values", tick=tick)
    groups = near.groups(samples.groups)
    judged = features.readable & large_enough(samples.labels, groups, features.readable, how.count)
    if not judged.any():
        raise InputError(f"data: expected at least {how.count} samples of a class, got fewer")
    models = models_for(samples.kind, features.sparse is not None, k)
    parts = out_of_fold(models, features, samples.labels, k, groups, how, folder, tick, engine)
    names = (model.name for model in models)
    return Predicted(near, judged, dict(zip(names, parts, strict=True)))


def decide(
    samples: Samples, features: Features, predicted: Predicted, verified: Any = None
) -> Cleaned:
    """The rule on the mean of the models, and what else is wrong."""
    near, judged = predicted.near, predicted.judged
    mean = mean_of(predicted.by_model.values())
    answers = None if verified is None else encode_answers(verified, len(mean), samples.codec)
    found = corrected(samples.labels, mean, judged, answers)
    issues = find_issues(
        near, features.readable, judged, samples.labels, found.labels, mean, samples.split
    )
    assert found.suspicion is not None
    return Cleaned(
        in_users_words(found, samples),
        mean,
        predicted.by_model,
        issues,
        np.where(judged, np.nan_to_num(found.suspicion), 0.0),
        samples,
        judged,
    )


def large_enough(
    labels: NDArray[np.int64],
    groups: NDArray[np.int64],
    readable: NDArray[np.bool_],
    folds: int,
) -> NDArray[np.bool_]:
    """(N,) whether each row's class has a group for every fold.

    A model that has hardly seen a class, or never, opposes all its rows and knows nothing of them.

    >>> large_enough(np.array([0, 0, 0, 1]), np.arange(4), np.ones(4, bool), 2)
    array([ True,  True,  True, False])
    """
    known = np.unique(np.stack([labels, groups])[:, readable], axis=1)[0]
    return (np.bincount(known, minlength=int(labels.max()) + 1) >= folds)[labels]


def corrected(
    labels: NDArray[np.int64],
    pred_probs: NDArray[np.float32],
    judged: NDArray[np.bool_],
    verified: Answers | None = None,
) -> Correction:
    """The rule on the rows that can be judged; the others keep their labels and have no say."""
    codec = Codec.of_indices([str(c) for c in range(pred_probs.shape[1])])
    return correct_codes(
        Encoded(labels, codec), pred_probs, answers=verified or Answers.of([], []), judged=judged
    )


def in_users_words(found: Correction, samples: Samples) -> Correction:
    """Labels and suggestions of the kind that were passed in."""
    decode = samples.codec.decode
    other = None if found.alternative is None else decode(found.alternative)
    labels, suggested = decode(found.labels), decode(found.suggested)
    given = decode(samples.labels)
    return replace(found, labels=labels, suggested=suggested, alternative=other, given=given)

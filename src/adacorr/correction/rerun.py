"""A run corrected again with answers of people: its labels, its probabilities, its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers
from adacorr.core.validation import InputError, check_pred_probs
from adacorr.correction.arrays import Correction, correct_codes, correct_panel
from adacorr.labels import Codec, Encoded
from adacorr.runs.reader import RunData
from adacorr.runs.schema import SAID
from adacorr.tables.sources import load_npy

SETTINGS = ("delta", "T", "max_flip_error")
"""Of the rule, as ``config.toml`` has them under ``[correct]``."""


@dataclass(frozen=True)
class RunInputs:
    """What a run was corrected from; the review page and ``adacorr certify`` both ask here.

    Attributes
    ----------
    given : the labels as they came; class indices.
    pred_probs : (N, K).
    settings : delta, T and max_flip_error, as far as the run has them.
    judged : (N,) rows of which something could be read and whose class is not too small; None:
        all.
    said, names : (N, M) what several annotators said, and who they are; None and () of one.
    """

    given: Encoded
    pred_probs: NDArray[np.floating]
    settings: dict[str, Any]
    judged: NDArray[np.bool_] | None
    said: NDArray[np.int64] | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: RunData) -> RunInputs:
        if data.pred_probs is None:
            where = data.run.file("pred_probs.npy")
            raise InputError(f"{where}: expected probabilities of the run, got none")
        given, unjudged = [], []
        for batch in data.batches():
            given.append(batch.given)
            out = batch.unjudged
            unjudged.append(np.zeros(len(batch.given), bool) if out is None else out)
        none = np.concatenate(unjudged)
        said = _said(data)
        return cls(
            Encoded(np.concatenate(given), Codec.of_indices(data.run.class_names())),
            check_pred_probs(np.asarray(data.pred_probs)),
            {k: v for k, v in data.section("correct").items() if k in SETTINGS},
            ~none if none.any() else None,
            said,
            _names(data, said),
        )

    def correct(self, answers: Answers, seed: int = 0) -> Correction:
        """What :func:`adacorr.correct` says of the run; its labels are class indices.

        Parameters
        ----------
        answers : by the rows of the run; without any there is no certificate.
        seed : of the order in which rows were asked.
        """
        if self.said is not None:
            limit = self.settings.get("max_flip_error")
            options = {"max_flip_error": limit, "answers": answers, "seed": seed}
            codec = self.given.codec
            return correct_panel(self.said, codec, self.pred_probs, self.names, **options)
        return correct_codes(
            self.given,
            self.pred_probs,
            **self.settings,
            answers=answers,
            seed=seed,
            judged=self.judged,
        )


def _said(data: RunData) -> NDArray[np.int64] | None:
    """What each of several annotators said; None in a run of one."""
    path = data.run.file(SAID)
    if not path.is_file():
        return None
    said = load_npy(path)
    right = said.ndim == 2 and said.dtype.kind == "i" and said.shape[1] > 1
    if not right or len(said) != data.n or said.min() < -1 or said.max() >= data.n_classes:
        raise InputError(f"{path}: expected class indices of {data.n} rows, got {said.shape}")
    return said.astype(np.int64)


def _names(data: RunData, said: NDArray[np.int64] | None) -> tuple[str, ...]:
    found = data.section("annotators").get("names")
    m = 0 if said is None else said.shape[1]
    if isinstance(found, list) and len(found) == m:
        return tuple(map(str, found))
    return tuple(map(str, range(m)))

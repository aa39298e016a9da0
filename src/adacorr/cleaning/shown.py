"""What `clean` found, as a notebook shows it: sentences, and the suspects with their samples."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

from adacorr.cleaning.samples import Samples, shown
from adacorr.core.validation import InputError
from adacorr.correction.shown import summary as of_correction
from adacorr.data.images import decode
from adacorr.data.previews import picture
from adacorr.runs.shown import HEAD, SHOWN, state, suspects_html
from adacorr.runs.words import chance

if TYPE_CHECKING:
    from adacorr.cleaning.clean import Cleaned

SIDE = 64
WIDTH = 160
_HEAD = ("row", "sample", *HEAD[1:])


def summary(found: Cleaned) -> str:
    """The correction in a line, and what else is wrong."""
    return "; ".join([of_correction(found.correction), *found.also])


def cleaned_html(found: Cleaned) -> str:
    """The most suspicious rows; of images small pictures, of texts the first words."""
    samples, decided = found.samples, found.correction
    assert decided.alternative is not None
    rows, pictures = [], []
    for row in found.suspects(SHOWN).tolist():
        words = " ".join(shown(samples, row).split())
        given = found.class_names[samples.labels[row]]
        sure = chance(float(found.suspicion[row]), len(samples)) or ""
        done = state(bool(decided.flipped[row]))
        rows.append((row, words[:WIDTH], given, decided.alternative[row], sure, done))
        if samples.kind == "images":
            pictures.append(_thumbnail(samples, row))
    return suspects_html(summary(found), decided.warnings, rows, _HEAD, pictures)


def _thumbnail(samples: Samples, row: int) -> str:
    """A small PNG in base64; empty where the image cannot be read."""
    source = samples.content[row]
    try:
        pixels = source if isinstance(source, np.ndarray) else decode(source, str(row))
    except (InputError, OSError):
        return ""
    return base64.b64encode(picture(pixels, SIDE)).decode("ascii")

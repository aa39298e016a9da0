"""Text as weighted words and letter groups; needs no model and knows no language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.columns import SPACELESS
from adacorr.cleaning.encoders.encoded import Vectors
from adacorr.core.sampling import sample_rows
from adacorr.core.validation import InputError

PARTS = 64
"""Columns of the dense features: the leading directions of the words."""
WORDS, LETTERS = 100_000, 50_000
MAX_CHARACTERS = 20_000
"""Of a longer text the beginning counts."""
LETTER_CHARACTERS = 1000
"""Letter groups tell most where words are few; of a long text they are taken from its beginning."""
LETTER_ROWS = 10_000
"""Rows that the letter groups are chosen from."""
TOKENS = rf"(?u)[{SPACELESS}]|[^\W{SPACELESS}]+"
"""Words; where a script has no spaces single characters."""


class TfidfEncoder:
    """TF-IDF of words (1, 2) and of letter groups (2 to 4), fitted to a sample of the texts.

    >>> encoder = TfidfEncoder()
    >>> encoder.fit(["good film", "bad film", "good plot", "bad plot"] * 5)
    >>> found = encoder.encode(["good film", ""])
    >>> found.readable.tolist(), found.sparse.shape[1] > encoder.n_words
    ([True, False], True)
    """

    name = "tfidf"
    fitted = True

    def __init__(self) -> None:
        self.n_words = 0
        self._words: Any = None
        self._letters: Any = None
        self._directions: Any = None

    def fit(self, content: Sequence[str]) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        rare = 1 if len(content) < 500 else 2
        common: Any = {"sublinear_tf": True, "dtype": np.float32}
        self._words = TfidfVectorizer(
            ngram_range=(1, 2), token_pattern=TOKENS, min_df=rare, max_features=WORDS, **common
        )
        self._letters = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(2, 4), min_df=rare, max_features=LETTERS, **common
        )
        try:
            found = self._words.fit_transform([text[:MAX_CHARACTERS] for text in content])
            some = [content[int(i)] for i in sample_rows(len(content), LETTER_ROWS)]
            self._letters.fit([text[:LETTER_CHARACTERS] for text in some])
        except ValueError as error:  # scikit-learn: empty vocabulary
            raise InputError(f"text: expected words, got none ({error})") from error
        size = max(1, min(PARTS, found.shape[1] - 1))
        self._directions = TruncatedSVD(size, n_iter=2, random_state=0).fit(found)
        self.n_words = found.shape[1]

    def encode(self, content: Sequence[str]) -> Vectors:
        """Sparse: words, then letter groups. Dense: the words' leading directions, length one."""
        from scipy.sparse import hstack

        words = self._words.transform([text[:MAX_CHARACTERS] for text in content])
        letters = self._letters.transform([text[:LETTER_CHARACTERS] for text in content])
        x = self._directions.transform(words)
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        both = hstack([words, letters], format="csr")
        return Vectors(x.astype(np.float32), filled(content), both)


def filled(content: Sequence[str]) -> NDArray[np.bool_]:
    """Which texts are not empty."""
    return np.array([bool(text.strip()) for text in content], bool)

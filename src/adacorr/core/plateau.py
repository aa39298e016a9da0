"""Whether labels look wrong by class, or their classes are only half decided by what is known.

Who buys, who falls ill, who is a woman: much of a table is not settled by its other columns. A good
model of such a target disagrees with many labels, none of which is wrong. For a single row that
looks like noise by class. It does not over all rows. Under noise by class most rows are clear, and
their labels err at one rate *however sure the model is*: disagreement is flat over the surer rows.
Where the target itself is undecided, disagreement rises with difficulty from the first tenth on, or
even the surest rows are hardly better than guessing. So noise by class is believed only if

* the surest rows are *clear*: of them clearly fewer disagree than if the most frequent class were
  the answer everywhere (`CLEAR`);
* the next surest are *flat*: they do not disagree clearly more often than the surest (`RISE`);
* and, tested in :mod:`adacorr.core.by_class`, the noise explains given labels better than the same
  model with no noise in it.

Two classes at 40% noise are never clear: nothing tells them from a target that nobody can predict.
A target that is settled but for one fixed share of each group passes all three; only answers of
people tell that apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adacorr.core.meter import tenths
from adacorr.core.sparse import TopK, first_choice

SURE, NEXT = slice(0, 3), slice(3, 6)  # tenths of the rows of each predicted class
CLEAR = 0.6  # of the errors of guessing, at most
RISE = 1.4  # of the surest rows' disagreement; pair noise of 20% reaches 1.3
_BEYOND_CHANCE = 2.0  # standard errors


@dataclass(frozen=True)
class Disagreement:
    """Disagreement with the given labels, in the surest rows and in those that follow.

    Attributes
    ----------
    sure, following : shares of disagreement in the first three tenths and in the next three.
    rows : in each of the two parts.
    guessing : disagreement if the most frequent class were the answer everywhere.
    """

    sure: float
    following: float
    rows: int
    guessing: float

    @property
    def clear(self) -> bool:
        return self.sure < CLEAR * self.guessing

    @property
    def flat(self) -> bool:
        spread = self.sure * (1 - self.sure) + self.following * (1 - self.following)
        chance = _BEYOND_CHANCE * np.sqrt(spread / max(self.rows, 1))
        return self.following <= max(RISE * self.sure, self.sure + chance)


def read_plateau(labels: NDArray[np.int64], f: NDArray[np.floating] | TopK) -> Disagreement:
    """Of the rows of a sample.

    >>> f = np.array([[0.9, 0.1], [0.1, 0.9]] * 50)
    >>> read_plateau(np.array([0, 1] * 50), f)
    Disagreement(sure=0.0, following=0.0, rows=30, guessing=0.5)
    """
    predicted, top = first_choice(f)
    wrong, tenth = predicted != labels, tenths(predicted, top)
    size = np.bincount(tenth, minlength=10)
    opposed = np.bincount(tenth[wrong], minlength=10)
    sure, following = (float(opposed[t].sum() / max(size[t].sum(), 1)) for t in (SURE, NEXT))
    frequent = np.unique(labels, return_counts=True)[1].max()
    return Disagreement(sure, following, int(size[NEXT].sum()), float(1 - frequent / len(labels)))

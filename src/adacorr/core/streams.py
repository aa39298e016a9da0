"""Where random numbers come from: one seed, and a stream of its own for each purpose.

Purposes that shared a stream would depend on each other: one more draw for the folds would change
the batches. The numbers of the purposes are part of what a seed means; runs and records made with
them are found again only if they stay.
"""

from __future__ import annotations

import numpy as np

# of a whole run: the key is (seed, purpose)
NOISE = 1  # which labels are made wrong on purpose
SPLIT = 2  # the validation part
FOLD = 4  # which rows are held out together
TUNING = 99  # folds for choosing a model's strength; other folds of `clean` have (seed, repeat)

# of one epoch or stage of training: the key is (seed, epoch, purpose)
BUILD, ORDER, AUGMENT, METHOD, NET = range(5)


def numbers(*key: int) -> np.random.Generator:
    """The stream of a key; the same key gives the same numbers.

    >>> int(numbers(0, SPLIT).integers(100)) == int(numbers(0, SPLIT).integers(100))
    True
    """
    return np.random.default_rng(list(key))


def stream_seed(*key: int) -> int:
    """The same as one integer, for generators that take no more.

    >>> stream_seed(0, 3, ORDER) != stream_seed(0, 3, NET)
    True
    """
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1)

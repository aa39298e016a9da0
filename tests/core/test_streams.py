import numpy as np

from adacorr.core.streams import AUGMENT, NOISE, ORDER, SPLIT, numbers, stream_seed


def test_the_numbers_of_a_key_never_change():
    """Records and runs made with a seed are found again only if its streams stay."""
    assert numbers(7, NOISE).integers(1000, size=3).tolist() == (
        np.random.default_rng([7, 1]).integers(1000, size=3).tolist()
    )
    assert stream_seed(7, 3, ORDER) == 6665335680343557524


def test_every_purpose_has_numbers_of_its_own():
    keys = [(0, NOISE), (0, SPLIT), (1, NOISE), (0, 1, ORDER), (0, 1, AUGMENT), (0, 2, ORDER)]
    assert len({stream_seed(*key) for key in keys}) == len(keys)
    assert len({numbers(*key).random() for key in keys}) == len(keys)

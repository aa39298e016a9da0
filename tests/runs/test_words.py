import numpy as np
import pytest

from adacorr.runs.words import FEW_ROWS, chance, share


@pytest.mark.parametrize("rows", [30, 100, 299, 300, 10_000, 10**7])
def test_no_chance_is_surer_than_the_rule_of_three(rows):
    limit = min(0.99, 1 - 3 / rows)
    for value in np.linspace(0, 1, 1001):
        said = chance(float(value), rows)
        assert said is not None
        number = float(said.split()[-1].rstrip("%")) / 100
        assert 1 - limit - 0.01 <= number <= limit + 1e-9


def test_few_rows_give_no_chance():
    assert chance(0.5, FEW_ROWS - 1) is None
    assert chance(None, 1000) is None


def test_a_share_is_only_all_or_nothing_where_it_is():
    assert share(1.0) == "100%"
    assert share(0.99999) == "over 99.9%"
    assert share(0.00001) == "under 0.1%"

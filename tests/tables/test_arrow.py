"""Columns of Arrow and arrays of numpy, at any offset."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacorr.tables.arrow import from_numpy, to_numpy

KINDS = [np.bool_, np.int8, np.int64, np.uint16, np.float32, np.float64]


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(st.integers(0, 1), max_size=40), start=st.integers(0, 12))
def test_there_and_back(kind, values, start):
    array = np.array(values, dtype=kind)
    column = from_numpy(array)
    assert column.equals(pa.array(array))
    back = to_numpy(column[start:])
    np.testing.assert_array_equal(back, array[start:])
    assert len(back) == 0 or back.dtype == kind


def test_numbers_are_not_copied():
    array = np.arange(1000.0)
    assert np.shares_memory(to_numpy(from_numpy(array)), array)
    assert to_numpy(from_numpy(array[::2])).tolist() == array[::2].tolist()

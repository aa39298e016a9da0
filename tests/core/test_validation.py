from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from adacorr.core.validation import (
    InputError,
    RowError,
    check_delta,
    check_fields,
    check_pred_probs,
    check_transition,
)

GOOD = np.array([[0.2, 0.8], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0.5, 0.5], r"expected shape \(N, K\), got \(2,\)"),
        (np.empty((0, 3)), "expected at least one row"),
        ([[1.0], [1.0]], "expected at least 2 classes"),
        ([["a", "b"]], "expected numbers"),
        ([[0.5, 0.5], [1.0]], "cannot be"),
        ([[0.5, np.nan]], "got nan in row 0, column 1"),
        ([[0.5, 0.5], [np.inf, 0.0]], "got inf in row 1, column 0"),
        ([[1.5, -0.5]], "got -0.5 in row 0, column 1"),
        ([[2.5, -0.5], [1.0, -4.5]], r"got -0.5 \(logits\? apply softmax\) in row 0, column 1"),
        ([[0.2, 0.2]], "got 0.4 in row 0"),
        ([[0.5 + 0j, 0.5]], "expected numbers, got dtype complex128"),
    ],
)
def test_bad_pred_probs(value, message):
    with pytest.raises(InputError, match=f"pred_probs: .*{message}") as caught:
        check_pred_probs(value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_good_pred_probs_are_not_copied(dtype):
    f = GOOD.astype(dtype)
    assert check_pred_probs(f) is f


def test_one_hot_integers_and_booleans():
    assert check_pred_probs([[1, 0], [0, 1]]).dtype == np.float64
    assert check_pred_probs(np.eye(2, dtype=bool)).tolist() == [[1, 0], [0, 1]]


def test_normalize():
    f = np.array([[2.0, 6.0], [0.5, 0.5]])
    assert check_pred_probs(f, normalize=True).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert f[0, 0] == 2
    with pytest.raises(RowError, match="a positive sum, got 0 in row 1"):
        check_pred_probs([[1, 0], [0, 0]], normalize=True)


def test_foreign_arrays():
    import pandas as pd
    import polars as pl

    for f in (pd.DataFrame(GOOD), pl.DataFrame(GOOD), GOOD.tolist()):
        np.testing.assert_array_equal(check_pred_probs(f), GOOD)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(check_pred_probs(torch.tensor(GOOD)), GOOD)
    with pytest.raises(InputError, match="pred_probs: expected an array"):
        check_pred_probs(torch.tensor(GOOD, requires_grad=True))


@pytest.mark.parametrize(
    ("T", "message"),
    [
        (np.eye(3)[:2], "expected shape"),
        ([[0.5, 0.4], [0, 1]], "sum to 1, got 0.9 in row 0"),
        ([[1.5, -0.5], [0, 1]], ">= 0"),
        ([[np.nan, 1], [0, 1]], "finite"),
        ([[1.0]], "at least 2 classes"),
        ([["a", "b"], ["c", "d"]], "expected numbers"),
    ],
)
def test_bad_transition(T, message):
    with pytest.raises(InputError, match=f"T: .*{message}"):
        check_transition(T)


def test_pair_thresholds_may_be_zero_but_not_negative():
    assert check_delta([[0, 0.5], [1, 0]], 2).shape == (2, 2)
    with pytest.raises(InputError, match="finite thresholds >= 0"):
        check_delta([[0, -0.5], [1, 0]], 2)


@dataclass(frozen=True)
class Options:
    rate: float = 0.5
    steps: int | None = None
    kind: Literal["a", "b"] = "a"
    deep: bool = False
    anything: Any = None


def test_fields_of_the_right_type():
    fitting = {"rate": 1, "steps": None, "kind": "b", "deep": True, "anything": [1]}
    check_fields(Options, fitting, "options")
    check_fields(Options, {"rate": np.float32(0.1), "steps": np.int64(3)}, "options")


@pytest.mark.parametrize(
    "values",
    [{"rate": "1"}, {"rate": True}, {"steps": 1.5}, {"kind": "c"}, {"kind": ["a"]}, {"deep": 1},
     {"other": 1}],
)  # fmt: skip
def test_fields_of_the_wrong_type(values):
    with pytest.raises(InputError, match="options: expected"):
        check_fields(Options, values, "options")

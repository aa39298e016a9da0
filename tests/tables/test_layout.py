import pyarrow as pa
import pytest

from adacorr.core.validation import InputError
from adacorr.tables.layout import Layout, Request, find_layout

NUMBER, TEXT, LIST = pa.float64(), pa.string(), pa.list_(pa.float32())


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ({"label": TEXT, "pred_probs": LIST}, Layout("label", ("pred_probs",), True, None)),
        ({"y": TEXT, "scores": LIST}, Layout("y", ("scores",), True, None)),
        (
            {"target": TEXT, "p_a": NUMBER, "p_b": NUMBER, "price": NUMBER},
            Layout("target", ("p_a", "p_b"), False, None),
        ),
        (
            {"label": TEXT, "prob_a b": NUMBER, "prob_": NUMBER, "p_x": NUMBER},
            Layout("label", ("prob_a b", "prob_"), False, None),
        ),
    ],
)
def test_found_by_name_and_type(types, expected):
    assert find_layout(types, "t.parquet", Request()) == expected


def test_flags_win():
    types = {"label": TEXT, "mine": TEXT, "probs": LIST, "a": NUMBER, "b": NUMBER}
    columns = Request(label_column="mine", class_columns=["b", "a"])
    assert find_layout(types, "t", columns) == Layout("mine", ("b", "a"), False, None)
    columns = Request(probs_column="probs", classes=["x", "y"])
    assert find_layout(types, "t", columns) == Layout("label", ("probs",), True, ("x", "y"))


def test_a_prefix_does_not_swallow_the_label():
    types = {"p_label": TEXT, "p_a": NUMBER, "p_b": NUMBER}
    found = find_layout(types, "t", Request(label_column="p_label", class_columns=["p_*"]))
    assert found.columns == ("p_a", "p_b")


@pytest.mark.parametrize(
    ("types", "request_", "words"),
    [
        ({}, Request(), "expected a label column"),
        ({"label": TEXT}, Request(), "expected probabilities"),
        ({"label": TEXT, "a": LIST, "b": LIST}, Request(), "--probs-column"),
        ({"label": TEXT}, Request(probs_column="p"), "expected a column 'p'"),
        ({"label": TEXT, "a": NUMBER}, Request(class_columns=["a"]), "at least 2 distinct"),
        ({"label": TEXT, "a": NUMBER}, Request(class_columns=["a", "a"]), "at least 2 distinct"),
        ({"label": TEXT, "a": NUMBER}, Request(class_columns=["z*"]), "at least 2 columns z\\*"),
        ({"label": TEXT, "noisy_label": TEXT}, Request(), "one label column, got label and noisy_"),
        ({"label": TEXT, "adacorr_ratio": NUMBER}, Request(), "without output columns"),
    ],
)
def test_refusals_name_the_file(types, request_, words):
    with pytest.raises(InputError, match=words) as caught:
        find_layout(types, "t.parquet", request_)
    assert str(caught.value).startswith("t.parquet: ")

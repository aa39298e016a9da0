"""The paper's table against numbers worked out by hand."""

import pytest

from adacorr.core.validation import InputError
from adacorr.paper.bench.tables import build_table, render


def record(method, noise, seed, value, dataset="mnist"):
    return {
        "key": f"{method}{noise}{seed}{dataset}",
        "dataset": dataset,
        "method": method,
        "noise": noise,
        "seed": seed,
        "curves": {"test_accuracy": [value / 2, value]},
        "selected_epoch": 1,
    }


RECORDS = [
    record("standard", "uniform:0.4", 1, 0.80),
    record("standard", "uniform:0.4", 2, 0.90),
    record("adacorr", "uniform:0.4", 1, 0.95),
    record("adacorr", "uniform:0.4", 2, 0.95),
    record("standard", "pair:0.4", 1, 0.7),
    record("adacorr", "pair:0.4", 1, 0.6),
    record("standard", "none", 1, 0.98),
]


def test_mean_deviation_order_and_ranks():
    table = build_table(RECORDS)
    entry = table.entries["mnist", "standard", "uniform:0.4"]
    assert entry.mean == pytest.approx(85)
    assert entry.std == pytest.approx(7.0710678)
    assert entry.n == 2
    assert table.noise == ["none", "uniform:0.4", "pair:0.4"]
    assert table.ranks() == {"standard": 1.5, "adacorr": 1.5}


def test_the_selected_epoch_is_a_table_of_its_own():
    table = build_table(RECORDS, at="selected")
    assert table.entries["mnist", "standard", "uniform:0.4"].mean == pytest.approx(85 / 2)


def test_ties_share_their_rank():
    tied = [record(m, "none", 1, v) for m, v in [("a", 0.5), ("b", 0.5), ("c", 0.4)]]
    assert build_table(tied).ranks() == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_a_method_with_few_columns_has_no_rank_and_takes_none_from_the_others():
    found = [
        record(method, noise, 1, value)
        for method, values in {"a": (0.9, 0.8), "b": (0.7, 0.9), "c": (0.6, 0.1)}.items()
        for noise, value in zip(("uniform:0.2", "pair:0.2"), values, strict=True)
    ]
    late = [record("late", "uniform:0.2", 1, 0.99)]
    assert build_table(found + late).ranks() == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_formats_mark_the_best_of_each_column():
    table = build_table(RECORDS)
    assert "| mnist | adacorr |  | **95.0 ± 0.0** | 60.0 |" in render(table, "markdown")
    assert r"\textbf{95.0 $\pm$ 0.0}" in render(table, "latex")
    assert "*95.0 ± 0.0" in render(table, "text")
    assert "mnist,adacorr,uniform:0.4,95.0000,0.0000,2" in render(table, "csv").splitlines()


def test_no_records_with_the_value():
    with pytest.raises(InputError, match="expected some with"):
        build_table(RECORDS, "label_accuracy")

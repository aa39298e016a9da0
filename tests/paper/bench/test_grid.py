"""Grid files: cells, keys, overrides, and one line for every mistake."""

import pytest

from adacorr.core.validation import InputError
from adacorr.paper.bench.grid import read_grid, smoke

GRID = """
name = "small"
datasets = ["digits", "mnist"]
noise = ["uniform:0.4"]
methods = ["standard", "mine"]
seeds = [1, 2]
[train]
epochs = 3
net = "cnn"
[dataset.mnist]
subset = 100
epochs = 5
[dataset.mnist.method.mine]
delta = 0.5
[method.mine]
method = "adacorr"
delta = 0.8
[[extra]]
noise = ["none"]
methods = ["standard"]
"""


def write(tmp_path, text):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return path


def test_cells_are_the_product_of_the_axes_plus_extras(tmp_path):
    grid = read_grid(write(tmp_path, GRID))
    assert grid.name == "small"
    assert len(grid.cells) == 2 * 2 * 2 + 2 * 2
    assert len({cell.key for cell in grid.cells}) == len(grid.cells)
    extras = [cell for cell in grid.cells if cell.noise == "none"]
    assert {cell.method for cell in extras} == {"standard"}


def test_overrides_go_from_general_to_special(tmp_path):
    cells = {(c.dataset, c.method): c for c in read_grid(write(tmp_path, GRID)).cells}
    assert cells["digits", "mine"].fields == {"method": "adacorr", "delta": 0.8}
    assert cells["mnist", "mine"].fields == {"method": "adacorr", "delta": 0.5}
    assert cells["mnist", "mine"].train == {"epochs": 5, "net": "cnn"}
    assert cells["mnist", "mine"].data == {"subset": 100}


def test_a_key_depends_on_every_setting_and_on_nothing_else(tmp_path):
    first = {cell.key for cell in read_grid(write(tmp_path, GRID)).cells}
    again = {cell.key for cell in read_grid(write(tmp_path, GRID)).cells}
    changed = {
        c.key for c in read_grid(write(tmp_path, GRID.replace("epochs = 3", "epochs = 4"))).cells
    }
    assert first == again
    assert len(first & changed) == 6  # only mnist, which sets its own epochs, keeps its keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datasets = [", "expected readable TOML"),
        ('datasets = []\nnoise=["none"]\nmethods=["standard"]\nseeds=[1]', "datasets, a non-empty"),
        (
            'datasets = ["a"]\nnoise=["none"]\nmethods=["standard"]\nseeds=["1"]',
            "seeds of type int",
        ),
        ('datasets = ["a"]\nnoises=["none"]', "noises"),
        ("train = 3", "expected a table"),
        (f"extra = 3\n{GRID.partition('[[')[0]}", "expected tables"),
        (GRID.replace("subset = 100", 'subset = "x"'), "subset of type int"),
        (
            GRID.replace('method = "adacorr"\ndelta = 0.8', "").replace(
                "[method.mine]", "[method]\nmine = 5"
            ),
            "expected a table",
        ),
        (GRID.replace("epochs = 3", "epochs = 1979-05-27"), "texts, numbers and lists"),
    ],
)
def test_mistakes_are_one_line_naming_the_file(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read_grid(write(tmp_path, text))
    assert "grid.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_kind_of_noise_and_a_method_may_have_settings_of_their_own(tmp_path):
    """Later tables win: grid, dataset, kind of noise, rate of noise, method's own training."""
    text = GRID.replace('["uniform:0.4"]', '["uniform:0.4", "uniform:0.8", "pair:0.2"]')
    text = text.replace("[method.mine]", "[method.mine]\ntrain = { batch_size = 64 }")
    text += """
[dataset.mnist.noise.pair.method.mine]
delta = 0.6
[dataset.mnist.noise."uniform:0.8"]
lr = 2e-3
[dataset.mnist.noise."uniform:0.8".method.mine]
delta = 0.7
train = { batch_size = 32 }
"""
    cells = {(c.dataset, c.noise, c.method): c for c in read_grid(write(tmp_path, text)).cells}
    assert cells["mnist", "uniform:0.4", "mine"].fields["delta"] == 0.5
    assert cells["mnist", "pair:0.2", "mine"].fields["delta"] == 0.6
    special = cells["mnist", "uniform:0.8", "mine"]
    assert special.fields == {"method": "adacorr", "delta": 0.7}
    assert special.train == {"epochs": 5, "net": "cnn", "lr": 2e-3, "batch_size": 32}
    assert cells["mnist", "pair:0.2", "mine"].train["batch_size"] == 64
    assert cells["mnist", "uniform:0.8", "standard"].train == {
        "epochs": 5,
        "net": "cnn",
        "lr": 2e-3,
    }
    assert cells["digits", "uniform:0.8", "mine"].train["epochs"] == 3


def test_missing_file():
    with pytest.raises(InputError, match="no such file"):
        read_grid("nowhere.toml")


def test_smoke_tries_each_dataset_and_method_once_and_small(tmp_path):
    grid = smoke(read_grid(write(tmp_path, GRID)))
    assert [(c.dataset, c.method) for c in grid.cells] == [
        ("digits", "standard"), ("digits", "mine"), ("mnist", "standard"), ("mnist", "mine")
    ]  # fmt: skip
    for cell in grid.cells:
        assert cell.train["epochs"] == 3
        assert cell.data == {"subset": 64, "test_subset": 32}

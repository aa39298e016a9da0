"""What the package declares; the wheel itself is tried by tests/packaging/check_wheel.py."""

import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

import adacorr

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_type_information_is_shipped():
    assert resources.files("adacorr").joinpath("py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_declared_pythons(minor):
    assert f"Programming Language :: Python :: 3.{minor}" in PROJECT["classifiers"]
    assert PROJECT["requires-python"] == ">=3.11"


def test_extras_and_no_torch_without_them():
    extras = PROJECT["optional-dependencies"]
    assert {"train", "review", "cluster", "docs", "dev"} <= set(extras)
    assert not any(line.startswith("torch") for line in PROJECT["dependencies"])
    assert any(line.startswith("torch") for line in extras["train"])


def test_one_version_everywhere():
    assert metadata.version("adacorr") == adacorr.__version__


def test_the_command_is_installed():
    (entry,) = metadata.entry_points(group="console_scripts", name="adacorr")
    assert callable(entry.load())
    assert PROJECT["scripts"]["adacorr"] == "adacorr.__main__:main"

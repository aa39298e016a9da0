"""What the package declares; the wheel itself is tried by tests/packaging/check_wheel.py."""

import ast
import re
import sys
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


NAMES = {"PIL": "pillow", "sklearn": "scikit-learn"}
BROUGHT = {"pandas", "polars", "adacorr"}
"""Frames are taken from whoever has them."""


def test_what_is_imported_is_declared():
    lines = [*PROJECT["dependencies"]]
    for extra, found in PROJECT["optional-dependencies"].items():
        lines += [] if extra in ("dev", "docs") else found
    # Brackets name extras of a package: dask[distributed] brings the package distributed.
    declared = {name for line in lines for name in re.findall(r"[a-z][\w-]*", line)}
    used = set()
    for path in (Path(__file__).parents[1] / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                used.add((node.module or "").split(".")[0])
    used -= BROUGHT | sys.stdlib_module_names
    assert {NAMES.get(name, name) for name in used} <= declared

"""The public surface: one place says it, and every name on it can be imported as it is written."""

import importlib
import subprocess
import sys

import pytest

import adacorr


def test_the_surface_is_said_once():
    listed = {*adacorr._FUNCTIONS, *adacorr._MODULES, "__version__"}
    assert set(adacorr.__all__) == listed
    for name in ("fit", "correct_frame", "correct_table"):
        assert name in adacorr.__all__


@pytest.mark.parametrize("name", ["noise", "certificate", "theory", "data"])
def test_modules_are_real(name):
    """``from adacorr.noise import uniform`` failed although ``adacorr.noise.uniform`` worked."""
    module = importlib.import_module(f"adacorr.{name}")
    assert getattr(adacorr, name) is module
    assert all(hasattr(module, entry) for entry in module.__all__)


def test_noise_from_a_fresh_interpreter():
    code = "from adacorr.noise import uniform; print(uniform(2, 0.2).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[[0.8, 0.2], [0.2, 0.8]]\n"

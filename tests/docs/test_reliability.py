"""The figures of docs/reliability.md are those of the last `make hard`, and gaps claim nothing."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "hard" / "summary.py"


@pytest.fixture(scope="module")
def summary():
    spec = importlib.util.spec_from_file_location("hard_summary", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_made_from_its_record(summary):
    if not summary.RESULTS.exists():
        pytest.skip("expected the record of a run of `make hard`, got none yet")
    page = summary.PAGE.read_text(encoding="utf-8")
    record = json.loads(summary.RESULTS.read_text(encoding="utf-8"), object_hook=summary.Figures)
    assert summary.figures(record).strip() in page


def test_a_missing_figure_takes_the_words_around_it_along(summary):
    kills = summary.Figures(fit=30, fit_runs=12, bench_run=10, bench_run_runs=4, correct=35)
    text = summary.figures(summary.Figures(kills=kills))
    assert "did not come to its end" in text
    assert "| `fit` | 30 | 12 runs, each equal to the undisturbed one, bit for bit |" in text
    assert "| `review` | no figure: the test did not run or did not pass |  |" in text
    assert "none lost" not in text
    assert "no input touched" not in text  # the sum of all kills lacks a part
    assert summary.GAP not in text


def test_failed_and_skipped_tests_are_named(summary):
    run = summary.Figures(tests=40, failed=["a::b"], skipped=["c::d"], not_run=3)
    text = summary.run(run)
    assert "**1 failed**" in text
    assert "Failed: `a::b`." in text
    assert "Skipped: `c::d`." in text
    assert "3 tests were not run" in text


def test_what_is_said_of_torch_is_so(summary, tmp_path):
    torch = pytest.importorskip("torch")
    assert "which `torch.load` does not compare" in summary.PAGE.read_text(encoding="utf-8")
    path, w = tmp_path / "w.pt", torch.arange(10_000.0)
    torch.save({"w": w}, path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1  # in the middle of the numbers
    path.write_bytes(raw)
    assert not torch.equal(torch.load(path)["w"], w)

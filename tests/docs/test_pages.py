"""Every code block of the documentation and the README runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
KNOWN = {"python", "console", "sh", "toml", "text", "csv", "json", "xml", "html", "math"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, run_page):
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_name_a_language_that_is_checked(page):
    opened = re.findall(r"^```+([\w{}-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)[::2]
    odd = {name for name in opened if name and not name.startswith("{")} - KNOWN
    assert not odd - {"bash", "shell"}, f"{page.name}: {odd}"


@pytest.mark.parametrize(
    "script", sorted((ROOT / "examples").glob("[!d]*.py")), ids=lambda p: p.name
)
def test_examples_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

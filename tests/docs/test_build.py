"""The documentation builds without a warning."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_no_warnings(tmp_path):
    command = ["-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "CorrectedClassifier" in (tmp_path / "api.html").read_text(encoding="utf-8")


def test_every_page_is_in_a_table_of_contents():
    listed = (DOCS / "index.md").read_text(encoding="utf-8").split()
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert pages - {"index"} <= set(listed)

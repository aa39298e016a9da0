"""The gallery of reports is made by its command, and every page of it has a picture in the docs."""

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_report_is_made(gallery, tmp_path):
    entry = next(entry for entry in gallery.ENTRIES if entry.name == "table")
    page = gallery.make(entry, tmp_path).read_text(encoding="utf-8")
    assert "Two readings fit these labels" in page
    assert "malignant" in page
    assert 'href="table.html"' in gallery.index(tmp_path, (entry,)).read_text()


def test_every_report_is_on_the_page(gallery):
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for entry in gallery.ENTRIES:
        assert f"images/gallery/{entry.name}.png" in page
        assert (DOCS / "images" / "gallery" / f"{entry.name}.png").is_file()


def test_no_folder_is_written_over(gallery, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gallery.py", "--to", str(tmp_path)])
    with pytest.raises(SystemExit):
        gallery.main()
    assert "expected a new folder" in capsys.readouterr().err

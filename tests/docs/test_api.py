"""The API page names all that is public."""

from pathlib import Path

import adacorr

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"__version__", "certificate", "data", "estimators", "noise", "theory", "train"}


def test_every_public_name_is_on_the_api_page():
    page = (ROOT / "docs/api.md").read_text()
    said = {name for name in adacorr.__all__ if f"adacorr.{name}\n" in page}
    assert set(adacorr.__all__) - ELSEWHERE - said <= {"fit"}  # adacorr.train.fit is it
    for module in ("core.noise", "core.certificate", "paper.theory", "estimators", "data", "train"):
        assert f"adacorr.{module}" in page

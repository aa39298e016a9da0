"""The API page names all that is public."""

import re
from pathlib import Path

import pytest

import adacorr

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
DIRECTIVE = re.compile(r"^\.\. [a-z:]*(?:function|class|exception|data|module):: (\S+)", re.M)


def test_the_page_documents_every_public_name_and_nothing_else_at_the_top():
    said = {name.removeprefix("adacorr.") for name in DIRECTIVE.findall(PAGE)}
    assert {name for name in said if "." not in name} == set(adacorr.__all__)


@pytest.mark.parametrize(
    "module", ["certificate", "data", "estimators", "noise", "theory", "train"]
)
def test_every_name_of_a_public_module_is_there(module):
    missing = [
        name for name in getattr(adacorr, module).__all__ if not re.search(rf"\b{name}\b", PAGE)
    ]
    assert missing == []

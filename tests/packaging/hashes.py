"""SHA-256 of the pinned packages from the public index, as constraints-hashes.txt.

    python tests/packaging/hashes.py

    pip install --require-hashes --no-deps -r constraints-hashes.txt

installs exactly these files. torch is left out: its CPU, CUDA and ROCm builds are different files
of one version, and which one is right depends on the machine; `constraints.txt` pins its version.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
INDEX = "https://pypi.org/simple/"
LEFT_OUT = ("torch",)
LINK = re.compile(r'#sha256=([0-9a-f]{64})"[^>]*>\s*([^<\s]+)\s*</a>')
PYTHON = re.compile(r"-(py3|py2\.py3|cp3(?:[2-9]|1[0-4]))-(none|abi3|cp31[1-4])-")
PLATFORM = re.compile(r"-any\.whl$|manylinux[\w.]*_(x86_64|aarch64)|macosx_\w+_(arm64|universal2)")


def pins() -> list[tuple[str, str]]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return [(name, version) for name, version in found if name not in LEFT_OUT]


def files(name: str, version: str) -> list[str]:
    """Hashes of the files for Linux and macOS, Python 3.11 to 3.14; of the source if none fits."""
    with urlopen(f"{INDEX}{re.sub('[-_.]+', '-', name).lower()}/", timeout=60) as answer:
        listed = LINK.findall(answer.read().decode())
    own = {file: value for value, file in listed if _version(file) == version}
    fit = [file for file in own if PYTHON.search(file) and PLATFORM.search(file)]
    fit = fit or [file for file in own if PYTHON.search(file)] or list(own)
    if not fit:
        raise SystemExit(f"{name}=={version}: expected files on the index, got none")
    return sorted(own[file] for file in fit)


def _version(filename: str) -> str:
    stem = filename.removesuffix(".tar.gz").removesuffix(".zip")
    return stem.split("-")[1] if filename.endswith(".whl") else stem.rpartition("-")[2]


def main() -> None:
    wanted = pins()
    with ThreadPoolExecutor(8) as pool:
        hashes = list(pool.map(lambda pin: files(*pin), wanted))
    lines = ["# Made by tests/packaging/hashes.py; torch is pinned in constraints.txt alone."]
    for (name, version), values in zip(wanted, hashes, strict=True):
        lines.append(f"{name}=={version} \\")
        lines += [f"    --hash=sha256:{value} \\" for value in values]
        lines[-1] = lines[-1].removesuffix(" \\")
    (ROOT / "constraints-hashes.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Builds wheel and sdist, installs the wheel in an empty environment, uses it without torch.

Slow (a minute or more, and a package index is needed), so outside the test suite:

    python tests/packaging/check_wheel.py [PYTHON ...]

Each PYTHON (default: this one) gets its own environment. The constraints of the project apply.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = "id,label,p_cat,p_dog\n" + "".join(
    f"{i},{'dog' if i % 10 == 0 else 'cat'},0.9,0.1\n{i},dog,0.1,0.9\n" for i in range(60)
)
USE = """
import importlib.util, adacorr
from sklearn.linear_model import LogisticRegression
from adacorr.estimators import CorrectedClassifier
assert importlib.util.find_spec("torch") is None, "torch came with the wheel"
assert adacorr.correct([0, 1], [[0.9, 0.1], [0.8, 0.2]], delta=0.9).labels.tolist() == [0, 0]
CorrectedClassifier(LogisticRegression()).fit([[0.0], [0.1], [1.0], [1.1]] * 5, [0, 0, 1, 1] * 5)
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (_,) = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("adacorr/py.typed", "adacorr/cli/__init__.py"):
        assert needed in names, f"{needed} is not in the wheel"
    assert any(n.startswith("adacorr/review/static/") for n in names), (
        "the page is not in the wheel"
    )
    assert any(n.startswith("adacorr/report/templates/") for n in names), "no report template"
    return wheel


def use(python: str, wheel: Path, folder: Path) -> None:
    environment = folder / "venv"
    run(python, "-m", "venv", environment)
    own = environment / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    (folder / "table.csv").write_text(TABLE)
    command = environment / "bin" / "adacorr"
    out = run(command, "correct", "table.csv", "--output", "out.csv", cwd=folder)
    assert "changed 6 of 120 labels" in out, out
    run(command, "doctor", cwd=folder)
    run(own, "-c", USE, cwd=folder)
    print(f"{run(own, '--version').strip()}: installed, used without torch")


def main(pythons: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        print(f"built {wheel.name}")
        for number, python in enumerate(pythons):
            place = Path(folder) / str(number)
            place.mkdir()
            use(python, wheel, place)


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])

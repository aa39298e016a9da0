"""What an install brings along: pinned, hashed, audited where possible, under licences that fit."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([\w.-]+)==([\w.+!]+)", re.MULTILINE)


def run(*words: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / name).read_text(encoding="utf-8")))


def test_every_pin_has_hashes(record):
    pinned, hashed = pins("constraints.txt"), pins("constraints-hashes.txt")
    assert set(pinned) - set(hashed) == {"torch"}  # each machine has its own build of it
    assert hashed.items() <= pinned.items()
    text = (ROOT / "constraints-hashes.txt").read_text(encoding="utf-8")
    assert all(
        block.count("--hash=sha256:") for block in re.split(r"^(?=\w)", text, flags=re.M)[1:]
    )
    record("supply_chain", pinned=len(pinned), hashed=len(hashed))


def test_hashes_are_those_of_the_files_that_pip_gets(tmp_path, record):
    """Ten packages by lot: pip itself checks what it downloads."""
    text = (ROOT / "constraints-hashes.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    small = [
        b for b in blocks if b.count("--hash") == 1
    ]  # pure Python: small and for every machine
    wanted = tmp_path / "some.txt"
    wanted.write_text("".join(random.Random(0).sample(small, 10)))
    words = ["download", "--quiet", "--no-deps", "--require-hashes", "-r", str(wanted)]
    done = run(sys.executable, "-m", "pip", *words, "-d", str(tmp_path / "files"))
    if "HTTP error" in done.stderr or "NewConnectionError" in done.stderr:
        record("supply_chain", hashes_checked_by_pip="no package index in reach")
        return
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "files").iterdir())) == 10
    wanted.write_text(wanted.read_text().replace("sha256:", "sha256:0", 1)[:-1])
    wanted.write_text(re.sub(r"sha256:0(\w{63})\w", r"sha256:0\1", wanted.read_text()))
    spoilt = run(sys.executable, "-m", "pip", *words, "-d", str(tmp_path / "other"))
    assert spoilt.returncode != 0
    assert "DO NOT MATCH THE HASHES" in spoilt.stderr
    record("supply_chain", hashes_checked_by_pip=10)


def test_constraints_still_install(record):
    """The command of `make`, without installing: every pin is found and they fit together."""
    words = ["install", "--dry-run", "--quiet", "-c", str(ROOT / "constraints.txt")]
    done = run(sys.executable, "-m", "pip", *words, "-e", f"{ROOT}[dev]")
    assert done.returncode == 0, done.stderr
    assert run(sys.executable, "-m", "pip", "check").returncode == 0
    record("supply_chain", constraints_install=True)


def test_audit(record):
    """pip-audit asks a public service; where that is out of reach, the page says so."""
    program = shutil.which("pip-audit", path=str(Path(sys.executable).parent))
    if program is None:
        record("supply_chain", audit="pip-audit is not installed")
        return
    words = ["-r", str(ROOT / "constraints.txt"), "--no-deps", "--disable-pip", "-f", "json"]
    done = run(program, *words, "--progress-spinner", "off")
    try:
        found = json.loads(done.stdout)["dependencies"]
    except ValueError:
        record("supply_chain", audit="the advisory service was out of reach")
        return
    asked = [entry for entry in found if "vulns" in entry]
    if not asked:
        record("supply_chain", audit="the advisory service was out of reach")
        return
    bad = {entry["name"]: [v["id"] for v in entry["vulns"]] for entry in asked if entry["vulns"]}
    record("supply_chain", audit=f"{len(asked)} packages, {len(bad)} with known vulnerabilities")
    assert not bad, bad


def test_licences(record):
    done = run(sys.executable, str(ROOT / "tests" / "packaging" / "licences.py"), "--check")
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^\| (\S+) \| .* \| ([\w ]+) \|$", (ROOT / "docs/licences.md").read_text(), re.M
    )
    rows = [(name, kind) for name, kind in rows if name not in ("package", "---")]
    kinds = {kind: sum(k == kind for _, k in rows) for _, kind in rows}
    assert set(kinds) <= {"permissive", "weak copyleft"}, rows
    record("supply_chain", licences=kinds)

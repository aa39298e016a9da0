"""Runs the code blocks of a Markdown page, in order, in one folder and one namespace."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from adacorr.cli import main

FENCE = re.compile(r"^( *)(```+)([^\n`]*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    where: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, also those inside lists; a language of "" was not named."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            m[3].strip(),
            textwrap.dedent(m[4]),
            f"{page.name}, line {text.count(chr(10), 0, m.start()) + 1}",
        )
        for m in FENCE.finditer(text)
    ]


def run_python(block: Block, namespace: dict) -> None:
    if ">>>" not in block.text:
        exec(compile(block.text, block.where, "exec", dont_inherit=True), namespace)
        return
    test = doctest.DocTestParser().get_doctest(block.text, namespace, block.where, None, 0)
    out = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=out.write, clear_globs=False)
    namespace.update(test.globs)
    assert not runner.failures, out.getvalue()


def run_console(block: Block) -> None:
    """``$`` lines are commands; what follows one, if anything, is its output."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        code, out = run_command(command)
        assert code == 0, f"{block.where}: {command}: exit code {code}\n{out}"
        if expected.strip():
            wanted = expected.strip() + "\n"
            check = doctest.OutputChecker().check_output
            quick = wanted.removeprefix("...\n")  # a quick machine prints no progress first
            same = check(wanted, out, FLAGS) or check(quick, out, FLAGS)
            assert same, f"{block.where}: {command}\nexpected:\n{expected}\ngot:\n{out}"


def run_command(command: str) -> tuple[int, str]:
    words = shlex.split(command)
    plain = words[0] == "adacorr" and not {"|", ">", "&&", ";"} & set(words)
    if plain:  # in this process: torch is imported once for all pages
        return run_main(words[1:])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, text=True, capture_output=True, env={**os.environ, "PATH": path}
    )
    return done.returncode, done.stdout + done.stderr


def run_main(argv: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(argv)
        except SystemExit as stop:
            code = stop.code or 0
    return int(code), out.getvalue()


def check_flags(block: Block) -> None:
    """Commands too long to run here still have to parse; pip and make lines are left alone."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "torchrun":
            words = words[words.index("adacorr") :]
        if words and words[0] == "adacorr":
            end = words.index(">") if ">" in words else len(words)
            code, out = run_main([*words[1:end], "--print-config"])
            assert code == 0, f"{block.where}: {line}: {out}"
        else:
            known = {"pip", "make", "tensorboard"}
            assert not words or words[0] in known, f"{block.where}: {line}"


def check_settings(block: Block, path: Path) -> None:
    """A settings file is read by every command that it has a table for."""
    path.write_text(block.text)
    tables = tomllib.loads(block.text)
    words = [
        [name, *([inner] if isinstance(value, dict) else [])]
        for name, table in tables.items()
        for inner, value in table.items()
    ]
    for command in words:
        data = ["x"] if command[0] in ("fit", "bench") else []
        code, out = run_main([*command, *data, "--config", str(path), "--print-config"])
        assert code == 0, f"{block.where}: {' '.join(command)}: {out}"


@pytest.fixture
def fenced():
    return blocks


@pytest.fixture
def run_page(tmp_path, monkeypatch):
    """``run_page(path)`` runs every ``python`` and ``console`` block.

    ``sh`` is for commands that need a network, a server or hours: their flags are checked. A
    ``toml`` block is read as settings. ``text`` is shown only, and nothing else is allowed.
    """

    def run(page: Path) -> int:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("ADACORR_CONFIG", raising=False)
        namespace = {"__name__": "__main__"}
        found = blocks(page)
        for block in found:
            if block.language == "python":
                run_python(block, namespace)
            elif block.language == "console":
                run_console(block)
            elif block.language == "sh":
                check_flags(block)
            elif block.language == "toml":
                check_settings(block, tmp_path / "checked.toml")
            else:
                known = block.language == "text" or block.language.startswith("{")
                assert known, f"{block.where}: expected a language that is checked"
        return len(found)

    return run

import os
import pty
import re
import subprocess
import sys

import pytest

import adacorr
from adacorr.cli import COMMANDS, app


def leaves():
    """Every command that does something, as its words."""
    for name in COMMANDS:
        sub = app[name]
        inner = [n for n in sub if not n.startswith("-")] if sub.default_command is None else []
        yield from ([(name, n) for n in inner] or [(name,)])


@pytest.fixture
def page(run_cli):
    """The help page of a command."""

    def read(*words):
        code, out, _ = run_cli(*words, "--help")
        assert code == 0
        return out

    return read


def test_the_first_page_lists_every_command(page):
    text = page()
    assert all(f" {name} " in text for name in COMMANDS)
    assert "Example: adacorr correct" in text


@pytest.mark.parametrize("words", list(leaves()), ids=" ".join)
def test_every_command_has_help_with_an_example(page, words):
    text = page(*words)
    assert f"Example: adacorr {' '.join(words)}" in " ".join(text.split())


def test_every_parameter_is_explained():
    for words in leaves():
        sub = app
        for word in words:
            sub = sub[word]
        for argument in sub.assemble_argument_collection(parse_docstring=True):
            if argument.show:
                assert argument.parameter.help, f"{' '.join(words)}: {argument.name}"


def flags_of(words):
    sub = app
    for word in words:
        sub = sub[word]
    return {name for a in sub.assemble_argument_collection() for name in a.names}


def test_json_and_quiet_everywhere():
    for words in leaves():
        assert {"--json", "--quiet"} <= flags_of(words), words


def test_every_flag_can_be_undone():
    """A file may turn a flag on; the command line must be able to turn it off again."""
    for words in leaves():
        assert {"--no-json", "--no-quiet"} <= flags_of(words), words


def test_pages_say_no_more_than_needed(page):
    for words in leaves():
        text = page(*words)
        assert "[default: False]" not in text
        assert "--no-quiet" not in text
    assert "--no-browser" in page("review")
    assert "--no-augment" in page("fit")


def test_text_flows(page, monkeypatch):
    """Line breaks of the docstrings are not those of the terminal."""
    monkeypatch.setenv("COLUMNS", "600")
    assert "for several files it is a folder. For .npy" in page("correct")


def test_every_method_and_dataset_is_named(page):
    from adacorr.data.named.catalog import CATALOG
    from adacorr.train import METHODS

    fit = page("fit").replace(",", " ").replace(".", " ").split()
    assert set(METHODS) <= set(fit)
    fetched = {name for name, entry in CATALOG.items() if all(f.url for f in entry.files)}
    assert fetched <= set(page("data", "get").replace(",", " ").replace(".", " ").split())


def test_version(run_cli):
    assert run_cli("--version") == (0, f"{adacorr.__version__}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_knows_the_commands(run_cli, shell):
    script = run_cli("completion", shell)[1]
    assert all(name in script for name in COMMANDS)
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_colours_only_on_a_terminal():
    command = [sys.executable, "-m", "adacorr", "--help"]
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    env["TERM"] = "xterm-256color"
    piped = subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout
    assert "\x1b[" not in piped
    master, slave = pty.openpty()
    subprocess.run(command, stdout=slave, env=env, check=True)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert re.search(r"\x1b\[\d*m", shown)


@pytest.mark.parametrize("command", [["fit", "--help"], ["doctor", "--json"]])
def test_a_reader_that_has_seen_enough_is_no_error(command):
    command = [sys.executable, "-m", "adacorr", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1

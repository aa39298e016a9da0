"""Imports point one way, and `import adacorr` stays light. See ARCHITECTURE.md."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "adacorr"
BELOW = {  # part -> the parts of this package that it may import
    "_version": set(),
    "core": {"_version", "labels"},  # labels stands on core.validation alone
    "labels": {"core"},
    "files": {"core"},
    "plotting": {"core", "files"},
    "tables": {"core", "labels", "files"},
    "data": {"core", "labels", "files", "tables"},
    "runs": {"core", "labels", "files", "tables", "data"},
}
ROOMS = {"_version", *BELOW}
ALLOWED = {
    **BELOW,
    "correction": {*ROOMS},
    "cleaning": {*ROOMS, "correction"},
    "train": {*ROOMS, "correction"},
    "estimators": {*ROOMS, "correction", "train"},
    "paper": {*ROOMS, "correction", "train"},
    "report": {*ROOMS, "paper"},
    "review": {*ROOMS, "report", "correction"},  # answers go back to the rule
}
FREE = {
    "cli",
    "__init__",
    "__main__",
    "certificate",
    "noise",
    "theory",
}  # they tie the parts together
HEAVY = {"torch", "numba", "scipy", "sklearn", "matplotlib", "pyarrow", "pandas", "polars", "rich"}


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST):
    """(line, module) of every absolute import, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            yield node.lineno, node.module or ""
            if node.module == "adacorr":
                yield from ((node.lineno, f"adacorr.{alias.name}") for alias in node.names)


def at_module_level(tree: ast.Module):
    """The names of packages imported when the module is."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


FILES = sorted(ROOT.rglob("*.py"))


def test_every_part_has_its_place():
    assert {part(path) for path in FILES} <= ALLOWED.keys() | FREE


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    own = part(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if own not in FREE:
        for line, module in imported(tree):
            names = module.split(".")
            if names[0] == "adacorr" and len(names) > 1 and names[1] != own:
                assert names[1] in ALLOWED[own], f"line {line}: {own} must not import {module}"
    if own != "train":
        assert "torch" not in set(at_module_level(tree)), "only train/ imports torch at the top"
    if own == "core":
        used = {module.split(".")[0] for _, module in imported(tree)}
        assert not used & {"torch", "pyarrow", "rich", "pandas"}
        calls = {
            n.func.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        assert not calls & {"print", "open"}, "core neither prints nor opens files"


def test_the_test_sees_a_wrong_import():
    tree = ast.parse("def f():\n    from adacorr import train\n    import adacorr.cli.fit")
    assert {module for _, module in imported(tree)} == {
        "adacorr",
        "adacorr.train",
        "adacorr.cli.fit",
    }


@pytest.mark.parametrize(
    "code",
    [
        "import adacorr",
        "import adacorr; adacorr.correct([0, 1], [[0.9, 0.1], [0.8, 0.2]], delta=0.9)",
        "import adacorr.cli",
    ],
)
def test_start_up_is_light(code):
    """What a fresh interpreter has loaded afterwards; numba and torch cost seconds."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    heavy = HEAVY - {"rich"} if "cli" in code else HEAVY
    assert not loaded & heavy, loaded & heavy


def test_a_class_name_has_one_meaning():
    found = [
        node.name
        for path in FILES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in found if found.count(name) > 1} == set()


RENAMES = {"replace", "rename", "renames", "move", "fsync", "link", "symlink"}


def test_names_are_given_in_one_place():
    """Atomic writes are `files.py`'s; bench records, which only grow, sync their own lines."""
    for path in FILES:
        calls = {
            f"{node.func.value.id}.{node.func.attr}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("os", "shutil")
        }
        allowed = {"files.py": {"os.replace", "os.fsync"}, "records.py": {"os.fsync"}}
        wanted = allowed.get(path.name, set())
        assert {name for name in calls if name.split(".")[1] in RENAMES} <= wanted, path

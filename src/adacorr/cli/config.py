"""Where a command's settings come from: a TOML file, the environment, flags; later ones win.

adacorr.toml             [fit]                      or --config FILE, or ADACORR_CONFIG=FILE
                         method = "coteaching"
the environment          ADACORR_FIT_METHOD=standard
flags                    adacorr fit digits --method adacorr
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacorr.core.validation import InputError
from adacorr.files import read_toml

if TYPE_CHECKING:
    from cyclopts.exceptions import UnknownOptionError

FILE_NAME = "adacorr.toml"
FILE_VARIABLE = "ADACORR_CONFIG"
PREFIX = "ADACORR_"
_CODE = {
    "net": re.compile(r"[\w.]+:\w*"),
    "encoder": re.compile(r".*[:/\\].*", re.DOTALL),
    "scheduler": re.compile(r".*", re.DOTALL),  # what it sends is run
}
_NEVER = re.compile(r"(?!)")


def find_file(config: Path | None) -> Path | None:
    """The file of ``--config``, else of ``$ADACORR_CONFIG``, else ``./adacorr.toml`` if any."""
    named = config or (Path(os.environ[FILE_VARIABLE]) if os.environ.get(FILE_VARIABLE) else None)
    if named is None:
        return Path(FILE_NAME) if Path(FILE_NAME).is_file() else None
    if not named.is_file():
        source = "--config" if config else FILE_VARIABLE
        raise InputError(f"{source}: expected a TOML file, got {named}: no such file")
    return named


def sources(config: Path | None, commands: Collection[str]) -> list[Callable[..., Any]]:
    """What fills the parameters that have no flag, the stronger source first."""
    from cyclopts.config import Env, Toml

    path = find_file(config)
    environment = Env(PREFIX, show=False)
    if path is None:
        return [environment]
    tables = read_toml(path)
    _check_tables(path, tables, commands)
    if config is None and not os.environ.get(FILE_VARIABLE):
        _check_no_code(path, tables)
    return [environment, Toml(path)]


def _check_no_code(path: Path, tables: dict[str, dict[str, Any]]) -> None:
    """A file that happens to be in the current folder, a run from elsewhere perhaps, names none."""
    for table, values in tables.items():
        for name, value in values.items():
            if isinstance(value, str) and _CODE.get(name, _NEVER).fullmatch(value):
                raise InputError(
                    f"{path}: expected no code and no model from elsewhere in a file that nobody "
                    f"named, got {name} = {value!r} in [{table}]; if you trust it, say so: "
                    f"--config {path}"
                )


def _check_tables(path: Path, tables: dict[str, Any], commands: Collection[str]) -> None:
    """Cyclopts looks for the command's own table and passes over all others: say if one is odd."""
    for name, value in tables.items():
        if name not in commands or not isinstance(value, dict):
            near = get_close_matches(name, commands, n=1)
            hint = f"; did you mean [{near[0]}]?" if near and near[0] != name else ""
            wanted = "a table per command, such as [fit]"
            raise InputError(f"{path}: expected {wanted}, got {name}{hint}")


def misspelt(error: UnknownOptionError) -> InputError | None:
    """The same complaint in the words of a settings file, if it is one about a file."""
    token = error.token
    if not token.source.endswith(".toml"):
        return None
    names = [name for a in error.argument_collection for name in a.names if name.startswith("--")]
    key = (token.keyword or token.value).strip("[]")
    near = get_close_matches(key, [name.removeprefix("--") for name in names], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return InputError(f"{token.source}: expected a setting of the command, got {key}{hint}")


def describe(commands: tuple[str, ...], bound: inspect.BoundArguments, flags: set[str]) -> str:
    """The settings that a command would run with, as TOML that ``--config`` takes back.

    What is not a flag, as the data of ``fit``, is shown as a comment.

    >>> bound = inspect.signature(lambda data, seed=0: None).bind("digits")
    >>> print(describe(("fit",), bound, {"--seed"}))
    [fit]
    # data = "digits"
    seed = 0
    """
    from adacorr.runs.directory import dump_toml

    bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        values |= _flatten(name, value)
    lines = [f"[{'.'.join(commands)}]"]
    for name, value in values.items():
        entry = dump_toml({"command": {name: value}}).partition("\n")[2].strip()
        lines.append(entry if f"--{name}" in flags else f"# {entry}")
    return "\n".join(lines)


def _flatten(name: str, value: Any) -> dict[str, Any]:
    """One entry per flag: a dataclass parameter is several flags; what is not set is left out."""
    if is_dataclass(value) and not isinstance(value, type):
        entries: dict[str, Any] = {}
        for field in fields(value):
            entries |= _flatten(field.name, getattr(value, field.name))
        return entries
    if value is None or value == ():
        return {}
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Path):
        value = str(value)
    return {name.strip("_").replace("_", "-"): value}

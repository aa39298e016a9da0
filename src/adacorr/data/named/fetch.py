"""Fetch the named datasets' official files, checked, and say what is there and what is not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adacorr.core.validation import InputError
from adacorr.data.named import cifar, cifar_n, clothing1m, mnist, modelnet
from adacorr.data.named.catalog import CATALOG, Named, OfficialFile, roots
from adacorr.files import atomic

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes so far and the bytes in all (0 when unknown)."""

TIMEOUT = 30  # seconds without an answer


@dataclass(frozen=True)
class Status:
    """What is known of a named dataset on this machine."""

    name: str
    title: str
    found: tuple[str, ...]
    missing: tuple[OfficialFile, ...]
    note: str

    @property
    def ready(self) -> bool:
        return not self.missing


def status(name: str) -> Status:
    """Where a named dataset was found, or which official files are missing."""
    entry = _entry(name)
    if name == "digits":
        return Status(name, entry.title, ("inside scikit-learn",), (), entry.note)
    found, absent = _locate(entry)
    if name == "cifar10n" and cifar.find("cifar10") is None:
        absent += CATALOG["cifar10"].files
    return Status(name, entry.title, found, absent, entry.note)


def _entry(name: str) -> Named:
    if name not in CATALOG:
        raise InputError(f"name: expected one of {', '.join(CATALOG)}, got {name!r}")
    return CATALOG[name]


def _locate(entry: Named) -> tuple[tuple[str, ...], tuple[OfficialFile, ...]]:
    """What the dataset's reader would find."""
    if entry.name in ("mnist", "fashion_mnist", "clothing1m"):
        many = clothing1m.find() if entry.name == "clothing1m" else mnist.find(entry.name)
        found = tuple(str(path) for path in many.values() if path is not None)
        return found, tuple(f for f in entry.files if many[f.file] is None)
    one = {
        "cifar10": lambda: cifar.find("cifar10"),
        "cifar100": lambda: cifar.find("cifar100"),
        "cifar10n": cifar_n.find,
        "modelnet40": modelnet.find,
    }[entry.name]()
    return ((), entry.files) if one is None else ((str(one),), ())


def fetch(name: str, *, mirror: str | None = None, progress: Progress | None = None) -> list[Path]:
    """Fetch what is missing of a named dataset; the files fetched, none if all was there.

    Parameters
    ----------
    mirror : a web folder with files of the official names, in place of the official source; the
        checksums stay the official ones.
    progress : told how far each file is.

    Files go to the first writable of ADACORR_DATA and the cache folder. A file is there only once
    it is complete and its checksum is right. Where none is published, the SHA-256 of the first
    download is kept beside the file, and a later download must agree with it.
    """
    entry = _entry(name)
    if name == "digits":
        return []
    _, absent = _locate(entry)
    got = []
    for remote in absent:
        if mirror is not None:
            remote = replace(remote, url=f"{mirror.rstrip('/')}/{remote.file}")
        if remote.url is None:
            raise InputError(f"{name}: expected {remote.file} from its owners; {entry.note}")
        got.append(_fetch_file(remote, _writable() / entry.folder, progress))
    return got


def _writable() -> Path:
    """The first data root that takes files."""
    for root in roots():
        with suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            if os.access(root, os.W_OK):
                return root
    raise InputError(f"ADACORR_DATA: expected a writable folder, got {roots()[0]}")


def _fetch_file(remote: OfficialFile, folder: Path, progress: Progress | None) -> Path:
    target = folder / remote.file
    record = target.with_name(f"{target.name}.sha256")
    known = remote.checksum or _recorded(record)
    folder.mkdir(parents=True, exist_ok=True)
    _download(remote, target, known, progress)
    if remote.checksum is None:
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        with atomic(record) as temporary:
            temporary.write_text(f"{digest}  {target.name}\n", encoding="ascii")
    return target


def _recorded(record: Path) -> str | None:
    try:
        return f"sha256:{record.read_text(encoding='ascii').split()[0]}"
    except (OSError, IndexError, UnicodeDecodeError):
        return None


def _download(
    remote: OfficialFile, target: Path, known: str | None, progress: Progress | None
) -> None:
    try:
        import pooch
    except ImportError:
        raise InputError(
            "data get: expected the package pooch, got none; pip install 'adacorr[train]'"
        ) from None
    import logging

    pooch.get_logger().setLevel(logging.ERROR)  # our own progress says it
    url = str(remote.url)
    bar: Any = _Bar(remote.file, progress) if progress else False
    loader: Any = pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT)
    try:
        pooch.retrieve(
            url, known_hash=known, fname=target.name, path=target.parent, downloader=loader
        )
    except OSError as error:  # requests' errors are OSErrors; their text runs over several lines
        raise InputError(
            f"{url}: expected to fetch {target.name} ({known or 'no published checksum'}), "
            f"got {_reason(error)}"
        ) from error
    except ValueError as error:
        raise InputError(f"{url}: expected {known}, got a file with another checksum") from error


def _reason(error: OSError) -> str:
    answer = getattr(error, "response", None)
    if answer is not None:
        return f"HTTP status {answer.status_code}"
    kind = type(error).__name__
    if kind in ("ConnectionError", "ConnectTimeout", "ReadTimeout", "SSLError", "ProxyError"):
        return f"no connection ({kind})"
    return error.strerror or kind


class _Bar:
    """What pooch asks of a progress bar."""

    def __init__(self, file: str, tell: Progress) -> None:
        self._file, self._tell, self._done, self.total = file, tell, 0, 0

    def update(self, n: int) -> None:
        self._done += n
        self._tell(self._file, self._done, self.total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        self._tell(self._file, self._done, self.total)

"""Fetch the named datasets' official files, checked, and say what is there and what is not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from adacorr.core.validation import InputError
from adacorr.data.named import cifar, cifar_n, clothing1m, mnist, modelnet
from adacorr.data.named.catalog import CATALOG, Named, OfficialFile, roots
from adacorr.files import atomic

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes so far and the bytes in all (0 when unknown)."""

TIMEOUT = 30  # seconds without an answer
PIECE = 1 << 20  # bytes between two reports of progress


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
    folder.mkdir(parents=True, exist_ok=True)
    digest = _download(remote, target, remote.checksum or _recorded(record), progress)
    if remote.checksum is None:
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
) -> str:
    """The digest of the file that is now `target`; a wrong one leaves nothing."""
    url = str(remote.url)
    if not url.startswith(("http://", "https://")):
        raise InputError(f"mirror: expected an address that starts with http, got {url}")
    kind, _, wanted = (known or "sha256:").partition(":")
    digest = hashlib.new(kind, usedforsecurity=False)
    asked = Request(url, headers={"User-Agent": "adacorr"})
    try:
        with urlopen(asked, timeout=TIMEOUT) as answer, atomic(target) as temporary:
            done, total = 0, int(answer.headers.get("Content-Length") or 0)
            with open(temporary, "wb") as file:
                while piece := answer.read(PIECE):
                    file.write(piece)
                    digest.update(piece)
                    done += len(piece)
                    if progress is not None:
                        progress(remote.file, done, total)
            if done < total:
                raise ConnectionError("ended early")
            if wanted and digest.hexdigest() != wanted:
                raise InputError(f"{url}: expected {known}, got a file with another checksum")
    except (OSError, HTTPException) as error:
        raise InputError(
            f"{url}: expected to fetch {target.name} ({known or 'no published checksum'}), "
            f"got {_reason(error)}"
        ) from error
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"HTTP status {error.code}"
    if isinstance(error, URLError | TimeoutError | ConnectionError | HTTPException):
        cause = error.reason if isinstance(error, URLError) else error
        return f"no connection ({' '.join(str(cause).split()) or type(cause).__name__})"
    return getattr(error, "strerror", None) or type(error).__name__

"""Files behind URLs (s3://, gs://, https://, memory://, ...), opened by fsspec: an extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from adacorr.core.validation import InputError, one_line


def is_url(place: object) -> bool:
    """
    >>> is_url("s3://bucket/a.parquet"), is_url("folder/a.parquet")
    (True, False)
    """
    return isinstance(place, str) and "://" in place


def without_file_scheme(place: Any) -> Any:
    """A ``file://`` URL is a path like any other: checked, and replaced in one step, like one.

    >>> without_file_scheme("file:///a/b.csv"), without_file_scheme("s3://a/b.csv")
    ('/a/b.csv', 's3://a/b.csv')
    """
    scheme, mark, path = place.partition("://") if isinstance(place, str) else ("", "", "")
    return path if mark and scheme in ("file", "local") else place


@dataclass(frozen=True)
class Remote:
    """A file or folder behind a URL, with the few things that a Path has and we need.

    >>> place = Remote("s3://bucket/folder/a.csv.gz")
    >>> place.name, place.suffix, str(place.parent), str(place.parent / "b")
    ('a.csv.gz', '.gz', 's3://bucket/folder', 's3://bucket/folder/b')
    >>> str(Remote("memory://a").parent / "b")
    'memory:///b'
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> Remote:
        scheme, _, path = self.url.partition("://")
        return Remote(f"{scheme}://{path.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def suffix(self) -> str:
        stem, dot, end = self.name.rpartition(".")
        return f".{end}" if dot and stem else ""

    @property
    def parent(self) -> Remote:
        scheme, _, path = self.url.partition("://")
        return Remote(f"{scheme}://{path.rstrip('/').rpartition('/')[0]}")

    def system(self) -> tuple[Any, str]:
        """fsspec's file system, and the path in it."""
        try:
            import fsspec
        except ImportError:
            raise InputError(
                f"{self}: expected the extra adacorr[cluster] for URLs, got no fsspec"
            ) from None
        with remote_errors(self):
            return fsspec.core.url_to_fs(self.url)

    def open(self) -> Any:
        """For reading, in binary."""
        system, path = self.system()
        with remote_errors(self):
            return system.open(path, "rb")

    def files(self, default: str = "*.parquet") -> list[Remote]:
        """What a pattern or a folder stands for, in order of name; itself if it is a file."""
        system, path = self.system()
        with remote_errors(self):
            if any(mark in path for mark in "*?["):
                found = [name for name in system.glob(path) if system.isfile(name)]
            elif system.isdir(path):
                found = system.glob(f"{path.rstrip('/')}/{default}")
            else:
                return [self]
            return [Remote(system.unstrip_protocol(name)) for name in sorted(found)]

    def is_file(self) -> bool:
        system, path = self.system()
        with remote_errors(self):
            return bool(system.isfile(path))

    def is_dir(self) -> bool:
        system, path = self.system()
        with remote_errors(self):
            return bool(system.isdir(path))


@contextmanager
def remote_errors(place: Remote) -> Iterator[None]:
    """Every store has its own errors (credentials, network, a missing package): one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = one_line(error)
        raise InputError(f"{place}: expected a reachable file, got: {reason}") from error

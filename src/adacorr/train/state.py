"""What a run can go on from: checkpoints that are whole or not there, and the lock on a run.

A checkpoint is a folder ``checkpoint/epoch-000012`` with ``tensors.safetensors``, ``state.json``
and a manifest of their SHA-256. It is written under a temporary name and renamed; the last two are
kept. Nothing is ever pickled. There is no random state in it: every stream of random numbers is
seeded by (seed, epoch), see :func:`stream`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from adacorr.core.streams import stream_seed
from adacorr.core.validation import InputError
from adacorr.files import make_folder, settle

KEEP = 2


def stream(*key: int) -> torch.Generator:
    """A generator for one purpose, e.g. (seed, epoch, what); the same key, the same numbers."""
    return torch.Generator().manual_seed(stream_seed(*key))


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors and plain values, as saved after `epoch`."""

    epoch: int
    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with ``prefix.``, without it."""
        start = len(prefix) + 1
        return {k[start:]: v for k, v in self.tensors.items() if k.startswith(f"{prefix}.")}


def flatten(**groups: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of :meth:`Checkpoint.group`; tensors are brought to the CPU, contiguous."""
    return {
        f"{prefix}.{name}": tensor.detach().cpu().contiguous()
        for prefix, group in groups.items()
        for name, tensor in group.items()
    }


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write it whole, then give it its name, then drop the oldest beyond the last two."""
    final = folder / f"epoch-{checkpoint.epoch:06d}"
    temporary = folder / f".{final.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    make_folder(folder)
    temporary.mkdir()
    try:
        files = {
            "tensors.safetensors": save(_unshared(checkpoint.tensors)),
            "state.json": json.dumps(checkpoint.values).encode(),
        }
        manifest = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        for name, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            (temporary / name).write_bytes(data)
        shutil.rmtree(final, ignore_errors=True)
        settle(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for old in _found(folder)[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path, warn: Callable[[str], None]) -> Checkpoint:
    """The newest whole checkpoint; a damaged one is named in a warning and passed over."""
    if folder.is_symlink():  # old checkpoints are removed from it
        raise InputError(f"{folder}: expected a folder inside the run directory, got a link")
    for path in _found(folder):
        try:
            return _read(path)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            warn(f"{path}: damaged checkpoint refused ({error}); trying the one before")
    raise InputError(f"{folder}: expected a checkpoint to resume from, got no usable one")


def _read(path: Path) -> Checkpoint:
    manifest = json.loads((path / "manifest.json").read_bytes())
    data = {name: (path / name).read_bytes() for name in ("tensors.safetensors", "state.json")}
    for name, content in data.items():
        if hashlib.sha256(content).hexdigest() != manifest[name]:
            raise ValueError(f"{name} does not match its checksum")
    values = json.loads(data["state.json"])
    return Checkpoint(int(path.name[-6:]), load(data["tensors.safetensors"]), values)


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-[0-9][0-9][0-9][0-9][0-9][0-9]"), reverse=True)


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tied weights share memory, which safetensors refuses: later ones become copies."""
    seen: set[int] = set()
    out = {}
    for name, tensor in tensors.items():
        out[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return out


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Per-parameter state as named tensors (hyper-parameters come from the settings)."""
    return {
        f"{i}.{key}": value
        for i, p in enumerate(_parameters(optimizer))
        for key, value in optimizer.state.get(p, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what :func:`optimizer_tensors` gave, in each parameter's memory layout."""
    parameters = _parameters(optimizer)
    for name, value in tensors.items():
        i, key = name.split(".", 1)
        p = parameters[int(i)]
        if value.shape == p.shape:  # same strides as in the run that was stopped: same bits
            value = torch.empty_like(p).copy_(value)
        optimizer.state[p][key] = value


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


_MAX_OWNER = 1000  # bytes of a lock file: who holds it
_locks: set[int] = set()


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Hold the run directory; a second run is told who has it."""
    if run_dir.is_file():
        raise InputError(f"{run_dir}: expected a run directory or a new name, got a file")
    make_folder(run_dir)
    lock = _open_lock(run_dir / ".lock")
    _locks.add(lock)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(lock, _MAX_OWNER, 0).decode(errors="replace").strip()
            raise InputError(
                f"{run_dir}: expected a run directory that nobody is writing, "
                f"got one held by {owner or 'another process'}"
            ) from None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        owner = f"process {os.getpid()} on {socket.gethostname()} since {since}".encode()
        os.pwrite(lock, owner, 0)
        os.ftruncate(lock, len(owner))
        yield
    finally:
        if lock in _locks:
            _locks.remove(lock)
            os.close(lock)


def _open_lock(path: Path) -> int:
    """The lock file of a run that may come from anywhere: what it is not must not be written to."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise InputError(f"{path}: expected a lock file, got a link, folder or device") from None
    found = os.fstat(lock)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > _MAX_OWNER:
        os.close(lock)
        raise InputError(f"{path}: expected a lock file of adacorr, got another file")
    return lock


def _leave_locks() -> None:
    """A data worker must not keep the lock of a run whose own process was killed."""
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_leave_locks)

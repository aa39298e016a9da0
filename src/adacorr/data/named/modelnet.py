"""ModelNet40 (Wu et al. 2015): OFF meshes sampled to point clouds, or the hdf5 release.

Following PointNet (Qi et al. 2017), 1,024 points are drawn uniformly from the surface of each
mesh, centred, and scaled into the unit ball.
"""

from __future__ import annotations

import hashlib
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError
from adacorr.data.dataset import Dataset, Splits
from adacorr.data.named.catalog import cache_folder, missing, roots
from adacorr.files import atomic

POINTS = 1024
_SEED = 0
_OFF_ZIP = "ModelNet40.zip"
_HDF5 = "modelnet40_ply_hdf5_2048"


def find() -> Path | None:
    """The mesh folder or archive, or the hdf5 folder or archive."""
    for root in roots():
        for folder in (root / "modelnet40", root):
            for name in ("ModelNet40", _OFF_ZIP, _HDF5, f"{_HDF5}.zip"):
                if (folder / name).exists():
                    return folder / name
    return None


def load_modelnet() -> Splits:
    """9,843 training and 2,468 test clouds (the hdf5 release: 9,840 and 2,468).

    The points belong to the dataset, not to a run: they are drawn with a fixed seed, a stream for
    each mesh, and kept in the cache folder, since reading the meshes takes minutes.
    """
    path = find()
    if path is None:
        raise missing("modelnet40")
    if path.name.startswith(_HDF5):
        return _from_hdf5(path)
    if path.is_dir():
        files = {p.relative_to(path).as_posix(): p for p in path.rglob("*.off")}
        return _from_meshes({key: file.read_bytes for key, file in files.items()}, path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith(".off") and "__MACOSX" not in n]
            readers = {
                n.split("/", 1)[-1]: (lambda n=n: archive.read(n)) for n in names if "/" in n
            }
            return _from_meshes(readers, path)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path}: expected a complete zip archive, got {error}") from error


def _from_meshes(readers: dict[str, Callable[[], bytes]], path: Path) -> Splits:
    """`readers`: "class/part/file.off" -> its bytes."""
    entries = sorted(key for key in readers if len(key.split("/")) == 3)
    names = tuple(sorted({key.split("/")[0] for key in entries}))
    if len(names) < 2:
        raise InputError(f"{path}: expected class/train/*.off and class/test/*.off, got none")
    parts = []
    for part_number, part in enumerate(("train", "test")):
        keys = [key for key in entries if key.split("/")[1] == part]
        if not keys:
            raise InputError(f"{path}: expected meshes in class/{part}, got none")
        clouds = _cached(
            keys, path, lambda keys=keys, n=part_number: _sample(readers, keys, path, n)
        )
        labels = np.array([names.index(key.split("/")[0]) for key in keys], np.int64)
        parts.append(Dataset("modelnet40", clouds, labels, names, truth=labels, ids=np.array(keys)))
    return Splits(parts[0], test=parts[1])


def _sample(
    readers: dict[str, Callable[[], bytes]], keys: list[str], path: Path, part_number: int
) -> NDArray[np.float32]:
    clouds = np.empty((len(keys), POINTS, 3), np.float32)
    for i, key in enumerate(keys):
        rng = np.random.default_rng((_SEED, part_number, i))
        vertices, faces = parse_off(readers[key](), f"{path}: {key}")
        clouds[i] = unit_ball(sample_surface(vertices, faces, POINTS, rng))
    return clouds


def _cached(
    keys: list[str], path: Path, build: Callable[[], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The clouds of these meshes from the cache folder, or built and kept there."""
    stat = path.stat()
    told = "\n".join([str(path.resolve()), str(stat.st_size), str(stat.st_mtime_ns), *keys])
    name = f"modelnet40-{hashlib.sha256(told.encode()).hexdigest()[:24]}.npy"
    kept = cache_folder() / "prepared" / name
    with suppress(OSError, ValueError):
        clouds = np.load(kept, allow_pickle=False)
        if clouds.shape == (len(keys), POINTS, 3) and clouds.dtype == np.float32:
            return clouds
    clouds = build()
    with suppress(OSError):  # a full or read-only disk costs time at the next run, nothing else
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic(kept) as temporary, open(temporary, "wb") as handle:
            np.save(handle, clouds)
    return clouds


def parse_off(raw: bytes, where: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Vertices (V, 3) and triangles (F, 3) of an OFF mesh.

    Many of ModelNet40's files run the header into the counts ("OFF123 456 0"). Faces of more
    than three corners are cut into a fan of triangles.

    >>> parse_off(b"OFF3 1 0\\n0 0 0\\n1 0 0\\n0 1 0\\n3 0 1 2\\n", "x.off")[1].tolist()
    [[0, 1, 2]]
    """
    text = raw.decode("ascii", errors="replace").lstrip()
    if text[:3].upper() != "OFF":
        raise InputError(f"{where}: expected an OFF mesh, got {text[:12]!r}")
    body = text[3:]
    if "#" in body:
        body = "\n".join(line.split("#", 1)[0] for line in body.splitlines())
    try:
        numbers = _numbers(body)
        n_vertices, n_faces = int(numbers[0]), int(numbers[1])
        if not 0 < n_vertices <= len(numbers) or not 0 < n_faces <= len(numbers):
            raise ValueError("other counts")
        vertices = numbers[3 : 3 + 3 * n_vertices].reshape(n_vertices, 3)
        faces = _triangles(numbers[3 + 3 * n_vertices :], n_faces)
    except (ValueError, IndexError) as error:
        raise InputError(f"{where}: expected a complete OFF mesh, got {error}") from error
    if not np.isfinite(vertices).all() or faces.min() < 0 or faces.max() >= n_vertices:
        raise InputError(f"{where}: expected faces of its {n_vertices} vertices, got others")
    return vertices, faces


def _numbers(text: str) -> NDArray[np.float64]:
    """All numbers of a text; numpy's parser warns or raises at the first that is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ")
        except (DeprecationWarning, ValueError):
            raise ValueError("something that is not a number") from None


def _triangles(tail: NDArray[np.float64], n_faces: int) -> NDArray[np.int64]:
    if len(tail) == 4 * n_faces and (tail[::4] == 3).all():  # nothing but triangles: the usual case
        return tail.reshape(n_faces, 4)[:, 1:].astype(np.int64)
    out, at = [], 0
    for _ in range(n_faces):
        corners = int(tail[at])
        face = tail[at + 1 : at + 1 + corners].astype(np.int64)
        if len(face) != corners or corners < 3:
            raise ValueError("a face cut short")
        out += [(face[0], face[j], face[j + 1]) for j in range(1, corners - 1)]
        at += 1 + corners
    return np.array(out, np.int64)


def sample_surface(
    vertices: NDArray[np.float64],
    faces: NDArray[np.int64],
    size: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """`size` points drawn uniformly from the surface.

    A triangle is chosen with probability proportional to its area, then a point in it as
    (1 - sqrt(u)) A + sqrt(u) (1 - v) B + sqrt(u) v C with u, v uniform (Osada et al. 2002).
    """
    a, b, c = (vertices[faces[:, j]] for j in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    total = area.sum()
    if not total > 0:  # a mesh without surface still has corners
        return vertices[rng.integers(len(vertices), size=size)]
    pick = np.minimum(np.searchsorted(area.cumsum(), rng.random(size) * total), len(area) - 1)
    root, v = np.sqrt(rng.random((size, 1))), rng.random((size, 1))
    return (1 - root) * a[pick] + root * (1 - v) * b[pick] + root * v * c[pick]


def unit_ball(cloud: NDArray[np.floating]) -> NDArray[np.float32]:
    """Centred on the mean point, the farthest point at distance one."""
    centred = cloud - cloud.mean(axis=0, dtype=np.float64)
    return (centred / max(float(np.linalg.norm(centred, axis=1).max()), 1e-12)).astype(np.float32)


def _from_hdf5(path: Path) -> Splits:
    if path.is_dir():
        files = {p.name: p.read_bytes for p in path.iterdir() if p.suffix in (".h5", ".txt")}
        return _read_hdf5(files, path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if "__MACOSX" not in n]
            files = {n.split("/")[-1]: (lambda n=n: archive.read(n)) for n in names}
            return _read_hdf5(files, path)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path}: expected a complete zip archive, got {error}") from error


def _read_hdf5(files: dict[str, Callable[[], bytes]], path: Path) -> Splits:
    if "shape_names.txt" not in files:
        raise InputError(f"{path}: expected shape_names.txt, got none")
    names = tuple(files["shape_names.txt"]().decode("ascii", "replace").split())
    parts = []
    for part in ("train", "test"):
        keys = sorted(k for k in files if k.startswith(f"ply_data_{part}") and k.endswith(".h5"))
        if not keys:
            raise InputError(f"{path}: expected ply_data_{part}0.h5 and so on, got none")
        pieces = [_read_h5(files[key](), f"{path}: {key}", len(names)) for key in keys]
        clouds = np.concatenate([x for x, _ in pieces])
        labels = np.concatenate([y for _, y in pieces])
        parts.append(Dataset("modelnet40", clouds, labels, names, truth=labels))
    return Splits(parts[0], test=parts[1])


def _plain_dataset(found: Any) -> Any:
    """A dataset stored in the file itself: one that points at other files is not followed."""
    import h5py

    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise ValueError("something else than a plain dataset")
    return found


def _read_h5(raw: bytes, where: str, n_classes: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The first 1,024 of each model's 2,048 points, which come in random order."""
    import h5py

    try:
        with h5py.File(io.BytesIO(raw), "r") as handle:
            data, label = (_plain_dataset(handle[key]) for key in ("data", "label"))
            clouds = np.asarray(data[:, :POINTS, :], dtype=np.float32)
            labels = np.asarray(label[...]).reshape(-1).astype(np.int64)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"{where}: expected an hdf5 file with data (N, 2048, 3) and label, got {error}"
        ) from error
    if clouds.ndim != 3 or clouds.shape[2] != 3 or len(clouds) != len(labels):
        raise InputError(f"{where}: expected data (N, 2048, 3), one label each, got {clouds.shape}")
    if labels.min() < 0 or labels.max() >= n_classes or not np.isfinite(clouds).all():
        raise InputError(
            f"{where}: expected finite points and labels in [0, {n_classes}), got others"
        )
    return np.stack([unit_ball(cloud) for cloud in clouds]), labels

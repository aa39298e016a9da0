from __future__ import annotations

import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.data.named.modelnet import parse_off, sample_surface, unit_ball

CUBE = """OFF
8 6 0
0 0 0
1 0 0
1 1 0
0 1 0
0 0 1
1 0 1
1 1 1
0 1 1
4 0 1 2 3
4 4 5 6 7
4 0 1 5 4
4 1 2 6 5
4 2 3 7 6
4 3 0 4 7
"""
TETRAHEDRON = "OFF4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"


def write_meshes(folder: Path) -> None:
    for name, mesh in (("bowl", CUBE), ("chair", TETRAHEDRON)):
        for part, n in (("train", 3), ("test", 1)):
            (folder / name / part).mkdir(parents=True)
            for i in range(n):
                (folder / name / part / f"{name}_{i:04}.off").write_text(mesh)


def test_off_quirks() -> None:
    vertices, faces = parse_off(CUBE.encode(), "cube")
    assert vertices.shape == (8, 3)
    assert faces.shape == (12, 3)  # each square is two triangles
    vertices, faces = parse_off(TETRAHEDRON.encode(), "tetrahedron")
    assert faces.tolist() == [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
    commented = TETRAHEDRON.replace("OFF", "OFF # made by hand\n").replace("1 0 0", "1 0 0 # x")
    assert np.array_equal(parse_off(commented.encode(), "t")[0], vertices)
    assert np.array_equal(parse_off(TETRAHEDRON.replace("\n", "\r\n").encode(), "t")[1], faces)


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ("", "expected an OFF mesh"),
        ("PLY\n1 2 3", "expected an OFF mesh, got 'PLY"),
        (TETRAHEDRON[:40], "expected a complete OFF mesh"),
        (TETRAHEDRON[:-4], "expected a complete OFF mesh"),
        (TETRAHEDRON.replace("1 0 0", "1 x 0"), "got something that is not a number"),
        (TETRAHEDRON.replace("3 1 2 3", "3 1 2 9"), "expected faces of its 4 vertices"),
        (TETRAHEDRON.replace("OFF4 4", "OFF999999999 4"), "got other counts"),
        (TETRAHEDRON.replace("3 0 1 2", "2 0 1"), "got a face cut short"),
        (TETRAHEDRON.replace("1 0 0", "inf 0 0"), "expected faces of its 4 vertices"),
    ],
)
def test_bad_meshes_are_explained(mesh: str, message: str) -> None:
    with pytest.raises(InputError, match=f"x.off: .*{message}|x.off: {message}"):
        parse_off(mesh.encode(), "x.off")


def test_sampling_is_uniform_in_area(rng) -> None:
    """A square cut into triangles of very different sizes: counts follow the area."""
    vertices = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.1, 0, 0]], float)
    faces = np.array([[0, 4, 3], [4, 1, 3], [1, 2, 3]])
    points = sample_surface(vertices, faces, 40_000, rng)
    assert (points[:, 2] == 0).all()
    counts = np.histogram2d(points[:, 0], points[:, 1], bins=4, range=[[0, 1], [0, 1]])[0]
    expected = 40_000 / 16
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 38  # 99.9% of the chi-squared distribution with 15 degrees of freedom is below
    flat = np.zeros((3, 3))
    assert np.array_equal(sample_surface(flat, np.array([[0, 1, 2]]), 5, rng), np.zeros((5, 3)))


def test_unit_ball(rng) -> None:
    cloud = unit_ball(rng.normal(size=(100, 3)) * [5, 1, 1] + 7)
    assert np.abs(cloud.mean(axis=0)).max() < 1e-5
    assert np.linalg.norm(cloud, axis=1).max() == pytest.approx(1, abs=1e-6)
    assert np.array_equal(unit_ball(np.ones((4, 3))), np.zeros((4, 3)))


@pytest.mark.parametrize("packed", [True, False])
def test_meshes_become_clouds(root: Path, packed: bool) -> None:
    write_meshes(root / "ModelNet40")
    if packed:
        with zipfile.ZipFile(root / "ModelNet40.zip", "w") as archive:
            for path in sorted((root / "ModelNet40").rglob("*.off")):
                archive.write(path, path.relative_to(root).as_posix())
            archive.writestr("__MACOSX/ModelNet40/bowl/train/._bowl.off", "junk")
        (root / "ModelNet40").rename(root / "elsewhere")
    parts = load("modelnet40")
    assert parts.train.class_names == ("bowl", "chair")
    assert parts.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert parts.train.input_shape == (1024, 3)
    assert parts.test is not None
    assert parts.test.ids is not None
    assert parts.test.ids.tolist() == ["bowl/test/bowl_0000.off", "chair/test/chair_0000.off"]
    clouds = np.asarray(parts.train.features)
    assert np.linalg.norm(clouds, axis=2).max() == pytest.approx(1, abs=1e-6)
    assert not np.array_equal(clouds[0], clouds[1])  # a stream for each mesh
    again = load("modelnet40")  # now from the cache folder
    assert np.array_equal(clouds, np.asarray(again.train.features))


def test_the_cache_follows_the_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_meshes(root / "ModelNet40")
    first = np.asarray(load("modelnet40").train.features)
    kept = list((root.parent / "cache").rglob("*.npy"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:100])  # a damaged cache is built anew
    assert np.array_equal(np.asarray(load("modelnet40").train.features), first)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")  # and an unwritable one is done without
    assert np.array_equal(np.asarray(load("modelnet40").train.features), first)


@pytest.mark.parametrize("packed", [True, False])
def test_the_hdf5_release(root: Path, rng, packed: bool) -> None:
    folder = root / "modelnet40" / "modelnet40_ply_hdf5_2048"
    folder.mkdir(parents=True)
    (folder / "shape_names.txt").write_text("airplane\nbathtub\nbed\n")
    stored = {}
    for name, n in (("ply_data_train0", 3), ("ply_data_train1", 2), ("ply_data_test0", 2)):
        stored[name] = rng.normal(size=(n, 2048, 3)).astype(np.float32)
        with h5py.File(folder / f"{name}.h5", "w") as handle:
            handle["data"] = stored[name]
            handle["label"] = (np.arange(n) % 3).astype(np.uint8)[:, None]
    if packed:
        with zipfile.ZipFile(root / "modelnet40_ply_hdf5_2048.zip", "w") as archive:
            for path in folder.iterdir():
                archive.write(path, f"modelnet40_ply_hdf5_2048/{path.name}")
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    parts = load("modelnet40")
    assert parts.train.class_names == ("airplane", "bathtub", "bed")
    assert parts.train.labels.tolist() == [0, 1, 2, 0, 1]
    assert np.array_equal(
        np.asarray(parts.train.features)[3], unit_ball(stored["ply_data_train1"][0, :1024])
    )


def test_bad_releases_are_named(root: Path) -> None:
    with pytest.raises(InputError, match=r"expected ModelNet40\.zip \(sha256:42dc3e65"):
        load("modelnet40")
    folder = root / "modelnet40_ply_hdf5_2048"
    folder.mkdir()
    with pytest.raises(InputError, match=r"expected shape_names\.txt, got none"):
        load("modelnet40")
    (folder / "shape_names.txt").write_text("airplane\nbathtub\n")
    with pytest.raises(InputError, match=r"expected ply_data_train0\.h5"):
        load("modelnet40")
    (folder / "ply_data_train0.h5").write_bytes(b"not hdf5")
    with pytest.raises(InputError, match=r"ply_data_train0\.h5: expected an hdf5 file"):
        load("modelnet40")
    with h5py.File(folder / "ply_data_train0.h5", "w") as handle:
        handle["data"] = np.zeros((1, 2048, 3))
        handle["label"] = np.array([[5]])
    with pytest.raises(InputError, match=r"labels in \[0, 2\)"):
        load("modelnet40")
    (root / "ModelNet40.zip").write_bytes(b"PK cut short")
    with pytest.raises(InputError, match=r"ModelNet40\.zip: expected a complete zip archive"):
        load("modelnet40")
    (root / "ModelNet40").mkdir()
    with pytest.raises(InputError, match=r"expected class/train/\*\.off"):
        load("modelnet40")

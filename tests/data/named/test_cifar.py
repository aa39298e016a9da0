from __future__ import annotations

import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.data.named.cifar import CIFAR10_CLASSES

REAL = os.environ.get("ADACORR_DATA")
FINE = [f"fine{i}" for i in range(100)]


def planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), 3072)


class Release:
    """A CIFAR of two images a batch, in each official form."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name = name
        k, batches = (10, 5) if name == "cifar10" else (100, 1)
        self.images = rng.integers(0, 256, (2 * batches + 2, 32, 32, 3), dtype=np.uint8)
        self.labels = rng.integers(0, k, len(self.images))
        self.parts = [slice(2 * i, 2 * i + 2) for i in range(batches + 1)]
        self.train = slice(0, 2 * batches)

    def binary(self) -> dict[str, bytes]:
        if self.name == "cifar10":
            files = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
            out = {"batches.meta.txt": "\n".join([*CIFAR10_CLASSES, ""]).encode()}
        else:
            files = ["train.bin", "test.bin"]
            out = {"fine_label_names.txt": "\n".join(FINE).encode()}
        for file, part in zip(files, self.parts, strict=True):
            head = [self.labels[part][:, None]]
            if self.name == "cifar100":
                head.insert(0, self.labels[part][:, None] // 5)
            out[file] = np.hstack([*head, planes(self.images[part])]).astype(np.uint8).tobytes()
        return out

    def python(self) -> dict[str, bytes]:
        if self.name == "cifar10":
            files = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
            key, meta = "labels", ("batches.meta", {"label_names": list(CIFAR10_CLASSES)})
        else:
            files, key = ["train", "test"], "fine_labels"
            meta = ("meta", {"fine_label_names": FINE, "coarse_label_names": ["c"]})
        out = {meta[0]: pickle.dumps(meta[1], protocol=2)}
        for file, part in zip(files, self.parts, strict=True):
            batch = {"data": planes(self.images[part]), key: self.labels[part].tolist()}
            out[file] = pickle.dumps(batch, protocol=2)
        return out

    def check(self) -> None:
        parts = load(self.name)
        assert np.array_equal(np.asarray(parts.train.features), self.images[self.train])
        assert parts.train.labels.tolist() == self.labels[self.train].tolist()
        assert parts.test is not None
        assert np.array_equal(np.asarray(parts.test.features), self.images[self.parts[-1]])
        names = CIFAR10_CLASSES if self.name == "cifar10" else tuple(FINE)
        assert parts.train.class_names == names


def pack(path: Path, folder: str, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, raw in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))


FORMS = [
    ("cifar10", "binary", "cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
    ("cifar10", "python", "cifar-10-batches-py", "cifar-10-python.tar.gz"),
    ("cifar100", "binary", "cifar-100-binary", "cifar-100-binary.tar.gz"),
    ("cifar100", "python", "cifar-100-python", "cifar-100-python.tar.gz"),
]


@pytest.mark.parametrize(("name", "form", "folder", "archive"), FORMS)
@pytest.mark.parametrize("packed", [True, False])
def test_official_releases(root: Path, rng, name, form, folder, archive, packed) -> None:
    release = Release(name, rng)
    files = getattr(release, form)()
    if packed:
        pack(root / archive, folder, files)
    else:
        (root / name / folder).mkdir(parents=True)
        for file, raw in files.items():
            (root / name / folder / file).write_bytes(raw)
    release.check()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("inner", ["", "data"])
def test_hugging_face_parquet(root: Path, rng, encode_png, name: str, inner: str) -> None:
    datasets = pytest.importorskip("datasets")
    release = Release(name, rng)
    label, names = ("label", CIFAR10_CLASSES) if name == "cifar10" else ("fine_label", FINE)
    form = datasets.Features(
        {"img": datasets.Image(), label: datasets.ClassLabel(names=list(names))}
    )
    (root / name / inner).mkdir(parents=True)
    for part, rows in (("train", release.train), ("test", release.parts[-1])):
        images = [{"bytes": encode_png(x), "path": None} for x in release.images[rows]]
        data = datasets.Dataset.from_dict(
            {"img": images, label: release.labels[rows]}, features=form
        )
        data.to_parquet(str(root / name / inner / f"{part}-00000-of-00001.parquet"))
    release.check()


def test_parquet_that_is_wrong_is_named(root: Path, encode_png) -> None:
    folder = root / "cifar10"
    folder.mkdir()
    image = {"bytes": encode_png(np.zeros((32, 32, 3), np.uint8)), "path": None}

    def write(part: str, **columns: list) -> None:
        pq.write_table(pa.table(columns), folder / f"{part}-00000.parquet")

    write("train", picture=[image], label=[1])
    with pytest.raises(InputError, match=r"train-00000\.parquet: expected columns img and label"):
        load("cifar10")
    write("train", img=[image, {"bytes": None, "path": None}], label=[1, 2])
    with pytest.raises(
        InputError, match="expected image bytes in column img, got NoneType in row 1"
    ):
        load("cifar10")
    write("train", img=[image], label=[11])
    write("test", img=[image], label=[1])
    with pytest.raises(InputError, match=r"expected labels in \[0, 10\), got 11 in row 0"):
        load("cifar10")
    write("train", img=[{"bytes": b"no image", "path": None}], label=[1])
    with pytest.raises(InputError, match="train row 0: expected a readable image"):
        load("cifar10")
    path = folder / "train-00000.parquet"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match=r"train-00000\.parquet: expected a complete parquet file"):
        load("cifar10")


def test_damaged_releases_are_named(root: Path, rng) -> None:
    files = Release("cifar10", rng).binary()
    archive = root / "cifar-10-binary.tar.gz"
    pack(archive, "cifar-10-batches-bin", {**files, "data_batch_3.bin": b"x" * 100})
    with pytest.raises(
        InputError, match=r"data_batch_3\.bin: expected records of 3073 bytes, got 100"
    ):
        load("cifar10")
    pack(archive, "cifar-10-batches-bin", {k: v for k, v in files.items() if "test" not in k})
    with pytest.raises(InputError, match=r"expected cifar-10-batches-bin/test_batch\.bin inside"):
        load("cifar10")
    pack(archive, "cifar-10-batches-bin", {**files, "test_batch.bin": b"\x0c" + bytes(3072)})
    with pytest.raises(InputError, match=r"expected labels in \[0, 10\), got 12 in row 0"):
        load("cifar10")
    pack(archive, "cifar-10-batches-bin", files)
    archive.write_bytes(archive.read_bytes()[: len(archive.read_bytes()) // 2])
    with pytest.raises(InputError, match=r"expected a complete tar\.gz archive"):
        load("cifar10")
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    with pytest.raises(
        InputError, match=r"batches\.meta: expected a file of the release, got none"
    ):
        load("cifar10")


def test_missing_release_is_named() -> None:
    with pytest.raises(InputError) as error:
        load("cifar100")
    assert "cifar-100-binary.tar.gz (md5:03b5dce01913d631647c71ecec9e9cb8)" in str(error.value)
    assert "adacorr data get cifar100" in str(error.value)


@pytest.mark.skipif(not REAL, reason="ADACORR_DATA is not set: no real files to read")
def test_the_real_files_decode_to_the_official_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Label byte and planes of the test part have the MD5 of the official test_batch.bin."""
    import hashlib

    monkeypatch.setenv("ADACORR_DATA", str(REAL))
    parts = load("cifar10", subset=10)
    assert parts.test is not None
    rows = np.hstack([parts.test.labels[:, None], planes(np.asarray(parts.test.features))])
    digest = hashlib.md5(rows.astype(np.uint8).tobytes(), usedforsecurity=False).hexdigest()
    assert digest == "803d5f7f4d78ea53de84dbe85f74fb6d"

"""The named datasets: official files, their sources and checksums, and where we look for them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from adacorr.core.validation import InputError


@dataclass(frozen=True)
class OfficialFile:
    """One official file."""

    file: str
    url: str | None = None  # None: the owners give it on request only
    checksum: str | None = None  # "md5:..." or "sha256:..."; None: none is published


@dataclass(frozen=True)
class Named:
    """One named dataset and the folder under a data root that its files are fetched into."""

    name: str
    title: str
    folder: str
    files: tuple[OfficialFile, ...]
    note: str = ""


def _idx(base: str, sums: tuple[str, str, str, str]) -> tuple[OfficialFile, ...]:
    names = (
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    )
    return tuple(
        OfficialFile(n, f"{base}/{n}", f"md5:{md5}") for n, md5 in zip(names, sums, strict=True)
    )


_TORONTO = "https://www.cs.toronto.edu/~kriz"
_CIFAR10 = OfficialFile(
    "cifar-10-binary.tar.gz",
    f"{_TORONTO}/cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
)

CATALOG: dict[str, Named] = {
    entry.name: entry
    for entry in (
        Named("digits", "8x8 handwritten digits that come with scikit-learn", "", ()),
        Named(
            "mnist",
            "28x28 handwritten digits",
            "MNIST/raw",
            _idx(
                "https://ossci-datasets.s3.amazonaws.com/mnist",
                (
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "9fb629c4189551a2d022fa330f9573f3",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                ),
            ),
        ),
        Named(
            "fashion_mnist",
            "28x28 photographs of clothes",
            "FashionMNIST/raw",
            _idx(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
                (
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "bef4ecab320f06d8554ea6380940ec79",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                ),
            ),
        ),
        Named("cifar10", "32x32 colour photographs, 10 classes", "cifar10", (_CIFAR10,)),
        Named(
            "cifar10n",
            "CIFAR-10 with human labels: cifar10n:aggre, random1, random2, random3 or worse",
            "cifar10n",
            (
                OfficialFile(
                    "CIFAR-10_human.pt",
                    "https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/CIFAR-10_human.pt",
                ),
            ),
            "the images are CIFAR-10's: adacorr data get cifar10",
        ),
        Named(
            "cifar100",
            "32x32 colour photographs, 100 classes",
            "cifar100",
            (
                OfficialFile(
                    "cifar-100-binary.tar.gz",
                    f"{_TORONTO}/cifar-100-binary.tar.gz",
                    "md5:03b5dce01913d631647c71ecec9e9cb8",
                ),
            ),
        ),
        Named(
            "modelnet40",
            "3-D models of 40 kinds of objects, as point clouds",
            "modelnet40",
            (
                OfficialFile(
                    "ModelNet40.zip",
                    "http://modelnet.cs.princeton.edu/ModelNet40.zip",
                    "sha256:42dc3e656932e387f554e25a4eb2cc0e1a1bd3ab54606e2a9eae444c60e536ac",
                ),
            ),
            "modelnet40_ply_hdf5_2048.zip (shapenet.cs.stanford.edu/media) is read too",
        ),
        Named(
            "clothing1m",
            "a million photographs of clothes with labels from shops, 14 classes",
            "clothing1m",
            tuple(
                OfficialFile(name)
                for name in (
                    "noisy_train_key_list.txt",
                    "noisy_label_kv.txt",
                    "clean_val_key_list.txt",
                    "clean_test_key_list.txt",
                    "clean_label_kv.txt",
                    "images/",
                )
            ),
            "its authors (Xiao et al. 2015) give it on request: "
            "https://github.com/Cysu/noisy_label; unpack images beside the lists",
        ),
    )
}


def roots() -> list[Path]:
    """Where data are looked for: ADACORR_DATA first, then the cache folder."""
    given = os.environ.get("ADACORR_DATA")
    return ([Path(given).expanduser()] if given else []) + [cache_folder()]


def cache_folder() -> Path:
    """The platform's cache folder for this package."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "adacorr"


def missing(name: str, files: tuple[OfficialFile, ...] | None = None) -> InputError:
    """The error that says which official files are needed, with checksums, and how to get them."""
    entry = CATALOG[name]
    wanted = ", ".join(
        f"{f.file} ({f.checksum})" if f.checksum else f.file for f in (files or entry.files)
    )
    places = " or ".join(str(root / entry.folder) for root in roots())
    how = f"run: adacorr data get {name}" if entry.files[0].url else entry.note
    return InputError(f"{name}: expected {wanted} in {places}, got none; {how}")

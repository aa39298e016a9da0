"""One entry: whatever the user points at becomes Splits of Datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from adacorr.core.validation import InputError, check_fields
from adacorr.data.dataset import Dataset, Splits
from adacorr.data.images import LazyImages, unreadable
from adacorr.data.named.catalog import CATALOG
from adacorr.data.splits import paper_split as split_as_in_paper
from adacorr.data.splits import subset as take_subset

IN_MEMORY_BYTES = 1 << 29
"""Images that fit into this many bytes of pixels are decoded once; more are read when needed."""


def load(
    source: str | Path,
    *,
    label_column: str | None = None,
    image_column: str | None = None,
    image_size: int | None = None,
    subset: int | None = None,
    paper_split: bool = False,
    skip_unreadable: bool = False,
    ignore_columns: Sequence[str] = (),
    seed: int = 0,
) -> Splits:
    """Load a named dataset, an image folder, a table or an .npz.

    Parameters
    ----------
    source : a name (``digits``, ``mnist``, ``cifar10n:aggre``, ...; see ``adacorr data list``), a
        folder with one subfolder of images per class, a .csv(.gz) or .parquet table, or an .npz.
    label_column : the table's column of labels.
    image_column : the table's column of image paths or bytes; without it every other column is a
        feature.
    image_size : images are resized to squares of this side. Without it, images of one size keep
        it (up to 256 pixels a side) and others become 64 x 64.
    subset : only that many training samples, by a permutation seeded with `seed`.
    paper_split : the paper's training and validation sizes, by a permutation seeded with `seed`.
    skip_unreadable : leave out images that cannot be read; ``train.skipped`` names them.
    ignore_columns : columns of a table that are no features.

    Returns
    -------
    Splits : ``test`` where the source has an official one; ``validation`` only where the source
        brings one of its own or with `paper_split`.

    Examples
    --------
    >>> parts = load("digits", subset=100)
    >>> len(parts.train), len(parts.test), parts.train.input_shape
    (100, 360, (8, 8, 1))
    """
    options = Options(
        label_column,
        image_column,
        image_size,
        subset,
        paper_split,
        skip_unreadable,
        tuple(ignore_columns),
        seed,
    )
    found = _parts(str(source), options)
    others = (part and decoded(part, skip_unreadable) for part in (found.validation, found.test))
    return Splits(decoded(found.train, skip_unreadable), *others)


@dataclass(frozen=True)
class Options:
    """The arguments of :func:`load`, which a run's ``[data]`` table repeats beside ``source``."""

    label_column: str | None = None
    image_column: str | None = None
    image_size: int | None = None
    subset: int | None = None
    paper_split: bool = False
    skip_unreadable: bool = False
    ignore_columns: tuple[str, ...] = ()
    seed: int = 0


def _parts(source: str, options: Options) -> Splits:
    """The parts of a source, images not decoded yet."""
    found = _dispatch(source, options)
    if options.paper_split:
        found = split_as_in_paper(found, options.seed)
    if options.subset is not None:
        found = replace(found, train=take_subset(found.train, options.subset, options.seed))
    return found


def _dispatch(source: str, options: Options) -> Splits:
    name, _, variant = source.partition(":")
    if name in CATALOG and (not variant or name == "cifar10n"):
        return _named(name, variant, options.image_size)
    path = Path(source).expanduser()
    if source and path.is_dir():
        from adacorr.data.folder import load_folder

        return Splits(load_folder(path, options.image_size, options.skip_unreadable))
    if not source or not path.exists():
        raise InputError(
            f"data: expected a file, a folder or one of {', '.join(CATALOG)}, got {source!r}"
        )
    if kind(path) == "npz":
        from adacorr.data.npz import load_npz

        return load_npz(path)
    from adacorr.data.table import load_table

    table = load_table(
        path,
        options.label_column,
        options.image_column,
        options.image_size,
        options.skip_unreadable,
        options.ignore_columns,
    )
    return Splits(table)


def kind(path: Path) -> str:
    """ "npz" or "table", by the name."""
    name = path.name.lower()
    if name.endswith(".npz"):
        return "npz"
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")):
        return "table"
    raise InputError(f"{path}: expected .csv, .csv.gz, .tsv, .parquet or .npz, got {path.name}")


def _named(name: str, variant: str, image_size: int | None) -> Splits:
    if name == "digits":
        from adacorr.data.named.digits import load_digits

        return load_digits()
    if name in ("mnist", "fashion_mnist"):
        from adacorr.data.named.mnist import load_mnist

        return load_mnist(name)
    if name in ("cifar10", "cifar100"):
        from adacorr.data.named.cifar import load_cifar

        return load_cifar(name)
    if name == "cifar10n":
        from adacorr.data.named.cifar_n import load_cifar10n

        return load_cifar10n(variant)
    if name == "modelnet40":
        from adacorr.data.named.modelnet import load_modelnet

        return load_modelnet()
    from adacorr.data.named.clothing1m import load_clothing1m

    return load_clothing1m(image_size)


def decoded(data: Dataset, skip_unreadable: bool) -> Dataset:
    """Small sets of images are decoded once; of large ones unreadable files are left out."""
    images = data.features
    if not isinstance(images, LazyImages):
        return data
    if skip_unreadable:
        good, bad = images.readable()
        data = replace(data.take(good), skipped=data.skipped + bad)
        images = data.features
        assert isinstance(images, LazyImages)
    pixels = len(images) * images.size[0] * images.size[1] * (1 if images.gray else 3)
    if pixels > IN_MEMORY_BYTES:
        return data
    try:
        return replace(data, features=images.load())
    except InputError as error:
        raise unreadable(error) from error


def open_source(config_data: Mapping[str, Any]) -> Dataset | None:
    """The samples behind a run, from its ``[data]`` table; None when the source is gone.

    All rows of the source, before ``subset`` and the like, so that they are found by the row number
    or id that the run recorded. Images are not decoded yet.

    >>> len(open_source({"source": "digits", "subset": 50, "seed": 1}))
    1437
    >>> open_source({"source": "/no/such/file.csv"}) is None
    True
    """
    source = config_data.get("source")
    if not isinstance(source, str) or not source:
        return None
    keys = {entry.name for entry in fields(Options)}
    try:
        known = {k: v for k, v in config_data.items() if k in keys and v is not None}
        check_fields(Options, known, "data")
        options = Options(**known)
        data = _dispatch(source, options).train
    except (ValueError, TypeError, OSError):  # gone, changed, or a config edited by hand
        return None
    shape, images = config_data.get("input_shape"), data.features
    if isinstance(images, LazyImages) and isinstance(shape, list) and len(shape) == 3:
        # in the run's form: a new image of another size would change that of all
        form = (int(shape[0]), int(shape[1])), int(shape[2]) == 1
        data = replace(data, features=LazyImages(images.sources, images.names, *form))
    return data

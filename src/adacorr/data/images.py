"""Images from files or bytes, decoded when asked for. Contents are never trusted."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.validation import InputError, one_line
from adacorr.tables.unpacked import check_unpacked

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS = 64_000_000
"""A larger image is refused: a few bytes can claim to unpack to gigabytes."""
HARMLESS_BYTES = 32 << 20
"""Of pixels. An image with more is as honest as any file: work on it is bounded by its size."""
DEFAULT_SIZE = 64
"""Side of the square that images of different sizes are resized to."""
MAX_SIDE = 256
"""Images of one larger size are resized as well, unless `image_size` is given."""
_ORIENTATION = 0x0112  # EXIF: how the camera was held; 5 to 8 are on the side
PROBED = 256
"""How many images are looked at to see whether all have one size."""


class LazyImages(Sequence[NDArray[np.uint8]]):
    """``images[i] -> (H, W, C) uint8``: read, converted and resized at each access.

    Parameters
    ----------
    sources : files, or the bytes of files.
    names : how an error names each of them.
    size : (height, width); an image of another size is resized (bilinear, aspect not kept).
    gray : one channel instead of three.
    """

    def __init__(
        self,
        sources: Sequence[Path | bytes],
        names: Sequence[str],
        size: tuple[int, int],
        gray: bool = False,
    ) -> None:
        self.sources, self.names, self.size, self.gray = sources, names, size, gray

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, i: Any) -> Any:
        at = int(i)
        return decode(self.sources[at], self.names[at], self.size, self.gray)

    def take(self, index: NDArray[np.integer]) -> LazyImages:
        """The images at `index`; nothing is read."""
        sources = [self.sources[int(i)] for i in index]
        return LazyImages(sources, [self.names[int(i)] for i in index], self.size, self.gray)

    def load(self) -> NDArray[np.uint8]:
        """All of them as one (N, H, W, C) array."""
        out = np.empty((len(self), *self.size, 1 if self.gray else 3), np.uint8)

        def fill(block: range) -> None:
            for i in block:
                out[i] = self[i]

        self._over_blocks(fill)
        return out

    def readable(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Positions of the images that can be read, and the names of the others."""
        good = np.zeros(len(self), bool)

        def check(block: range) -> None:
            for i in block:
                with suppress(InputError):
                    self[i]
                    good[i] = True

        self._over_blocks(check)
        if not good.any():
            raise InputError(
                f"{self.names[0]}: expected readable images, got none among {len(self)}"
            )
        bad = tuple(self.names[int(i)] for i in np.flatnonzero(~good))
        return np.flatnonzero(good), bad

    def _over_blocks(self, work: Callable[[range], None]) -> None:
        step = 512
        blocks = [range(s, min(s + step, len(self))) for s in range(0, len(self), step)]
        with ThreadPoolExecutor() as pool:  # Pillow lets go of the interpreter while it decodes
            list(pool.map(work, blocks))


def decode(
    source: Path | bytes, name: str, size: tuple[int, int] | None = None, gray: bool = False
) -> NDArray[np.uint8]:
    """One image as (H, W, C) uint8, or an error that names it."""
    from PIL import ImageOps

    with _opened(source, name) as image:
        if size is not None:  # a JPEG can be read at a half, a quarter, an eighth: photos are large
            image.draft(None, (2 * size[1], 2 * size[0]))
        image = ImageOps.exif_transpose(image).convert("L" if gray else "RGB")
        if size is not None and image.size != (size[1], size[0]):
            image = image.resize((size[1], size[0]), resample=2)  # bilinear
        pixels = np.asarray(image, dtype=np.uint8)
    return pixels[:, :, None] if gray else pixels


def probe(source: Path | bytes, name: str) -> tuple[tuple[int, int], bool]:
    """(height, width) and whether the image is grey, from its header alone."""
    with _opened(source, name) as image:
        turned = image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
        size = (image.width, image.height) if turned else (image.height, image.width)
        return size, image.mode in ("1", "L", "I", "I;16")


@contextmanager
def _opened(source: Path | bytes, name: str) -> Iterator[Any]:
    from PIL import Image, UnidentifiedImageError

    handle = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with Image.open(handle, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise InputError(
                    f"{name}: expected at most {MAX_PIXELS} pixels, "
                    f"got {image.width} x {image.height}"
                )
            bits = image.width * image.height * (1 if image.mode == "1" else 8)
            packed = len(source) if isinstance(source, bytes) else source.stat().st_size
            check_unpacked(name, bits * len(image.getbands()) // 8, packed, HARMLESS_BYTES)
            yield image
    except InputError:
        raise
    except Exception as error:  # Pillow's decoders raise anything from OSError to SyntaxError
        reason = one_line(error)
        if isinstance(error, UnidentifiedImageError):  # quotes an object in memory
            reason = "something else"
        raise InputError(f"{name}: expected a readable image, got {reason}") from error


def unreadable(error: InputError) -> InputError:
    """The same error with the way out of it."""
    said = str(error)
    hint = "; --skip-unreadable (skip_unreadable=True) leaves out what cannot be read"
    return InputError(said if hint in said or "readable image" not in said else said + hint)


def common_form(
    sources: Sequence[Path | bytes],
    names: Sequence[str],
    image_size: int | None,
    skip_unreadable: bool = False,
) -> tuple[tuple[int, int], bool]:
    """The size and colour that all images are brought to.

    `image_size` gives a square. Without it, up to `PROBED` images, evenly spread, are looked at:
    if they share a size it is kept (at most `MAX_SIDE` on a side), else squares of
    `DEFAULT_SIZE`. Grey only if all that were looked at are grey.
    """
    if image_size is not None and image_size < 1:
        raise InputError(f"image_size: expected a positive number of pixels, got {image_size}")
    picks = np.unique(np.linspace(0, len(sources) - 1, min(PROBED, len(sources))).astype(int))
    found = []
    for i in picks:
        try:
            found.append(probe(sources[int(i)], names[int(i)]))
        except InputError as error:
            if not skip_unreadable:
                raise unreadable(error) from error
    if not found:
        raise InputError(f"{names[0]}: expected readable images, got none")
    sizes = {size for size, _ in found}
    gray = all(is_gray for _, is_gray in found)
    if image_size is not None:
        return (image_size, image_size), gray
    if len(sizes) == 1:
        size = sizes.pop()
        if max(size) <= MAX_SIDE:
            return size, gray
    return (DEFAULT_SIZE, DEFAULT_SIZE), gray

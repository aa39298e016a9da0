from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adacorr.core.validation import InputError
from adacorr.data import images
from adacorr.data.images import LazyImages, common_form, decode, probe


def save(path: Path, size: tuple[int, int], mode: str = "RGB") -> Path:
    Image.new(mode, (size[1], size[0])).save(path)
    return path


def test_decode_gives_the_pixels(tmp_path: Path, rng) -> None:
    pixels = rng.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(decode(tmp_path / "a.png", "a"), pixels)
    assert np.array_equal(decode((tmp_path / "a.png").read_bytes(), "a"), pixels)
    assert decode(tmp_path / "a.png", "a", (3, 2), gray=True).shape == (3, 2, 1)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I;16", "LA"])
def test_every_mode_becomes_three_channels(tmp_path: Path, mode: str) -> None:
    suffix = "tif" if mode == "CMYK" else "png"
    path = save(tmp_path / f"a.{suffix}", (4, 6), mode)
    assert decode(path, "a").shape == (4, 6, 3)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    good = save(tmp_path / "good.png", (40, 40)).read_bytes()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40), dtype=np.uint8)).save(
        tmp_path / "noise.png"
    )
    noise = (tmp_path / "noise.png").read_bytes()
    for name, raw in (
        ("empty.png", b""),
        ("text.png", b"hello"),
        ("cut.png", noise[: len(noise) // 2]),
        ("header.png", good[:20]),
        ("script.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),
    ):
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(InputError, match=f"{name}: expected a readable image, got") as error:
            decode(tmp_path / name, str(tmp_path / name))
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"gone\.png: expected a readable image"):
        decode(tmp_path / "gone.png", "gone.png")
    with pytest.raises(InputError, match="folder: expected a readable image"):
        decode(tmp_path, "folder")


def test_small_files_of_very_many_pixels_are_refused_and_scans_are_not(tmp_path: Path) -> None:
    """Eighty such pictures took minutes to look at, for 15 MB of files."""
    bomb = save(tmp_path / "bomb.png", (7900, 8100))
    assert bomb.stat().st_size < 300_000
    with pytest.raises(InputError, match="bomb: expected data packed at most 200 to 1"):
        decode(bomb, "bomb", (64, 64))
    with pytest.raises(InputError, match="bomb: expected data packed at most 200 to 1"):
        decode(bomb.read_bytes(), "bomb", (64, 64))
    scan = save(tmp_path / "scan.png", (7000, 9000), "1")  # a large page, one bit a pixel
    assert decode(scan, "scan", (64, 64)).shape == (64, 64, 3)


def test_an_image_that_claims_too_many_pixels_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 50)
    with pytest.raises(InputError, match="expected at most 50 pixels, got 10 x 6"):
        decode(save(tmp_path / "a.png", (6, 10)), "a.png")


def test_common_form(tmp_path: Path) -> None:
    small = [save(tmp_path / f"s{i}.png", (6, 5)) for i in range(3)]
    names = [path.name for path in small]
    assert common_form(small, names, None) == ((6, 5), False)
    assert common_form(small, names, 9) == ((9, 9), False)
    gray = [save(tmp_path / "g.png", (6, 5), "L")]
    assert common_form(gray, ["g"], None) == ((6, 5), True)
    assert common_form(gray + small, ["g", *names], None) == ((6, 5), False)
    other = [save(tmp_path / "o.png", (7, 5))]
    assert common_form(small + other, [*names, "o"], None) == ((64, 64), False)
    large = [save(tmp_path / "l.png", (300, 300))]
    assert common_form(large, ["l"], None) == ((64, 64), False)
    with pytest.raises(InputError, match="image_size: expected a positive number"):
        common_form(small, names, 0)


def test_load_and_readable_agree_with_single_reads(tmp_path: Path, rng) -> None:
    paths = []
    for i in range(5):
        Image.fromarray(rng.integers(0, 256, (6, 5, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
        paths.append(tmp_path / f"{i}.png")
    lazy = LazyImages(paths, [p.name for p in paths], (6, 5))
    assert np.array_equal(lazy.load(), np.stack([lazy[i] for i in range(5)]))
    assert np.array_equal(lazy.take(np.array([3, 1])).load(), lazy.load()[[3, 1]])
    paths[2].write_bytes(b"broken")
    good, bad = lazy.readable()
    assert good.tolist() == [0, 1, 3, 4]
    assert bad == ("2.png",)
    with pytest.raises(InputError, match=r"2\.png: expected a readable image"):
        lazy.load()


def test_pictures_stand_as_the_camera_was_held(tmp_path):
    """EXIF says "on its side": the file's rows are the picture's columns."""
    pixels = np.zeros((4, 6), np.uint8)
    pixels[:, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    assert probe(tmp_path / "a.png", "a") == ((6, 4), True)
    turned = decode(tmp_path / "a.png", "a", gray=True)
    assert turned.shape == (6, 4, 1)
    assert (turned[0] == 255).all()

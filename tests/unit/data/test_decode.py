"""Every format and every fault, with real files: what comes out, and what is said of the others."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from josrc.data.decode import UnreadableImageError, read_picture, read_tile

LEFT, RIGHT = (200, 40, 60), (20, 120, 220)


def two_halves(width: int = 64, height: int = 40) -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (width, height), LEFT)
    image.paste(RIGHT, (width // 2, 0, width, height))
    return image


def halves(image: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    """Colours in the middle of the left and of the right half."""
    pixels = np.asarray(image).astype(int)
    height, width = pixels.shape[:2]
    return pixels[height // 2, width // 4], pixels[height // 2, 3 * width // 4]


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp", "tiff", "gif"])
def test_each_format_gives_its_colours(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"image.{suffix}"
    two_halves().save(path, quality=95) if suffix in ("jpg", "webp") else two_halves().save(path)
    for image in (read_picture(str(path)), read_picture(path.read_bytes())):
        assert (image.mode, image.size) == ("RGB", (64, 40))
        np.testing.assert_allclose(halves(image), (LEFT, RIGHT), atol=10)
    tile = read_tile(str(path), 24)
    assert tile.shape == (24, 24, 3)
    np.testing.assert_allclose(halves(Image.fromarray(tile)), (LEFT, RIGHT), atol=10)


def test_a_gif_and_a_tiff_of_many_pictures_give_the_first(tmp_path: Path) -> None:
    second = Image.new("RGB", (64, 40), (0, 255, 0))
    for name in ("film.gif", "pages.tiff"):
        two_halves().save(tmp_path / name, save_all=True, append_images=[second])
        image = read_picture(str(tmp_path / name))
        np.testing.assert_allclose(halves(image), (LEFT, RIGHT), atol=10)


def test_grey_and_black_and_white(tmp_path: Path) -> None:
    Image.new("L", (10, 10), 77).save(tmp_path / "grey.jpg")
    Image.new("1", (10, 10), 1).save(tmp_path / "white.png")
    assert read_picture(str(tmp_path / "grey.jpg")).getpixel((5, 5)) == (77, 77, 77)
    assert read_picture(str(tmp_path / "white.png")).getpixel((5, 5)) == (255, 255, 255)


def test_a_palette_is_looked_up(tmp_path: Path) -> None:
    two_halves().quantize(8).save(tmp_path / "palette.png")
    with Image.open(tmp_path / "palette.png") as stored:
        assert stored.mode == "P"
    np.testing.assert_allclose(
        halves(read_picture(str(tmp_path / "palette.png"))), (LEFT, RIGHT), atol=3
    )


def test_transparency_shows_white(tmp_path: Path) -> None:
    half = Image.new("RGBA", (8, 8), (100, 0, 0, 128))
    half.save(tmp_path / "half.png")
    # 128/255 of the colour and the rest of white
    assert read_picture(str(tmp_path / "half.png")).getpixel((4, 4)) == (177, 127, 127)
    grey = Image.new("LA", (8, 8), (40, 0))
    grey.save(tmp_path / "grey.png")
    assert read_picture(str(tmp_path / "grey.png")).getpixel((4, 4)) == (255, 255, 255)
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((0, 0), 1)
    palette.save(tmp_path / "hole.gif", transparency=0)
    hole = read_picture(str(tmp_path / "hole.gif"))
    assert (hole.getpixel((0, 0)), hole.getpixel((4, 4))) == ((40, 50, 60), (255, 255, 255))


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "red.jpg", quality=95)
    with Image.open(tmp_path / "red.jpg") as stored:
        assert stored.mode == "CMYK"
    red, green, blue = read_picture(str(tmp_path / "red.jpg")).getpixel((8, 8))
    assert red > 245
    assert max(green, blue) < 10


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_keep_their_upper_half(tmp_path: Path, suffix: str) -> None:
    values = np.array([[0, 257 * 10, 257 * 128, 65535]], dtype=np.uint16).repeat(4, axis=0)
    Image.fromarray(values).save(tmp_path / f"deep.{suffix}")
    found = np.asarray(read_picture(str(tmp_path / f"deep.{suffix}")))
    assert found[0, :, 0].tolist() == [0, 10, 128, 255]


def test_floats_go_from_zero_to_one(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0.0, 0.5, 1.0, 7.0]], dtype=np.float32)).save(tmp_path / "f.tiff")
    found = np.asarray(read_picture(str(tmp_path / "f.tiff")))
    assert found[0, :, 0].tolist() == [0, 128, 255, 255]


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_camera_gives_an_upright_picture(
    tmp_path: Path, suffix: str, orientation: int
) -> None:
    upright = two_halves(64, 40)
    stored = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,  # to be turned clockwise to stand
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    turned = upright.transpose(stored[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"photo.{suffix}"
    turned.save(path, exif=exif, **({"quality": 95} if suffix in ("jpg", "webp") else {}))
    image = read_picture(str(path))
    assert image.size == (64, 40)
    np.testing.assert_allclose(halves(image), (LEFT, RIGHT), atol=10)
    tile = Image.fromarray(read_tile(str(path), 24))
    np.testing.assert_allclose(halves(tile), (LEFT, RIGHT), atol=10)


def test_a_tile_is_the_middle_square(tmp_path: Path) -> None:
    wide = Image.new("RGB", (300, 100), (0, 0, 0))
    wide.paste((250, 250, 250), (100, 0, 200, 100))
    for name in ("wide.png", "wide.jpg"):
        wide.save(tmp_path / name)
        assert read_tile(str(tmp_path / name), 20).min() > 200
        assert read_tile(str(tmp_path / name), 150).min() > 180, "smaller images are enlarged"


def test_a_large_jpeg_looks_the_same_however_it_is_decoded(tmp_path: Path) -> None:
    """Decoding at a fraction of the size is a shortcut and must not show."""
    generator = np.random.default_rng(0)
    rough = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    rough.resize((1024, 768), Image.Resampling.BICUBIC).save(tmp_path / "large.jpg", quality=95)
    tile = read_tile(str(tmp_path / "large.jpg"), 64).astype(int)
    whole = read_picture(str(tmp_path / "large.jpg")).crop((128, 0, 896, 768))
    expected = np.asarray(whole.resize((64, 64), Image.Resampling.BOX)).astype(int)
    assert np.abs(tile - expected).mean() < 3


# --- faults --------------------------------------------------------------------------------------


def png_of(width: int, height: int) -> bytes:
    """A small PNG file that claims to be large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def saved(format_name: str) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, format_name)
    return file.getvalue()


FAULTS = {
    "empty.jpg": (b"", "empty"),
    "text.jpg": (b"these are not the pixels you are looking for", "not an image"),
    "bomb.png": (png_of(60_000, 60_000), "decompression bomb"),
    "short.png": (png_of(64, 64), "damaged"),
    "vector.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    **{f"cut.{name}": (saved(name)[:-400], "") for name in ("jpeg", "png", "webp", "bmp", "tiff")},
    "head.gif": (saved("gif")[:200], ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_file_has_a_reason(tmp_path: Path, name: str) -> None:
    content, reason = FAULTS[name]
    (tmp_path / name).write_bytes(content)
    for read in (lambda path: read_tile(path, 32), read_picture):
        with pytest.raises(UnreadableImageError, match=reason or "."):
            read(str(tmp_path / name))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "no.jpg", "does not exist"), (tmp_path, "folder")):
        with pytest.raises(UnreadableImageError, match=reason):
            read_tile(str(path), 8)


def stored(mode: str, side: int, path: Path) -> Path:
    """A large picture of nothing in a small file."""
    kinds = {"I;16": np.uint16, "I": np.int32, "F": np.float32}
    if mode in kinds:
        picture = Image.fromarray(np.zeros((side, side), dtype=kinds[mode]))
    else:
        picture = Image.new(mode, (side, side))
    tiff = mode in ("I", "F", "CMYK")
    path = path / ("large.tiff" if tiff else "large.png")
    picture.save(path, compression="tiff_deflate") if tiff else picture.save(path)
    return path


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that a process of its own takes for some work at most, beside what it had."""
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            found = int(answer.read() or -1)
        os.waitpid(child, 0)
        assert found >= 0, "it failed"
        return found
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        before = memory()
        work()
        os.write(writing, str(memory("VmHWM") - before).encode())
    finally:
        os._exit(0)


def memory(name: str = "VmRSS") -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


LARGE_MODES = ["I;16", "F", "RGBA", "I", "LA", "CMYK", "P", "L", "1", "RGB"]
SLOW_MODES = [pytest.param(mode, marks=pytest.mark.slow) for mode in LARGE_MODES[2:]]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells peaks")
@pytest.mark.parametrize("mode", LARGE_MODES[:2] + SLOW_MODES)
def test_a_large_picture_takes_four_bytes_a_pixel_whatever_its_mode(
    mode: str, tmp_path: Path
) -> None:
    side = 5000 if mode in LARGE_MODES[:2] else 9000
    path = str(stored(mode, side, tmp_path))
    allowed = 4 * side**2 + 2**28
    assert peak_of(lambda: read_tile(path, 32)) < allowed
    assert peak_of(lambda: read_picture(path)) < allowed


@pytest.mark.parametrize("mode", ["I;16", "F", "RGBA", "LA", "CMYK", "L"])
def test_a_large_picture_looks_as_a_small_one_does(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slope = np.linspace(0, 1, 200)[:, None] * np.linspace(0.2, 1, 240)
    grey = Image.fromarray((255 * slope).astype(np.uint8))
    alpha = grey.transpose(Image.Transpose.ROTATE_180)
    pictures = {
        "I;16": Image.fromarray((65535 * slope).astype(np.uint16)),
        "F": Image.fromarray(slope.astype(np.float32)),
        "L": grey,
        "LA": Image.merge("LA", (grey, alpha)),
        "RGBA": Image.merge("RGBA", (grey, alpha, grey, alpha)),
        "CMYK": Image.merge("CMYK", (grey, alpha, grey, alpha)),
    }
    path = tmp_path / ("p.tiff" if mode in ("F", "CMYK") else "p.png")
    pictures[mode].save(path)
    tile, whole = read_tile(str(path), 16), np.asarray(read_picture(str(path)))
    monkeypatch.setattr("josrc.data.decode.MANY_PIXELS", 1000)
    monkeypatch.setattr("josrc.data.decode.BAND", 2000)
    np.testing.assert_allclose(read_tile(str(path), 16).astype(int), tile.astype(int), atol=10)
    assert np.array_equal(np.asarray(read_picture(str(path))), whole), "all pixels, in bands"
    monkeypatch.setattr("josrc.data.decode.HUGE", 1000)
    halved = np.asarray(read_picture(str(path)))
    assert halved.shape == ((200, 240, 3) if mode in ("I;16", "L") else (100, 120, 3))


def test_a_tiff_of_one_huge_strip_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "strip.tiff"
    picture = Image.fromarray(np.zeros((200, 200), dtype=np.float32))
    picture.save(path, compression="tiff_deflate", tiffinfo={278: 200}, strip_size=2**20)
    assert read_picture(str(path)).size == (200, 200)
    monkeypatch.setattr("josrc.data.decode.LARGEST_STRIP", 100_000)
    with pytest.raises(UnreadableImageError, match="its strips are too large"):
        read_picture(str(path))

"""From a file to pixels: whatever a picture is stored as, it comes out upright, RGB and 8 bit."""

from __future__ import annotations

import errno
import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

# What is opened, and nothing else: some of Pillow's other formats start programs (EPS).
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "TIFF", "GIF")
# Transparent pixels show this: what most programs that show pictures put behind them.
BACKGROUND = (255, 255, 255)
# Grey values of 16 bits are divided by this, floats (from 0 to 1) are multiplied by that.
SIXTEEN_BIT_BY, FLOATS_TIMES = 257, 255
ORIENTATION = 0x0112  # the EXIF tag
ROWS_PER_STRIP = 278  # the TIFF tag
# Beside the pixels as Pillow holds them, 4 bytes each at most, decoding takes no more than 256 MiB.
# From so many pixels on a picture is converted in bands of so many, and made smaller on the way.
MANY_PIXELS, BAND = 2**24, 2**20
# Of so many there is no room for a second copy: even whole pictures come out at half their size.
HUGE = 2**26
# Bytes of a compressed strip of a TIFF, which is decoded at once.
LARGEST_STRIP = 2**27
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# What Pillow holds of a pixel, where it is not four bytes.
BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
# A picture as it is stored: where it lies, or its bytes.
Content = str | bytes


class UnreadableImageError(Exception):
    """A file that gives no picture; its text is the reason."""


def read_tile(content: Content, size: int) -> NDArray[np.uint8]:
    """The middle square of a picture, resized once to ``(size, size, 3)``.

    A JPEG is decoded at the smallest of libjpeg's scales (1, 1/2, 1/4, 1/8) that still holds the
    tile: that is where most of the time of training on files goes.
    """
    return np.asarray(_read(content, size))


def read_squares(
    content: Content, size: int, places: NDArray[np.float32]
) -> list[NDArray[np.uint8]]:
    """Squares of a picture, as large as it allows, each resized to ``(size, size, 3)``.

    Args:
        content: the picture as it is stored.
        size: of a tile.
        places: how far down and how far across each lies, from 0 to 1, ``(squares, 2)``; a square
            takes up all of the short side, and there is one way along the long one.
    """
    with _decoded(content, size) as (picture, turn):
        upright = _turned(picture, turn)
        return [np.asarray(_square(upright, size, *map(float, place))) for place in places]


def read_tile_and_thumbnail(
    content: Content, size: int, small: int
) -> tuple[NDArray[np.uint8], Image.Image]:
    """The tile of a picture, and the whole of it squeezed into ``(small, small)`` pixels."""
    with _decoded(content, size) as (picture, turn):
        tile = _turned(_middle(picture, size), turn)
        whole = picture.resize((small, small), Image.Resampling.BILINEAR, reducing_gap=2.0)
        return np.asarray(tile), _turned(whole, turn)


def read_picture(content: Content, least: int | None = None) -> Image.Image:
    """A whole picture, upright and in RGB.

    Args:
        content: the picture as it is stored.
        least: a JPEG may be decoded at a smaller scale that still has so many pixels a side.
    """
    return _read(content, None, least)


def to_tile(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """The same of a picture that is in memory."""
    return np.asarray(_middle(to_rgb(image), size))


def picture_size(content: Content) -> tuple[int, int]:
    """Width and height of a picture as its header says; nothing is decoded."""
    try:
        with warnings.catch_warnings(action="ignore"), _open(content) as image:
            return image.size
    except Exception as error:
        raise UnreadableImageError(_reason(error, content)) from None


def image_suffix(content: bytes) -> str:
    """How the name of a file with these bytes ends; empty where they are no picture."""
    try:
        with warnings.catch_warnings(action="ignore"), _open(content) as image:
            return f".{(image.format or '').lower()}".replace(".jpeg", ".jpg")
    except Exception:  # decoders raise errors of every kind on damaged files
        return ""


def _read(content: Content, tile: int | None, least: int | None = None) -> Image.Image:
    with _decoded(content, least or tile) as (picture, turn):
        if tile is not None:
            return _turned(_middle(picture, tile), turn)
        if turn is not None and _pixels(picture) > HUGE:
            picture = picture.reduce(2)
        return _turned(picture, turn)


@contextmanager
def _decoded(
    content: Content, least: int | None
) -> Iterator[tuple[Image.Image, Image.Transpose | None]]:
    """A picture in RGB as it lies in its file, and the turn that puts it upright."""
    try:
        with warnings.catch_warnings(action="ignore"), _open(content) as image:
            if least is not None:
                image.draft(None, (least, least))
            _check_strips(image)
            image.load()
            # Asked for only now: Pillow turns a TIFF itself and then forgets that it lay.
            turn = UPRIGHT.get(image.getexif().get(ORIENTATION, 1))
            yield _light(image, least), turn
    except Exception as error:  # decoders raise errors of every kind on damaged files
        raise UnreadableImageError(_reason(error, content)) from None


def _turned(picture: Image.Image, turn: Image.Transpose | None) -> Image.Image:
    return picture if turn is None else picture.transpose(turn)


def _open(content: Content) -> Image.Image:
    # Pillow itself refuses decompression bombs here: 179 million pixels and more.
    if isinstance(content, bytes):
        return Image.open(io.BytesIO(content), formats=FORMATS)
    # A pipe without a writer would block for ever, and a device might never end.
    if not stat.S_ISREG(os.stat(content).st_mode):  # noqa: PTH116, a million of them
        raise OSError("not a regular file")
    return Image.open(content, formats=FORMATS)


def _check_strips(image: Image.Image) -> None:
    """Raise an error on a TIFF that unpacks to hundreds of megabytes before it gives a pixel."""
    tags = getattr(image, "tag_v2", None)
    if tags is None or image.info.get("compression") == "raw" or ROWS_PER_STRIP not in tags:
        return
    width, height = image.size
    if min(height, int(tags[ROWS_PER_STRIP])) * width * BYTES.get(image.mode, 4) > LARGEST_STRIP:
        raise OSError("its strips are too large to be unpacked")


def _pixels(image: Image.Image) -> int:
    return image.size[0] * image.size[1]


def _light(image: Image.Image, least: int | None) -> Image.Image:
    """A picture in RGB; a large one in any other mode in bands, and smaller where that will do.

    Args:
        image: the picture.
        least: how many pixels a side matter; none: all of them.
    """
    plain = image.mode == "RGB" and "transparency" not in image.info
    if plain or _pixels(image) <= MANY_PIXELS:
        return to_rgb(image)
    factor = max(1, min(image.size) // (2 * least)) if least else 1
    if _pixels(image) > HUGE and BYTES.get(image.mode, 4) == 4:
        factor = max(2, factor)
    width, height = image.size
    small = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    rows = factor * max(1, BAND // (width * factor))
    for top in range(0, height, rows):
        band = to_rgb(image.crop((0, top, width, min(top + rows, height))))
        small.paste(band if factor == 1 else band.reduce(factor), (0, top // factor))
    return small


def to_rgb(image: Image.Image) -> Image.Image:
    """A picture of any mode as 8-bit RGB; transparency shows ``BACKGROUND``."""
    if image.mode.startswith("I") or image.mode == "F":
        image = _to_grey(image)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        behind = Image.new("RGBA", image.size, (*BACKGROUND, 255))
        image = Image.alpha_composite(behind, image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _to_grey(image: Image.Image) -> Image.Image:
    """Integers of 16 bits (Pillow reads 32 for some) by their upper half, floats from [0, 1]."""
    values = np.asarray(image)
    found = np.empty(values.shape, dtype=np.uint8)
    rows = max(1, BAND // max(1, values.shape[1]))
    for top in range(0, len(values), rows):
        band = values[top : top + rows].astype(np.float64)
        grey = band * FLOATS_TIMES if image.mode == "F" else band / SIXTEEN_BIT_BY
        found[top : top + rows] = np.round(np.nan_to_num(grey).clip(0, 255))
    return Image.fromarray(found)


def _middle(image: Image.Image, tile: int) -> Image.Image:
    """The largest square in the middle, resized."""
    return _square(image, tile, 0.5, 0.5)


def _square(image: Image.Image, tile: int, down: float, across: float) -> Image.Image:
    """The largest square at a place, resized; crop and resize are one operation of Pillow."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) * across, (height - side) * down
    box = (left, top, left + side, top + side)
    return image.resize((tile, tile), Image.Resampling.BILINEAR, box=box, reducing_gap=2.0)


def _reason(error: Exception, content: Content) -> str:
    if isinstance(content, str):
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return "a part of its path is too long for a file name"
        if not os.path.exists(content):  # noqa: PTH110  (a Path raises on names that no file has)
            return "the file does not exist"
        path = Path(content)
        if path.is_dir():
            return "it is a folder"
        if not path.is_file():
            return "not a regular file: a pipe, a socket or a device"
    if _size(content) == 0:
        return "the file is empty"
    if isinstance(error, UnidentifiedImageError):
        return "not an image in a known format"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels: it could be a decompression bomb"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return f"damaged: {error or type(error).__name__}".splitlines()[0]


def _size(content: Any) -> int:
    return len(content) if isinstance(content, bytes) else Path(content).stat().st_size

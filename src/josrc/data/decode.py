"""From a file to pixels: whatever a picture is stored as, it comes out upright, RGB and 8 bit."""

from __future__ import annotations

import io
import os
import stat
import warnings
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
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
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


def _read(content: Content, tile: int | None, least: int | None = None) -> Image.Image:
    least = least or tile
    try:
        with warnings.catch_warnings(action="ignore"), _open(content) as image:
            if least is not None:
                image.draft(None, (least, least))
            image.load()
            # Asked for only now: Pillow turns a TIFF itself and then forgets that it lay.
            turn = UPRIGHT.get(image.getexif().get(ORIENTATION, 1))
            picture = to_rgb(image)
            if tile is not None:
                picture = _middle(picture, tile)
            return picture.transpose(turn) if turn is not None else picture
    except Exception as error:  # decoders raise errors of every kind on damaged files
        raise UnreadableImageError(_reason(error, content)) from None


def _open(content: Content) -> Image.Image:
    # Pillow itself refuses decompression bombs here: 179 million pixels and more.
    if isinstance(content, bytes):
        return Image.open(io.BytesIO(content), formats=FORMATS)
    # A pipe without a writer would block for ever, and a device might never end.
    if not stat.S_ISREG(os.stat(content).st_mode):  # noqa: PTH116, a million of them
        raise OSError("not a regular file")
    return Image.open(content, formats=FORMATS)


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
    values = np.asarray(image, dtype=np.float64)
    grey = values * FLOATS_TIMES if image.mode == "F" else values / SIXTEEN_BIT_BY
    return Image.fromarray(np.round(np.nan_to_num(grey).clip(0, 255)).astype(np.uint8))


def _middle(image: Image.Image, tile: int) -> Image.Image:
    """The largest square in the middle, resized; crop and resize are one operation of Pillow."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    return image.resize((tile, tile), Image.Resampling.BILINEAR, box=box, reducing_gap=2.0)


def _reason(error: Exception, content: Content) -> str:
    if isinstance(content, str):
        path = Path(content)
        if not path.exists():
            return "the file does not exist"
        if path.is_dir():
            return "it is a folder"
        if not path.is_file():
            return "not a regular file: a pipe, a socket or a device"
    if _size(content) == 0:
        return "the file is empty"
    if isinstance(error, UnidentifiedImageError):
        return "not an image of a known format"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels: it could be a decompression bomb"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return f"damaged: {error or type(error).__name__}".splitlines()[0]


def _size(content: Any) -> int:
    return len(content) if isinstance(content, bytes) else Path(content).stat().st_size

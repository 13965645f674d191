"""Small pictures for a page that carries all of its pictures inside."""

from __future__ import annotations

import io

from PIL import Image

# Pictures up to this size are kept pixel by pixel, and a page enlarges them without smoothing.
MAX_PIXELATED_SIDE = 48
# Longest side and quality, best first. A picture takes the first that its share allows.
LADDER = ((128, 75), (128, 55), (128, 40), (112, 35), (96, 30), (80, 25), (64, 20), (48, 10))
MAX_SIDE = LADDER[0][0]


def is_small(picture: Image.Image) -> bool:
    """Whether a picture is to be shown pixel by pixel."""
    return max(picture.size) <= MAX_PIXELATED_SIDE


def thumbnail(picture: Image.Image, share: float) -> bytes | None:
    """A picture as WebP of at most ``share`` bytes; none where nothing is that small."""
    if is_small(picture):
        content = encode_webp(picture, lossless=True, quality=50, method=0)
        if len(content) <= share:
            return content
    for side, quality in LADDER:
        smaller = picture.copy()
        smaller.thumbnail((side, side), Image.Resampling.BILINEAR, reducing_gap=2.0)
        content = encode_webp(smaller, quality=quality, method=2)
        if len(content) <= share:
            return content
    return None


def encode_webp(picture: Image.Image, **options: object) -> bytes:
    """A picture as WebP; the options are Pillow's."""
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", **options)
    return buffer.getvalue()

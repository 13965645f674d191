"""Pictures of a run's samples: small ones kept on disk, large ones made when they are asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from josrc._io import atomic_write
from josrc._reading import regular
from josrc.verdicts.report.thumbnails import encode_webp

THUMBNAIL_SIDE, LARGE_SIDE = 320, 1600
# Up to this size each pixel counts: nothing is lost in compression.
MAX_PIXELATED_SIDE = 128
IMAGES_PER_FOLDER = 1000


class ReviewImages:
    """Pictures by row, in the order of ``verdicts.csv``: training samples, then held-out ones."""

    def __init__(self, count: int, find: Callable[[int], Image.Image], cache: Path) -> None:
        self.count, self.find, self.cache = count, find, cache
        self.locks = [threading.Lock() for _ in range(64)]

    def __len__(self) -> int:
        return self.count

    def thumbnail(self, row: int) -> bytes:
        """A small picture as WebP, from the cache where it is there."""
        path = self.cache / f"{row // IMAGES_PER_FOLDER}" / f"{row}.webp"
        with self.locks[row % len(self.locks)]:
            if path.is_file() and (
                content := regular(path).read_bytes()
            ):  # a power cut may empty a file
                return content
            content = _encode(self.find(row), THUMBNAIL_SIDE)
            try:
                with atomic_write(path, lasting=False) as partial:
                    partial.write_bytes(content)
            except OSError:
                pass  # a full disk or a folder that is read-only: the next time costs as much again
            return content

    def large(self, row: int) -> bytes:
        """A picture to look at closely, as WebP."""
        return _encode(self.find(row), LARGE_SIDE)


def _encode(picture: Image.Image, side: int) -> bytes:
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    exact = max(picture.size) <= MAX_PIXELATED_SIDE
    return encode_webp(picture, lossless=exact, quality=85, method=2)

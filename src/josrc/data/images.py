"""Images of samples, in memory or in files: one protocol for both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from josrc.data.decode import Content
from josrc.data.packed_strings import Index

Pixels = NDArray[np.uint8]


class Images(Protocol):
    """Like an array ``(N, height, width, channels)``, wherever its pixels are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array that they are, or would be."""

    @property
    def has_paths(self) -> bool:
        """Whether each has a path that a manifest can name."""

    @property
    def has_files(self) -> bool:
        """Whether each is a file of this machine, which a link can lead to."""

    @property
    def in_memory(self) -> bool:
        """Whether their pixels are there; else each is decoded when its turn comes."""

    def __len__(self) -> int:
        """How many there are."""

    def take(self, index: Index) -> Self:
        """Some of them, in another order if need be."""

    def tiles(self, index: Index) -> Pixels:
        """The pixels of some, ``(len(index), height, width, channels)``."""

    def location(self, index: int) -> str:
        """Where an image lies; empty if it lies nowhere."""

    def file_name(self, index: int) -> str:
        """What its file is called; empty if it lies nowhere."""

    def content(self, index: int) -> Content:
        """An image as it is stored: where it lies, or its bytes; none of those in memory alone."""

    def stored_size(self, index: int) -> tuple[int, int]:
        """Width and height of an image as it is stored."""

    def picture(self, index: int, least: int | None = None) -> Image.Image:
        """An image as a person looks at it: whole, upright, RGB.

        Args:
            index: which.
            least: a JPEG may be decoded at a smaller scale that still has that many pixels per
                side.
        """


@dataclass(frozen=True)
class ArrayImages:
    """Images in memory.

    Attributes:
        pixels: ``(N, height, width, channels)``.
        files: where they were decoded from; none if they lie in no files.
    """

    pixels: Pixels
    files: Images | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return self.pixels.shape

    @property
    def has_paths(self) -> bool:
        """Whether they came from files that have a path each."""
        return self.files is not None and self.files.has_paths

    @property
    def has_files(self) -> bool:
        """Whether they came from files of this machine."""
        return self.files is not None and self.files.has_files

    @property
    def in_memory(self) -> bool:
        """They are."""
        return True

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, index: Index) -> ArrayImages:
        """Some of them."""
        files = None if self.files is None else self.files.take(index)
        return replace(self, pixels=self.pixels[index], files=files)

    def tiles(self, index: Index) -> Pixels:
        """The pixels of some."""
        return self.pixels[index]

    def location(self, index: int) -> str:
        """Where an image was decoded from."""
        return "" if self.files is None else self.files.location(index)

    def file_name(self, index: int) -> str:
        """What the file is called that an image was decoded from."""
        return "" if self.files is None else self.files.file_name(index)

    def content(self, index: int) -> Content:
        """What an image was decoded from."""
        return b"" if self.files is None else self.files.content(index)

    def stored_size(self, index: int) -> tuple[int, int]:
        """Width and height of its file, or of itself."""
        if self.files is not None:
            return self.files.stored_size(index)
        return self.pixels.shape[2], self.pixels.shape[1]

    def picture(self, index: int, least: int | None = None) -> Image.Image:
        """The image in its file, which may be larger, or its pixels."""
        if self.files is not None:
            return self.files.picture(index, least)
        return Image.fromarray(self.pixels[index].squeeze()).convert("RGB")


@dataclass(frozen=True)
class ImageSpec:
    """What a network sees of images; it is kept with the network's weights.

    Attributes:
        tile: height, width and channels of an image as it is decoded.
        mean: channel means for normalisation, in [0, 1].
        std: channel standard deviations.
        crop: height and width of what a network sees of a tile; none: all of it.
    """

    tile: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: int | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of what a network sees."""
        return (self.crop, self.crop) if self.crop else (self.tile[0], self.tile[1])

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for those in colour."""
        return self.tile[2]

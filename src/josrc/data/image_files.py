"""Images in files: where each is, and how it is decoded when its turn comes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from josrc._io import is_url, located
from josrc.data.decode import Content, picture_size, read_picture, read_tile
from josrc.data.packed_strings import Index, PackedStrings
from josrc.data.remote import fetch_image


@dataclass(frozen=True)
class ImageFiles:
    """Images in files. Like an array ``(N, tile, tile, 3)`` of which nothing is in memory.

    Attributes:
        names: paths relative to ``root``; absolute ones and addresses stay as they are.
        root: where they begin, a folder or an address.
        tile: height and width that an image is decoded to; 0 until the network is known.
    """

    names: PackedStrings
    root: Path | str
    tile: int = 0

    @property
    def has_paths(self) -> bool:
        """Each lies in a file of its own."""
        return True

    @property
    def is_remote(self) -> bool:
        """Whether some lie behind addresses."""
        return is_url(str(self.root)) or b"://" in self.names.block

    @property
    def has_files(self) -> bool:
        """Whether each is a file of this machine."""
        return not self.is_remote

    @property
    def in_memory(self) -> bool:
        """They are decoded when their turn comes."""
        return False

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the array that all tiles would be."""
        return len(self), self.tile, self.tile, 3

    def tiles(self, index: Index) -> NDArray[np.uint8]:
        """Decode some of the images."""
        return np.stack([read_tile(self.content(int(place)), self.tile) for place in index])

    def location(self, index: int) -> str:
        """Where an image lies."""
        return located(self.root, self.names[index])

    def content(self, index: int) -> Content:
        """An image as it is stored: where it lies, or its bytes."""
        place = self.location(index)
        return fetch_image(place) if is_url(place) else place

    def file_name(self, index: int) -> str:
        """What its file is called."""
        return Path(self.location(index)).name

    def stored_size(self, index: int) -> tuple[int, int]:
        """Width and height, of which the header of its file tells."""
        return picture_size(self.content(index))

    def picture(self, index: int, least: int | None = None) -> Image.Image:
        """A whole image, upright and in RGB; a JPEG of at least so many pixels a side."""
        return read_picture(self.content(index), least)

    def take(self, index: Index) -> ImageFiles:
        """Some of the images."""
        return replace(self, names=self.names.take(index))

    def renamed(self, names: PackedStrings, found: Index) -> ImageFiles:
        """Images by other names, each where one of these is; -1: it is not there."""
        return replace(self, names=names)

    def missing(self) -> Index:
        """Those that are not there; behind addresses nobody looks until they are read."""
        places = map(self.location, range(len(self)))
        gone = [i for i, p in enumerate(places) if not (is_url(p) or os.path.exists(p))]  # noqa: PTH110
        return np.array(gone, dtype=np.int64)

    def with_tile(self, tile: int) -> ImageFiles:
        """The same images, decoded to another size."""
        return replace(self, tile=tile)


@dataclass(frozen=True)
class HubImages(ImageFiles):
    """Images inside a Hugging Face data set; their names are its split and their row there.

    Attributes:
        rows: the data set, its image column not decoded.
        column: that column.
        index: which rows.
    """

    rows: Any = None
    column: str = "image"
    index: Index | None = None

    @property
    def has_paths(self) -> bool:
        """They lie inside of the data set's own files."""
        return False

    @property
    def has_files(self) -> bool:
        """Likewise."""
        return False

    def location(self, index: int) -> str:
        """The split and the row there: the file it came from may be anybody's."""
        return self.names[index]

    def content(self, index: int) -> Content:
        """The bytes in the row, or the file it names."""
        cell = self._cell(index)
        return cell.get("bytes") or str(cell.get("path") or "")

    def take(self, index: Index) -> HubImages:
        """Some of the images."""
        assert self.index is not None
        return replace(self, names=self.names.take(index), index=self.index[index])

    def _cell(self, index: int) -> dict[str, Any]:
        assert self.index is not None
        return self.rows[int(self.index[index])][self.column] or {}

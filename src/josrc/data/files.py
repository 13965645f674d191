"""A person's own images: where each is, and how it is decoded when its turn comes.

A million of them must cost little memory and nothing when worker processes are forked, so paths
are kept as one block of bytes, and not as a million Python objects.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from josrc.data.decode import Content, read_picture, read_tile

Index = NDArray[np.int64]


class Lookup(Sequence[str]):
    """Strings that are made when they are asked for."""

    def __init__(self, length: int, find: Callable[[int], str]) -> None:
        self.length, self.find = length, find

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self.find(index) for index in range(*place.indices(self.length))]
        if not -self.length <= place < self.length:
            raise IndexError(place)
        return self.find(int(place) % self.length)


class Strings(Lookup):
    """Many strings as one block of UTF-8 and the places where each ends."""

    def __init__(self, block: bytes, ends: Index) -> None:
        super().__init__(len(ends), self._find)
        self.block, self.ends = block, ends

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """From any strings, one after the other."""
        block, ends = bytearray(), array("q")
        for string in strings:
            block += string.encode("utf-8", "surrogateescape")
            ends.append(len(block))
        return cls(bytes(block), np.array(ends, dtype=np.int64))

    def _raw(self, index: int) -> bytes:
        return self.block[self.ends[index - 1] if index else 0 : self.ends[index]]

    def _find(self, index: int) -> str:
        return self._raw(index).decode("utf-8", "surrogateescape")

    def take(self, index: Index) -> Strings:
        """Some of them, in the order of ``index``."""
        if len(index) and index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all():
            start = int(self.ends[index[0] - 1]) if index[0] else 0
            ends = self.ends[index[0] : index[-1] + 1]
            return Strings(self.block[start : ends[-1]], ends - start)
        block, places = bytearray(), array("q")
        for place in index.tolist():
            block += self._raw(place)
            places.append(len(block))
        return Strings(bytes(block), np.array(places, dtype=np.int64))

    def digest(self) -> str:
        """A number that other strings, or these in another order, would hardly have."""
        return hashlib.sha256(self.ends.tobytes() + self.block).hexdigest()

    def hashes(self) -> Index:
        """A number for each, ``(N,)``; two that differ hardly have the same."""
        return np.fromiter((hash(self._raw(i)) for i in range(len(self))), np.int64, len(self))

    def found_in(self, others: Strings) -> Index:
        """The place of each among others, ``(N,)``; -1 for those that are not there."""
        mine, theirs = self.hashes(), others.hashes()
        if not len(theirs):
            return np.full(len(mine), -1)
        order = np.argsort(theirs, kind="stable")
        place = order[np.minimum(np.searchsorted(theirs[order], mine), len(order) - 1)]
        return np.where(theirs[place] == mine, place, -1)

    def duplicate(self) -> tuple[int, int] | None:
        """Places of two equal strings, if there are any."""
        hashes = self.hashes()
        order = np.argsort(hashes, kind="stable")
        for place in np.flatnonzero(np.diff(hashes[order]) == 0):
            first, second = int(order[place]), int(order[place + 1])
            if self._raw(first) == self._raw(second):
                return first, second
        return None


@dataclass(frozen=True)
class ImageFiles:
    """Images in files. Like an array ``(N, tile, tile, 3)`` of which nothing is in memory.

    Attributes:
        names: paths relative to ``root``; absolute ones stay as they are.
        root: where they begin.
        tile: height and width that an image is decoded to; 0 until the network is known.
    """

    names: Strings
    root: Path
    tile: int = 0

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the array that all tiles would be."""
        return len(self), self.tile, self.tile, 3

    def __getitem__(self, index: Index) -> NDArray[np.uint8]:
        """Tiles ``(len(index), tile, tile, 3)``."""
        return np.stack([read_tile(self.content(int(place)), self.tile) for place in index])

    def location(self, index: int) -> str:
        """Where an image lies."""
        return os.path.join(self.root, self.names[index])  # noqa: PTH118  (a Path costs 10 times)

    def content(self, index: int) -> Content:
        """An image as it is stored."""
        return self.location(index)

    def picture(self, index: int, least: int | None = None) -> Image.Image:
        """A whole image, upright and in RGB; a JPEG of at least so many pixels a side."""
        return read_picture(self.content(index), least)

    def take(self, index: Index) -> ImageFiles:
        """Some of the images."""
        return replace(self, names=self.names.take(index))

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

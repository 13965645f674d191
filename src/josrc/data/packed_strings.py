"""Many strings in little memory: one block of bytes, or made when they are asked for.

Paths and ids of a million images must cost little, and nothing when worker processes are forked,
so they are not a million Python objects.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from josrc._reading import check_array
from josrc.errors import UserError

Index = NDArray[np.int64]


def read_strings(path: Path, arrays: Mapping[str, NDArray[Any]], name: str) -> PackedStrings:
    """Strings of a file: a block of bytes, and beside it where each of them ends.

    Args:
        path: the file.
        arrays: what it holds.
        name: of the block; that of the ends follows from it.
    """
    check_array(path, arrays, name, "u")
    check_array(path, arrays, f"{name}_ends", "iu", low=0)
    block, ends = arrays[name], arrays[f"{name}_ends"].astype(np.int64)
    if block.dtype != np.uint8 or (np.diff(ends) < 0).any() or len(block) != ends[-1:].sum():
        raise UserError(
            f"{path} is damaged: {name} does not contain the strings that {name}_ends marks."
        )
    return PackedStrings(block.tobytes(), ends)


class LazyStrings(Sequence[str]):
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


class PackedStrings(LazyStrings):
    """Many strings as one block of UTF-8 and the places where each ends."""

    def __init__(self, block: bytes, ends: Index) -> None:
        super().__init__(len(ends), self._find)
        self.block, self.ends = block, ends

    @classmethod
    def of(cls, strings: Iterable[str]) -> PackedStrings:
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

    def take(self, index: Index) -> PackedStrings:
        """Some of them, in the order of ``index``."""
        if len(index) and index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all():
            start = int(self.ends[index[0] - 1]) if index[0] else 0
            ends = self.ends[index[0] : index[-1] + 1]
            return PackedStrings(self.block[start : ends[-1]], ends - start)
        block, places = bytearray(), array("q")
        for place in index.tolist():
            block += self._raw(place)
            places.append(len(block))
        return PackedStrings(bytes(block), np.array(places, dtype=np.int64))

    def digest(self) -> str:
        """A number that other strings, or these in another order, would hardly have."""
        return hashlib.sha256(self.ends.tobytes() + self.block).hexdigest()

    def hashes(self) -> Index:
        """A number for each, ``(N,)``; two that differ hardly have the same."""
        return np.fromiter((hash(self._raw(i)) for i in range(len(self))), np.int64, len(self))

    def found_in(self, others: PackedStrings) -> Index:
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

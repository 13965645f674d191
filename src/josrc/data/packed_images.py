"""Images inside of tar and parquet files: where each begins there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from josrc._console import clipped
from josrc._io import is_url, located, split_member
from josrc.data.decode import Content, UnreadableImageError, image_suffix
from josrc.data.image_files import ImageFiles
from josrc.data.packed_strings import Index, PackedStrings
from josrc.data.parquet_rows import open_parquet, read_row, row_names
from josrc.data.remote import LARGEST_IMAGE, fetch_image
from josrc.data.tars import Member, read_member, tar_members

# In place of where an image begins: it is not there, or it is no part of another file.
GONE, WHOLE = -1, -2


def _none() -> Index:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class PackedImages(ImageFiles):
    """Images of which some lie inside of other files; their names are ``FILE#NAME``.

    Attributes:
        start: where each begins, ``(N,)``: the byte in a tar, the row in a parquet file; or
            ``GONE``, or ``WHOLE``.
        size: bytes of each in a tar, ``(N,)``.
    """

    start: Index = field(default_factory=_none)
    size: Index = field(default_factory=_none)

    @property
    def has_files(self) -> bool:
        """Not all of them are files of their own."""
        return False

    def content(self, index: int) -> Content:
        """The bytes of an image, or where its file lies."""
        start, size = int(self.start[index]), int(self.size[index])
        if start == WHOLE:
            return super().content(index)
        file, member = split_member(self.location(index))
        if start == GONE:
            raise UnreadableImageError(f"{Path(file).name} does not contain {clipped(member)}")
        if file.lower().endswith(".parquet"):
            return read_row(file, start, member.rpartition("/")[0])
        if size > LARGEST_IMAGE:
            raise UnreadableImageError(f"larger than {LARGEST_IMAGE >> 20} MiB")
        if is_url(file):
            return fetch_image(file, start, start + size) if size else b""
        return read_member(file, start, size)

    def file_name(self, index: int) -> str:
        """What its file would be called; a row of a parquet file has no name."""
        file, member = split_member(self.location(index))
        if not file.lower().endswith(".parquet") or not member:
            return Path(member or file).name
        content = self.content(index)
        assert isinstance(content, bytes)
        return f"{Path(file).stem}-{member.rpartition('/')[2]}{image_suffix(content)}"

    def take(self, index: Index) -> PackedImages:
        """Some of the images."""
        names, start, size = self.names.take(index), self.start[index], self.size[index]
        return replace(self, names=names, start=start, size=size)

    def renamed(self, names: PackedStrings, found: Index) -> PackedImages:
        """Images by other names, each where one of these is; -1: it is not there."""
        start = np.where(found >= 0, self.start[found], GONE)
        return replace(self, names=names, start=start, size=self.size[found])

    def missing(self) -> Index:
        """Those that are not there."""
        gone = self.start == GONE
        for place in np.flatnonzero(self.start == WHOLE).tolist():
            path = self.location(place)
            gone[place] = not (is_url(path) or os.path.exists(path))  # noqa: PTH110
        return np.flatnonzero(gone)


def unpacked(images: ImageFiles) -> ImageFiles:
    """Images whose names may lead into other files: these are found there."""
    if b"#" not in images.names.block:
        return images
    wanted: dict[str, dict[str, list[int]]] = {}
    for place, name in enumerate(images.names):
        file, member = split_member(name)
        if member:
            wanted.setdefault(file, {}).setdefault(member, []).append(place)
    if not wanted:
        return images
    start = np.full(len(images), WHOLE, dtype=np.int64)
    size = np.zeros(len(images), dtype=np.int64)
    for file, members in wanted.items():
        for places in members.values():
            start[places] = GONE
        path = located(images.root, file)
        if not (is_url(path) or os.path.exists(path)):  # noqa: PTH110
            continue
        for member, begin, length in members_of(path):
            places = members.get(member, [])
            start[places], size[places] = begin, length
    return PackedImages(images.names, images.root, images.tile, start, size)


def members_of(path: str) -> Iterator[Member]:
    """What a tar or a parquet file holds: name, where it begins, and its size in bytes."""
    if path.lower().endswith(".parquet"):
        with open_parquet(path) as file:
            names = row_names(file.schema_arrow, file.metadata.num_rows)
            yield from (Member(name, row, 0) for name, row in names)
    else:
        yield from tar_members(path)[0]

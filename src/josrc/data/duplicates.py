"""Exact copies: which images are there more than once, and what they are called each time.

A file is known by a digest of its bytes, an image in memory by one of its pixels. That is 16 bytes
an image, made while it is read anyway; only those of copies are looked at any further.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from josrc.data.decode import Content, UnreadableImageError
from josrc.data.images import ArrayImages, Images
from josrc.data.noise import Labels
from josrc.data.packed_strings import Index, PackedStrings

# Bytes of a mark, and how it is made: among a million images two alike by chance are no worry.
SIZE = 16
digest = partial(hashlib.blake2b, digest_size=SIZE)
# A mark an image, ``(N, 2)``.
Marks = NDArray[np.uint64]
# What each part of the data is called, and what copies that training has seen too make of it.
PARTS = ("training", "held-out", "test")
TOO_GOOD = {"held-out": "agreement", "test": "test accuracy"}
# Pictures under different labels that are named one by one, and copies of each.
NAMED, FEW = 20, 6


def mark(content: Content) -> bytes:
    """What tells a file, or the bytes of one, from all others."""
    if isinstance(content, bytes):
        return digest(content).digest()
    try:
        with open(content, "rb") as file:  # noqa: PTH123  (a Path costs more, a million times)
            return hashlib.file_digest(file, digest).digest()
    except OSError as error:
        raise UnreadableImageError(f"it can't be read again: {error.strerror}") from None


def marks_of(content: bytes | bytearray) -> Marks:
    """Marks that stand one behind the other, ``(N, 2)``."""
    return np.frombuffer(content, dtype=np.uint64).reshape(-1, SIZE // 8)


@dataclass(frozen=True)
class Duplicates:
    """Images that are there more than once, those that are alike one after the other.

    Attributes:
        group: which of them are alike, ``(K,)``, rising.
        part: number in ``PARTS``, ``(K,)``.
        place: number of the image in its part, ``(K,)``.
        paths: where they lie; empty for images in memory.
    """

    group: Index
    part: Index
    place: Index
    paths: Sequence[str]

    def listed(
        self, labels: Sequence[Labels | None], names: Sequence[str], training: int
    ) -> Iterator[Duplicate]:
        """One by one: those with different labels first, then those that tests have too.

        Args:
            labels: of the images of each of ``PARTS``; none where there is no such part.
            names: of the classes.
            training: how many training images there are.
        """
        if not len(self.group):
            return
        label = np.empty(len(self.group), dtype=np.int64)
        for number, values in enumerate(labels):
            if values is not None:
                label[self.part == number] = values[self.place[self.part == number]]
        begins = np.flatnonzero(np.diff(self.group, prepend=-1))
        ends = np.append(begins[1:], len(label))
        several = np.minimum.reduceat(label, begins) < np.maximum.reduceat(label, begins)
        crossing = (self.part[begins] == 0) & (np.maximum.reduceat(self.part, begins) > 0)
        first = self.place[begins]
        for number, group in enumerate(np.lexsort((first, ~crossing, ~several)).tolist(), start=1):
            for index in range(begins[group], ends[group]):
                part, place = int(self.part[index]), int(self.place[index])
                row = place + training if PARTS[part] == "held-out" else place
                yield Duplicate(number, PARTS[part], row, self.paths[index], names[label[index]])


def find_duplicates(parts: Sequence[tuple[Images, Marks] | None]) -> Duplicates:
    """All copies among the images of the parts, and from one part to another.

    Args:
        parts: images and marks of each of ``PARTS``; none where there is no such part.
    """
    marks = np.concatenate([part[1] for part in parts if part is not None])
    part = np.repeat(np.arange(len(PARTS)), [0 if p is None else len(p[1]) for p in parts])
    place = np.concatenate([np.arange(len(p[1])) for p in parts if p is not None])
    order = np.lexsort(marks.T)  # stable: copies keep the order of the data
    same = np.zeros(len(marks) + 1, dtype=bool)  # as the one before it
    same[1:-1] = (marks[order[1:]] == marks[order[:-1]]).all(axis=1)
    copied = same[1:] | same[:-1]
    chosen, group = order[copied], np.cumsum(~same[:-1])[copied]

    def location(index: int) -> str:
        found = parts[part[index]]
        return "" if found is None else found[0].location(int(place[index]))

    paths = PackedStrings.of(map(location, chosen.tolist()))
    return Duplicates(group, part[chosen], place[chosen], paths)


def duplicates_in_memory(parts: Sequence[Images | None]) -> Duplicates:
    """All copies among images that are no files; ``parts`` as in ``PARTS``."""

    def marked(images: Images | None) -> tuple[Images, Marks] | None:
        if not isinstance(images, ArrayImages):
            return None
        found = (digest(pixels.data).digest() for pixels in images.pixels)
        return images, marks_of(b"".join(found))

    return find_duplicates([marked(images) for images in parts])


class Duplicate(NamedTuple):
    """An image that is there more than once.

    Attributes:
        group: number of the picture, from 1.
        part: one of ``PARTS``.
        row: its line in ``verdicts.csv``, from 0; of a test image its number among those.
        path: where it lies; empty for an image in memory.
        given_label: its label.
        verdict: on that label, once there is one.
    """

    group: int
    part: str
    row: int
    path: str
    given_label: str
    verdict: str = ""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.path or f"{self.part} image {self.row}"


@dataclass
class DuplicateTally:
    """Duplicates, counted.

    Attributes:
        pictures: that are there more than once.
        images: as so many images.
        conflicts: pictures with different labels.
        shared: pictures that training has too, by the part that should not.
        named: some copies of the first pictures with different labels, every label in its turn.
    """

    pictures: int = 0
    images: int = 0
    conflicts: int = 0
    shared: dict[str, int] = field(default_factory=dict)
    named: list[list[Duplicate]] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """What people should know."""
        if not self.pictures:
            return []
        pictures = "1 picture is" if self.pictures == 1 else f"{self.pictures:,} pictures are"
        found = [
            f"Exact copies: {pictures} there more than once, as {self.images:,} images; "
            f"under different labels: {self.conflicts:,}."
        ]
        for part, count in self.shared.items():
            found.append(
                f"Warning: {count:,} of them are both among the training and the {part} images, "
                f"which makes {TOO_GOOD[part]} look better than it is."
            )
        return found


def tally(copies: Iterable[Duplicate]) -> DuplicateTally:
    """Count copies as they come, group by group."""
    found = DuplicateTally()
    for _, members in groupby(copies, key=lambda copy: copy.group):
        group = list(members)
        found.pictures += 1
        found.images += len(group)
        parts = {copy.part for copy in group}
        for part in TOO_GOOD:
            if {PARTS[0], part} <= parts:
                found.shared[part] = found.shared.get(part, 0) + 1
        if len({copy.given_label for copy in group}) > 1:
            found.conflicts += 1
            if len(found.named) < NAMED:
                found.named.append(_varied(group)[:FEW])
    return found


def _varied(group: list[Duplicate]) -> list[Duplicate]:
    """Duplicates in an order in which labels take turns."""
    turns: Counter[str] = Counter()
    ranked = []
    for copy in group:
        turns[copy.given_label] += 1
        ranked.append((turns[copy.given_label], copy))
    return [copy for _, copy in sorted(ranked, key=lambda pair: pair[0])]

"""Duplicates: which images are there more than once, and what they are called each time.

A file is known by a digest of its bytes, an image in memory by one of its pixels. That is 16 bytes
an image, made while it is read anyway; only those of copies are looked at any further. A picture
that was saved again, resized or cropped is found by its sketch, 432 bytes per image: see ``near``.
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

from josrc._reading import regular
from josrc.data.decode import Content, UnreadableImageError
from josrc.data.images import ArrayImages, Images
from josrc.data.near.pairs import Pairs, find_near_pairs
from josrc.data.near.sketches import Sketches, sketches_of_pixels
from josrc.data.noise import Labels
from josrc.data.packed_strings import Index, PackedStrings

# Bytes of a mark, and how it is made: among a million images two alike by chance are no worry.
MARK_BYTES = 16
digest = partial(hashlib.blake2b, digest_size=MARK_BYTES)
# A mark an image, ``(N, 2)``.
Marks = NDArray[np.uint64]
# What each part of the data is called, and what copies that training has seen too make of it.
PARTS = ("training", "held-out", "test")
TOO_GOOD = {"held-out": "agreement", "test": "test accuracy"}
# Pictures that are named one by one, and copies of each.
MAX_LISTED_PICTURES, MAX_LISTED_COPIES = 20, 6
# How copies are alike: byte for byte, or to the eye.
EXACT, NEAR = "exact", "near"
NEAR_TITLE = "Near copies (saved again, resized, cropped, brightened or mirrored)"


def mark(content: Content) -> bytes:
    """What tells a file, or the bytes of one, from all others."""
    if isinstance(content, bytes):
        return digest(content).digest()
    try:
        with open(regular(content), "rb") as file:  # noqa: PTH123  (a Path costs more, a million times)
            return hashlib.file_digest(file, digest).digest()
    except OSError as error:
        raise UnreadableImageError(f"it can't be read again: {error.strerror}") from None


def marks_of(content: bytes | bytearray) -> Marks:
    """Marks that stand one behind the other, ``(N, 2)``."""
    return np.frombuffer(content, dtype=np.uint64).reshape(-1, MARK_BYTES // 8)


@dataclass(frozen=True)
class Duplicates:
    """Images that are there more than once, those that show the same one after the other.

    Attributes:
        group: which of them show the same, ``(K,)``, rising.
        part: number in ``PARTS``, ``(K,)``.
        place: number of the image in its part, ``(K,)``.
        paths: where they lie; empty for images in memory.
        similarity: to the most similar other one of the group, ``(K,)``; 1: an exact copy.
        pairs: what the groups were made of.
    """

    group: Index
    part: Index
    place: Index
    paths: Sequence[str]
    similarity: NDArray[np.float32]
    pairs: Pairs

    @classmethod
    def of(cls, parts: Sequence[Images | None], pairs: Pairs) -> Duplicates:
        """Groups of all images that pairs connect.

        Args:
            parts: images of each of ``PARTS``; none where there is no such part.
            pairs: of images, counted through all parts.
        """
        counts = np.array([0 if part is None else len(part) for part in parts], dtype=np.int64)
        numbers, ends = np.unique(np.concatenate((pairs.first, pairs.second)), return_inverse=True)
        one, two = np.split(ends, 2)
        similarity = np.zeros(len(numbers), dtype=np.float32)
        for end in (one, two):
            np.maximum.at(similarity, end, pairs.similarity)
        group = connected(one, two, len(numbers))
        order = np.lexsort((numbers, group))
        part = np.repeat(np.arange(len(counts)), counts)[numbers[order]]
        place = numbers[order] - (np.cumsum(counts) - counts)[part]

        def location(part: int, place: int) -> str:
            images = parts[part]
            return "" if images is None else images.location(place)

        paths = PackedStrings.of(map(location, part.tolist(), place.tolist()))
        return cls(group[order], part, place, paths, similarity[order], pairs)

    def add_pairs(self, parts: Sequence[Images | None], more: Pairs) -> Duplicates:
        """The same with more pairs; arguments as of ``of``."""
        known = self.pairs
        both = Pairs(
            np.concatenate((known.first, more.first)),
            np.concatenate((known.second, more.second)),
            np.concatenate((known.similarity, more.similarity)),
        )
        return self.of(parts, both)

    def list_copies(
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
                alike = round(float(self.similarity[index]), 3)
                yield Duplicate(
                    number, PARTS[part], row, self.paths[index], names[label[index]],
                    kind=EXACT if alike == 1 else NEAR, similarity=alike,
                )  # fmt: skip


def connected(one: Index, two: Index, count: int) -> Index:
    """Which of that many images are connected by pairs, ``(count,)``."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(one), dtype=bool), (one, two)), shape=(count, count))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)


def find_duplicates(
    parts: Sequence[tuple[Images, Marks] | None],
    sketches: Sequence[Sketches | None] | None = None,
) -> Duplicates:
    """All copies among the images of the parts, and from one part to another.

    Args:
        parts: images and marks of each of ``PARTS``; none where there is no such part.
        sketches: of the images of each part; none: near duplicates are not looked for.
    """
    marks = np.concatenate([part[1] for part in parts if part is not None])
    exact, single = _exact_pairs(marks)
    found = Duplicates.of([part and part[0] for part in parts], exact)
    if sketches is None:
        return found
    images = [part[0] for part in parts if part is not None]
    drawn = np.concatenate([some for some in sketches if some is not None])
    near = find_near_pairs(drawn, images, single)
    return found.add_pairs([part and part[0] for part in parts], near)


def _exact_pairs(marks: Marks) -> tuple[Pairs, Index]:
    """Images with the same mark, and one of each mark."""
    order = np.lexsort(marks.T)  # stable: copies keep the order of the data
    same = np.zeros(len(marks), dtype=bool)  # as the one before it
    same[1:] = (marks[order[1:]] == marks[order[:-1]]).all(axis=1)
    copy = np.flatnonzero(same)
    pairs = Pairs(order[copy - 1], order[copy], np.ones(len(copy), dtype=np.float32))
    return pairs, np.sort(order[~same])


def duplicates_in_memory(parts: Sequence[Images | None], near: bool = True) -> Duplicates:
    """All copies among images that are not files; ``parts`` as in ``PARTS``."""

    def marked(images: Images | None) -> tuple[Images, Marks] | None:
        if not isinstance(images, ArrayImages):
            return None
        found = (digest(pixels.data).digest() for pixels in images.pixels)
        return images, marks_of(b"".join(found))

    def sketched(images: Images | None) -> Sketches | None:
        return sketches_of_pixels(images.pixels) if isinstance(images, ArrayImages) else None

    sketches = [sketched(images) for images in parts] if near else None
    return find_duplicates([marked(images) for images in parts], sketches)


class Duplicate(NamedTuple):
    """An image that is there more than once.

    Attributes:
        group: number of the picture, from 1.
        part: one of ``PARTS``.
        row: its line in ``verdicts.csv``, from 0; of a test image its number among those.
        path: where it lies; empty for an image in memory.
        given_label: its label.
        verdict: on that label, once there is one.
        kind: ``EXACT`` if another one of the group is the same byte for byte, else ``NEAR``.
        similarity: to the most similar other one of the group, up to 1.
    """

    group: int
    part: str
    row: int
    path: str
    given_label: str
    verdict: str = ""
    kind: str = EXACT
    similarity: float = 1.0

    @property
    def name(self) -> str:
        """What to call it."""
        return self.path or f"{self.part} image {self.row}"


@dataclass
class KindTally:
    """Duplicates of one kind, counted: pictures, the images they are, and different labels."""

    pictures: int = 0
    images: int = 0
    conflicts: int = 0

    def sentence(self, title: str) -> list[str]:
        """How many there are, if any."""
        if not self.pictures:
            return []
        pictures = "1 picture is" if self.pictures == 1 else f"{self.pictures:,} pictures are"
        return [
            f"{title}: {pictures} there more than once, as {self.images:,} images; "
            f"under different labels: {self.conflicts:,}."
        ]


@dataclass
class DuplicateTally:
    """Duplicates, counted.

    Attributes:
        exact: pictures of which all copies are exact.
        near: the others.
        shared: pictures that training has too, by the part that should not.
        first: some copies of the first pictures, every label in its turn.
    """

    exact: KindTally = field(default_factory=KindTally)
    near: KindTally = field(default_factory=KindTally)
    shared: dict[str, int] = field(default_factory=dict)
    first: list[list[Duplicate]] = field(default_factory=list)

    @property
    def pictures(self) -> int:
        """Pictures that are there more than once."""
        return self.exact.pictures + self.near.pictures

    @property
    def conflicts(self) -> int:
        """Pictures with different labels."""
        return self.exact.conflicts + self.near.conflicts

    @property
    def named(self) -> list[list[Duplicate]]:
        """The first pictures with different labels."""
        return [group for group in self.first if have_different_labels(group)]

    def sentences(self) -> list[str]:
        """What people should know."""
        found = self.exact.sentence("Exact copies") + self.near.sentence(NEAR_TITLE)
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
        kind = found.near if any(copy.kind == NEAR for copy in group) else found.exact
        kind.pictures += 1
        kind.images += len(group)
        kind.conflicts += have_different_labels(group)
        for part in parts_shared(group):
            found.shared[part] = found.shared.get(part, 0) + 1
        if len(found.first) < MAX_LISTED_PICTURES:
            found.first.append(_varied(group)[:MAX_LISTED_COPIES])
    return found


def have_different_labels(group: Iterable[Duplicate]) -> bool:
    """Whether copies of a picture have more than one label."""
    return len({copy.given_label for copy in group}) > 1


def parts_shared(group: Iterable[Duplicate]) -> list[str]:
    """The parts that should not have a picture which training has."""
    parts = {copy.part for copy in group}
    return [part for part in TOO_GOOD if {PARTS[0], part} <= parts]


def _varied(group: list[Duplicate]) -> list[Duplicate]:
    """Duplicates in an order in which labels take turns."""
    turns: Counter[str] = Counter()
    ranked = []
    for copy in group:
        turns[copy.given_label] += 1
        ranked.append((turns[copy.given_label], copy))
    return [copy for _, copy in sorted(ranked, key=lambda pair: pair[0])]

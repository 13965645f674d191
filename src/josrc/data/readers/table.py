"""What every reader makes: a table of images, their labels and ids, before any is opened."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig, DataKind
from josrc.data.annotations import Annotations
from josrc.data.image_files import ImageFiles
from josrc.data.images import Images
from josrc.data.noise import Labels
from josrc.data.packed_strings import Index, PackedStrings
from josrc.errors import UserError

TRAIN, VAL, TEST = 0, 1, 2
SPLITS = {
    **dict.fromkeys(("", "train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}


@dataclass(frozen=True)
class Table:
    """Images with their labels, in the order of their data set.

    Attributes:
        images: where they are, or the pixels themselves.
        labels: the class of each, ``(N,)``; -1 where it has none.
        class_names: the classes in order.
        ids: what each is called; none of them twice.
        split: ``TRAIN``, ``VAL`` or ``TEST``, ``(N,)``.
        verified: as in a source.
        verified_held: likewise.
        left_out: how many files of which kinds lie among them that are no pictures.
        annotations: what several annotators called them; then the labels are those of most.
        group: of each image, ``(N,)``, where images belong together; -1: it is alone.
    """

    images: Images
    labels: Labels
    class_names: list[str]
    ids: PackedStrings
    split: Labels
    verified: NDArray[np.int8] | None = None
    verified_held: NDArray[np.int8] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    annotations: Annotations | None = None
    group: Labels | None = None

    @property
    def files(self) -> ImageFiles:
        """The images of a table that names files."""
        assert isinstance(self.images, ImageFiles)
        return self.images

    def images_at(self, index: Index) -> Images:
        """Some of the images in their order; if it is all of them they are not copied."""
        return self.images if len(index) == len(self.ids) else self.images.take(index)


def checked(name: str, table: Table) -> Table:
    """A table that holds images, none of them twice."""
    if not len(table.ids):
        raise UserError(f"{name} contains no images.")
    twice = table.ids.duplicate()
    if twice is not None:
        first, second = (place + 1 for place in sorted(twice))
        raise UserError(
            f"{name}: images {first:,} and {second:,} have the same id "
            f"'{table.ids[second - 1]}'. Every image needs its own."
        )
    return table


class Reader(ABC):
    """Knows one sort of data by its name, and what it says of its images.

    Attributes:
        kind: that sort.
    """

    kind: ClassVar[DataKind]

    @staticmethod
    @abstractmethod
    def claims(name: str) -> bool:
        """Whether a name or a path is of this sort."""

    @staticmethod
    @abstractmethod
    def read(config: DataConfig) -> Table:
        """The images at ``config.place``, none of them opened yet."""


class TableBuilder:
    """Collects rows in little memory."""

    def __init__(self) -> None:
        self.names, self.ids = bytearray(), bytearray()
        self.name_ends, self.id_ends = array("q"), array("q")
        self.labels, self.split = array("q"), array("b")
        self.numbers: dict[str, int] = {}
        self.group, self.groups = array("q"), dict[str, int]()

    def add(
        self, name: str, label: str | None, sample_id: str, split: int, group: str | None = None
    ) -> None:
        """One image."""
        self.group.append(-1 if group is None else self.groups.setdefault(group, len(self.groups)))
        self.names += name.encode("utf-8", "surrogateescape")
        self.name_ends.append(len(self.names))
        self.ids += sample_id.encode("utf-8", "surrogateescape")
        self.id_ends.append(len(self.ids))
        self.labels.append(
            self.numbers.setdefault(label, len(self.numbers)) if label is not None else -1
        )
        self.split.append(split)

    def label_counts(self) -> dict[str, int]:
        """How many labels there are of each class."""
        labels = np.array(self.labels, dtype=np.int64)
        counts = np.bincount(labels[labels >= 0], minlength=len(self.numbers))
        return dict(zip(self.numbers, counts.tolist(), strict=True))

    def translation(self) -> tuple[Labels, list[str]]:
        """From classes in the order they came to sorted ones, and their names.

        Numbers sort as numbers. Behind the classes stands -1, for no label.
        """
        found = list(self.numbers)
        whole = all(re.fullmatch("-?[0-9]{1,18}", name) for name in found)
        names = sorted(found, key=int if whole else str)
        place = {name: number for number, name in enumerate(names)}
        return np.array([place[name] for name in found] + [-1], dtype=np.int64), names

    def labelled(self) -> tuple[Labels, list[str]]:
        """Labels as numbers of the sorted class names."""
        translate, names = self.translation()
        return translate[np.array(self.labels, dtype=np.int64)], names

    def table(self, root: Path | str) -> Table:
        """All of them."""
        labels, names = self.labelled()
        paths = PackedStrings(bytes(self.names), np.array(self.name_ends, dtype=np.int64))
        ids = paths
        if self.ids != self.names or self.id_ends != self.name_ends:
            ids = PackedStrings(bytes(self.ids), np.array(self.id_ends, dtype=np.int64))
        split = np.array(self.split, dtype=np.int64)
        group = np.array(self.group, dtype=np.int64) if self.groups else None
        return Table(ImageFiles(paths, root), labels, names, ids, split, group=group)

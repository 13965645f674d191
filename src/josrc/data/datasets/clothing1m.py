"""Clothing1M in its published layout: a million images from shops with labels from their text."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig
from josrc.data.assemble import assemble
from josrc.data.datasets._published import (
    Fault,
    Finding,
    compare_count,
    describe_findings,
    first_of_each,
    missing_images,
    read_lines,
    require_root,
    strings_of,
)
from josrc.data.image_files import ImageFiles
from josrc.data.noise import Labels
from josrc.data.packed_strings import PackedStrings
from josrc.data.readers.table import TEST, TRAIN, VAL, Table
from josrc.data.source import Source
from josrc.errors import UserError

CLASSES = 14
NAMES = "category_names_eng.txt"
NOISY_LABELS, CLEAN_LABELS = "noisy_label_kv.txt", "clean_label_kv.txt"
# Every list of images, and how many it has as published.
LISTS = {
    "noisy_train_key_list.txt": 1_000_000,
    "clean_train_key_list.txt": 47_570,
    "clean_val_key_list.txt": 14_313,
    "clean_test_key_list.txt": 10_526,
}
NOISY_TRAIN, CLEAN_TRAIN, CLEAN_VAL, CLEAN_TEST = LISTS
LABELLED = {NOISY_LABELS: 1_037_497, CLEAN_LABELS: 72_409}
ADVICE = (
    "Expected layout of Clothing1M: DIR/images/..., and in DIR/annotations/ or in DIR itself "
    f"{', '.join((*LISTS, *LABELLED, NAMES))}. Its authors provide it on request."
)


def open_source(config: DataConfig) -> Source:
    """What is trained on, validated by and tested on; no image is decoded yet."""
    if config.test is not None or config.val:
        raise UserError(
            "clothing1m has its own test and validation images: leave out --test and --val."
        )
    layout = Layout.at(config.root)
    table = layout.table(config.protocol or "noisy")
    source = assemble(table, config, None)
    # These labels are people's: what agrees with them is right.
    return replace(source, val=source.val and replace(source.val, true=source.val.given))


@dataclass(frozen=True)
class Layout:
    """A copy of the data set on disk.

    Attributes:
        root: paths of images begin here.
        lists: where the text files are.
    """

    root: Path
    lists: Path

    @classmethod
    def at(cls, root: Path | None) -> Layout:
        """The copy in a folder, its text files found."""
        root = require_root(root, "clothing1m", ADVICE)
        inner = root / "annotations"
        return cls(root, inner if inner.is_dir() else root)

    def keys(self, name: str) -> Iterator[bytes]:
        """Paths in one of the lists."""
        return (line for _, line in read_lines(self.lists / name, ADVICE))

    def labels(self, name: str, wrong: Fault | None = None) -> dict[bytes, int]:
        """The class of every image in a file of labels.

        Args:
            name: of the file.
            wrong: collects lines without a class from 0 to 13; without it they are an error.
        """
        found = {}
        for number, line in read_lines(self.lists / name, ADVICE):
            path, _, text = line.rpartition(b" ")
            if path and text.isdigit() and int(text) < CLASSES:
                found[path.rstrip()] = int(text)
                continue
            shown = line.decode("utf-8", "replace")
            if wrong is None:
                raise UserError(
                    f"{self.lists / name}, line {number:,}: '{shown}' is not a path and a class "
                    f"from 0 to {CLASSES - 1}."
                )
            wrong.add(f"{name} line {number:,} '{shown}'")
        return found

    def class_names(self) -> list[str]:
        """The 14 names in the order of their numbers."""
        lines = read_lines(self.lists / NAMES, ADVICE)
        names = [line.decode("utf-8", "replace") for _, line in lines]
        if len(names) != CLASSES:
            raise UserError(f"{self.lists / NAMES} has {len(names)} names, not {CLASSES}.")
        return names

    def table(self, protocol: str) -> Table:
        """The images of a protocol: those for tests, for validation and for training."""
        class_names, clean = self.class_names(), self.labels(CLEAN_LABELS)
        noisy = self.labels(NOISY_LABELS)
        asked = [(CLEAN_TEST, TEST, clean), (CLEAN_VAL, VAL, clean), (NOISY_TRAIN, TRAIN, noisy)]
        if protocol == "published":
            # The released Jo-SRC code takes the noisy label, and people's where there is none.
            for key in self.keys(CLEAN_TRAIN):
                if key in clean:
                    noisy.setdefault(key, clean[key])
            asked.append((CLEAN_TRAIN, TRAIN, noisy))
        parts = [self._part(*one, clean) for one in asked]
        names = _joined([part[0] for part in parts])
        labels, split, verified = (np.concatenate([p[i] for p in parts]) for i in (1, 2, 3))
        # An image that is listed twice counts once, and never for training if it is for tests.
        index = first_of_each(names)
        if len(index) < len(names):
            names, labels = names.take(index), labels[index]
            split, verified = split[index], verified[index]
        checked = verified if (verified[split == TRAIN] >= 0).any() else None
        return Table(ImageFiles(names, self.root), labels, class_names, names, split, checked)

    def _part(
        self, name: str, split: int, labels: dict[bytes, int], clean: dict[bytes, int]
    ) -> tuple[PackedStrings, Labels, Labels, NDArray[np.int8]]:
        """Paths of a list, their labels, their split, and whether people agree with the labels."""
        found, checked = array("b"), array("b")

        def noted() -> Iterator[bytes]:
            for key in self.keys(name):
                found.append(labels.get(key, -1))
                checked.append(clean.get(key, -1))
                yield key

        names = strings_of(noted())
        given, right = np.array(found, dtype=np.int64), np.array(checked, dtype=np.int64)
        if not len(names):
            raise UserError(f"{self.lists / name} is empty.\n{ADVICE}")
        if (given < 0).all():
            raise UserError(f"No image in {self.lists / name} has a label: is it the right file?")
        verified = np.where((right < 0) | (given < 0), -1, given == right).astype(np.int8)
        return names, given, np.full(len(names), split, dtype=np.int64), verified


def _joined(parts: list[PackedStrings]) -> PackedStrings:
    starts = np.cumsum([0, *(len(part.block) for part in parts)])
    ends = [part.ends + start for part, start in zip(parts, starts, strict=False)]
    return PackedStrings(b"".join(part.block for part in parts), np.concatenate(ends))


# --- josrc doctor --------------------------------------------------------------------------------


def check(config: DataConfig, console: Any = None) -> Iterator[str]:
    """For ``josrc doctor``: what is there as published; what is not is an error."""
    return describe_findings(findings(config.root), ADVICE)


def findings(root: Path | None) -> Iterator[Finding]:
    """All that can be said of a copy without decoding an image."""
    layout = Layout.at(root)
    absent = [name for name in (*LISTS, *LABELLED, NAMES) if not (layout.lists / name).is_file()]
    for name in absent:
        yield Finding(f"{layout.lists / name}: is missing", True)
    if NAMES not in absent:
        names = list(layout.keys(NAMES))
        yield compare_count(NAMES, len(names), CLASSES)
    wrong = Fault("lines name no class")
    labels = {name: layout.labels(name, wrong) for name in LABELLED if name not in absent}
    for name, found in labels.items():
        yield compare_count(name, len(found), LABELLED[name])
    yield from wrong.findings()
    for name in LISTS:
        if name not in absent:
            own = NOISY_LABELS if name == NOISY_TRAIN else CLEAN_LABELS
            yield from _list_findings(layout, name, labels.get(own))


def _list_findings(layout: Layout, name: str, labels: dict[bytes, int] | None) -> Iterator[Finding]:
    names = strings_of(layout.keys(name))
    yield compare_count(name, len(names), LISTS[name])
    unlabelled = Fault(f"images of {name} have no label")
    for key in layout.keys(name) if labels is not None else ():
        if labels is not None and key not in labels:
            unlabelled.add(key.decode("utf-8", "replace"))
    yield from unlabelled.findings()
    again = np.setdiff1d(np.arange(len(names)), first_of_each(names))
    twice = Fault(f"lines of {name} repeat an image")
    for place in again.tolist():
        twice.add(names[place])
    yield from twice.findings()
    missing = missing_images(ImageFiles(names, layout.root))
    missing.what = f"images of {name} are missing"
    yield from missing.findings()

"""From a table of images to a source: what is trained on, held out, tested on and left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from josrc.config import DataConfig, DataKind
from josrc.data.annotations import Annotations
from josrc.data.image_files import ImageFiles
from josrc.data.noise import Labels
from josrc.data.packed_strings import Index
from josrc.data.readers.table import TEST, TRAIN, VAL, Table
from josrc.data.source import Source
from josrc.errors import UserError, closest

SPLIT_SEED = 0

Skipped = tuple[tuple[str, str], ...]


def assemble(table: Table, config: DataConfig, testing: Table | None) -> Source:
    """A source from a table: what is trained on, held out, tested on and left out.

    Args:
        table: the images; its split says which of them are for tests, unless there are others.
        config: its name, and which share is held out.
        testing: those others.
    """
    skipped = find_unlabelled(table)
    _check_groups(config)
    split = _held_out(table, config.val) if config.val else table.split
    usable = table.labels >= 0
    train, val, test = (np.flatnonzero(usable & (split == part)) for part in (TRAIN, VAL, TEST))
    if testing is not None:
        skipped += find_unlabelled(testing)
        test = np.flatnonzero(testing.labels >= 0)
        if not test.size:
            raise UserError(f"{config.test or 'test'} holds no labelled image to test on.")
    elif test.size:
        testing = table
    source = _check_classes(part_of(table, train, config), train.size)
    held = part_of(table, val, config) if val.size else None
    source = _only_classes_of_training(source, held, testing, test)
    left_out = Counter(table.left_out)
    if testing is not None and testing is not table:
        left_out.update(testing.left_out)
    return replace(source, skipped=skipped, left_out=left_out)


def part_of(table: Table, index: Index, config: DataConfig) -> Source:
    """Some of the images of a table as the samples of a source."""
    images = table.images_at(index)
    # Images that are called by their paths share one block of memory for both.
    if isinstance(images, ImageFiles) and table.ids is table.files.names:
        ids = images.names
    else:
        ids = table.ids if len(index) == len(table.ids) else table.ids.take(index)
    return Source(
        name=config.place,
        data_kind=config.kind,
        images=images,
        given=table.labels[index],
        class_names=table.class_names,
        closed=len(table.class_names),
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        sample_ids=ids,
        verified=None if table.verified is None else table.verified[index],
        verified_held=None if table.verified_held is None else table.verified_held[index],
        annotations=None if table.annotations is None else table.annotations.take(index),
        group=None if table.group is None else table.group[index],
    )


def find_unlabelled(table: Table) -> Skipped:
    """Rows that name no image or no class."""
    found: list[tuple[str, str]] = []
    for index in np.flatnonzero(table.labels < 0).tolist():
        reason = "it has no label" if table.files.names[index] else "its row names no file"
        found.append((table.images.location(index), reason))
    return tuple(found)


def _check_groups(config: DataConfig) -> None:
    """Groups come from a manifest."""
    if config.group_column is not None and config.kind is not DataKind.MANIFEST:
        raise UserError(
            f"--group-column {config.group_column}: only a manifest has columns, and "
            f"{config.place} is not one."
        )


def _held_out(table: Table, share: float) -> Labels:
    """The split with a stratified share of every class's training images held out."""
    if table.group is not None:
        return _held_out_groups(table, table.group, share)
    split = table.split.copy()
    index = np.flatnonzero((table.labels >= 0) & (split == TRAIN))
    index = np.random.default_rng(SPLIT_SEED).permutation(index)
    index = index[np.argsort(table.labels[index], kind="stable")]
    labels = table.labels[index]
    counts = np.bincount(labels, minlength=len(table.class_names))
    rank = np.arange(len(index)) - (np.cumsum(counts) - counts)[labels]
    wanted = np.minimum(np.round(share * counts), np.maximum(counts - 1, 0))
    split[index[rank < wanted[labels]]] = VAL
    return split


def _held_out_groups(table: Table, group: Labels, share: float) -> Labels:
    """The split with whole groups held out, of every class about that share."""
    split = table.split.copy()
    index = np.flatnonzero((table.labels >= 0) & (split == TRAIN))
    # An image without a group is one of its own.
    own = np.where(group[index] < 0, group.max() + 1 + index, group[index])
    index = index[np.argsort(own, kind="stable")]
    members = np.split(index, np.flatnonzero(np.diff(np.sort(own))) + 1)
    left = np.bincount(table.labels[index], minlength=len(table.class_names))
    wanted = np.minimum(np.round(share * left), np.maximum(left - 1, 0)).astype(np.int64)
    for number in np.random.default_rng(SPLIT_SEED).permutation(len(members)):
        held = np.bincount(table.labels[members[number]], minlength=len(left))
        # At least half of it is still wanted, and training keeps an image of every class.
        if 2 * np.minimum(held, wanted).sum() >= held.sum() and ((left > held) | (held == 0)).all():
            split[members[number]] = VAL
            wanted, left = np.maximum(wanted - held, 0), left - held
    if not (split == VAL).any():
        raise UserError(
            f"No group is small enough to hold out {share:.0%} of the images: the smallest of "
            f"{len(members):,} has {min(map(len, members)):,}. Hold out more (--val), or mark "
            "images in a column named split."
        )
    return split


def _check_classes(source: Source, samples: int) -> Source:
    if samples == 0:
        raise UserError(f"{source.name} holds no labelled image to train on.")
    found = np.unique(source.given)
    if len(found) < 2:
        only = source.class_names[int(found[0])]
        raise UserError(
            f"{source.name}: all images are of one class, '{only}'. A classifier needs two or more."
        )
    return source


def _only_classes_of_training(
    source: Source, held: Source | None, testing: Table | None, test: Index
) -> Source:
    """All parts with the classes that training knows, renumbered."""
    present = np.unique(source.given)
    names = [source.class_names[number] for number in present]
    place = {name: number for number, name in enumerate(names)}

    def translate(labels: Labels, class_names: Sequence[str], what: str) -> Labels:
        used = np.unique(labels)
        for number in used:
            if class_names[number] not in place:
                raise UserError(
                    f"{source.name}: {what} of class '{class_names[number]}', which no training "
                    f"image has.{closest(class_names[number], names)}"
                )
        numbers = np.array([place.get(name, -1) for name in class_names], dtype=np.int64)
        return numbers[labels]

    def kept(part: Source) -> Annotations | None:
        """Labels of classes that no training image has in the end are those of one who erred."""
        numbers = np.array([place.get(name, -1) for name in part.class_names], dtype=np.int64)
        return None if part.annotations is None else part.annotations.renumber(numbers)

    known: dict[str, Any] = {"class_names": names, "closed": len(names)}
    if held is not None:
        given = translate(held.given, held.class_names, "held-out images are")
        known["val"] = replace(held, given=given, annotations=kept(held), **known)
    if testing is not None:
        labels = translate(testing.labels[test], testing.class_names, "test images are")
        known |= {"test_images": testing.images_at(test), "test_labels": labels}
    given = translate(source.given, source.class_names, "images are")
    return replace(source, given=given, annotations=kept(source), **known)

"""From a table of images to a source: what is trained on, held out, tested on and left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig, RunConfig
from josrc.data.image_files import ImageFiles
from josrc.data.noise import Labels
from josrc.data.packed_strings import Index
from josrc.data.readers import read_table
from josrc.data.readers.table import TEST, TRAIN, VAL, Table
from josrc.data.source import Source
from josrc.errors import UserError, closest
from josrc.models.factory import expected_images

# A tile is so much larger than what a network sees of it, as 256 pixels are to a crop of 224.
TILE = 8 / 7
SPLIT_SEED = 0

Skipped = tuple[tuple[str, str], ...]


def open_source(config: DataConfig) -> Source:
    """What a path or a hub data set holds; no image is decoded yet."""
    testing = None if config.test is None else read_table(str(config.test), config)
    return assemble(read_table(config.place, config), config, testing)


def assemble(table: Table, config: DataConfig, testing: Table | None) -> Source:
    """A source from a table: what is trained on, held out, tested on and left out.

    Args:
        table: the images; its split says which of them are for tests, unless there are others.
        config: its name, and which share is held out.
        testing: those others.
    """
    skipped = unlabelled(table)
    split = _held_out(table, config.val) if config.val else table.split
    usable = table.labels >= 0
    train, val, test = (np.flatnonzero(usable & (split == part)) for part in (TRAIN, VAL, TEST))
    if testing is not None:
        skipped += unlabelled(testing)
        test = np.flatnonzero(testing.labels >= 0)
        if not test.size:
            raise UserError(f"{config.test or 'test'} holds no labelled image to test on.")
    elif test.size:
        testing = table
    source = _checked_classes(_part(config.place, table, train), train.size)
    held = _part(config.place, table, val) if val.size else None
    source = _only_classes_of_training(source, held, testing, test)
    left_out = Counter(table.left_out)
    if testing is not None and testing is not table:
        left_out.update(testing.left_out)
    return replace(source, skipped=skipped, left_out=left_out)


def _part(name: str, table: Table, index: Index) -> Source:
    images = table.images_at(index)
    if isinstance(images, ImageFiles) and table.ids is getattr(table.images, "names", None):
        ids = images.names
    else:
        ids = table.ids if len(index) == len(table.ids) else table.ids.take(index)
    return Source(
        name=name,
        images=images,
        given=table.labels[index],
        class_names=table.class_names,
        closed=len(table.class_names),
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        files=images if isinstance(images, ImageFiles) else None,
        sample_ids=ids,
        verified=_some(table.verified, index),
        verified_held=_some(table.verified_held, index),
    )


def _some(values: NDArray[Any] | None, index: Index) -> NDArray[Any] | None:
    return None if values is None else values[index]


def unlabelled(table: Table) -> Skipped:
    """Rows that name no image or no class."""
    found: list[tuple[str, str]] = []
    files = table.images
    for index in np.flatnonzero(table.labels < 0).tolist():
        assert isinstance(files, ImageFiles)
        reason = "it has no label" if files.names[index] else "its row names no file"
        found.append((files.location(index), reason))
    return tuple(found)


def _held_out(table: Table, share: float) -> Labels:
    """The split with a stratified share of every class's training images held out."""
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


def _checked_classes(source: Source, samples: int) -> Source:
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
    """All parts with the classes that training knows, numbered anew."""
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

    known: dict[str, Any] = {"class_names": names, "closed": len(names)}
    if held is not None:
        given = translate(held.given, held.class_names, "held-out images are")
        known["val"] = replace(held, given=given, class_names=names, closed=len(names))
    if testing is not None:
        labels = translate(testing.labels[test], testing.class_names, "test images are")
        known |= {"test_images": testing.images_at(test), "test_labels": labels}
    given = translate(source.given, source.class_names, "images are")
    return replace(source, given=given, **known)


def remembered_source(table: Table, config: RunConfig) -> Source:
    """A source of a run's own samples, with the labels it began with; no image is decoded.

    Args:
        table: training and held-out samples.
        config: the run's.
    """
    tile, changes = seen_as(config)
    assert isinstance(table.images, ImageFiles)
    table = replace(table, images=table.images.with_tile(tile))
    train, val = (
        replace(_part(config.data.place, table, np.flatnonzero(table.split == part)), **changes)
        for part in (TRAIN, VAL)
    )
    return replace(train, val=val if len(val) else None, skipped=())


def seen_as(config: RunConfig) -> tuple[int, dict[str, Any]]:
    """The side of a tile, and what of a source follows from what the network sees of it."""
    size, mean, std = expected_images(config.model.name)
    size = config.model.image_size or size
    return round(size * TILE), {"crop": size, "mean": mean, "std": std}


def take(source: Source, index: Index) -> Source:
    """Some of the samples of an opened source."""
    assert source.files is not None
    if len(index) == len(source):
        return source
    ids = source.ids
    files = source.files.take(index)
    return replace(
        source,
        images=files,
        files=files,
        given=source.given[index],
        true=_some(source.true, index),
        verified=_some(source.verified, index),
        verified_held=_some(source.verified_held, index),
        sample_ids=ids.take(index) if hasattr(ids, "take") else [ids[int(i)] for i in index],
    )

"""A person's own images as a source: opened, checked before any training, kept in memory or not."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig, RunConfig
from josrc.data.copies import Marks, find_copies, marks_of
from josrc.data.files import ImageFiles, Index
from josrc.data.noise import Labels
from josrc.data.source import Images, Pixels, Source, with_noise
from josrc.data.table import TEST, TRAIN, VAL, Table, read_table
from josrc.errors import UserError, closest

if TYPE_CHECKING:
    from josrc.data.workers import DecodingPool

# More skipped files than this share are a mistake somewhere, and not a few bad files.
MOST_SKIPPED = 0.05
# A tile is so much larger than what a network sees of it, as 256 pixels are to a crop of 224.
TILE = 8 / 7
# Tiles stay in memory up to this size, and up to this share of what is free.
MOST_RESIDENT, RESIDENT_SHARE = 8 * 2**30, 0.25
SPLIT_SEED = 0
GROUP = 32

Skipped = tuple[tuple[str, str], ...]
# Images of each part, and which of the opened ones they are.
Kept = dict[str, tuple[Images, Index]]
# Files of each part, and what tells them from others.
Marked = dict[str, tuple[ImageFiles, Marks]]
Progress = Callable[[int, int], None]


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
    tile, changes = _seen(config)
    assert isinstance(table.images, ImageFiles)
    table = replace(table, images=table.images.with_tile(tile))
    train, val = (
        replace(_part(config.data.place, table, np.flatnonzero(table.split == part)), **changes)
        for part in (TRAIN, VAL)
    )
    return replace(train, val=val if len(val) else None, skipped=())


def _seen(config: RunConfig) -> tuple[int, dict[str, Any]]:
    """The side of a tile, and what of a source follows from what the network sees of it."""
    from josrc.models.factory import expected_images

    size, mean, std = expected_images(config.model.name)
    size = config.model.image_size or size
    return round(size * TILE), {"crop": size, "mean": mean, "std": std}


# --- before training -----------------------------------------------------------------------------


def prepare_source(
    source: Source,
    config: RunConfig,
    *,
    free_memory: int,
    known: Collection[str] | None = None,
    progress: Progress = lambda done, total: None,
) -> Source:
    """An opened source whose images are all sound, in memory where they fit.

    Every file is decoded here once, by the code that training decodes with. A look at the headers
    would be cheaper, but finds neither a truncated file nor a damaged one, and whichever is met
    later ends a training that may have gone on for days. One epoch of decoding is what it costs;
    where images stay in memory it is the only one.

    Args:
        source: from ``open_source``.
        config: the run's; it names the model, whose image size the tiles follow.
        free_memory: bytes that are free where the images would be kept.
        known: files that were skipped when the run began; then none is looked for again.
        progress: told how many images are done, and of how many.
    """
    tile, changes = _seen(config)
    parts = _parts(source, tile, known or ())
    resident = config.data.resident
    if resident is None:
        needed = sum(math.prod(images.shape) for images, _ in parts.values())
        resident = needed <= min(MOST_RESIDENT, RESIDENT_SHARE * free_memory)
    kept: Kept = dict(parts)
    skipped, copies = source.skipped or (), source.copies
    if known is None or resident:
        marked = known is None  # one that goes on has looked for copies when it began
        kept, faults, marks = _read(parts, config.data.workers, resident, marked, progress)
        if marked:
            copies = find_copies([marks.get(name) for name in ("train", "val", "test")])
        if known is not None and faults:
            path, reason = faults[0]
            raise UserError(f"{path} could be read before: now {reason}.")
        skipped += faults
    if known is None:
        count = sum(len(images) for images, _ in parts.values()) + len(source.skipped or ())
        _check_share(skipped, count, config.data.allow_skipped, source)
    changes |= {"skipped": skipped, "copies": copies}
    return with_noise(_rebuild(source, kept, **changes), config.data)


def _parts(
    source: Source, tile: int, without: Collection[str]
) -> dict[str, tuple[ImageFiles, Index]]:
    """Files of training, held-out and test images, and which of the opened ones they are."""
    held = source.val.images if source.val is not None else None
    every = {"train": source.images, "val": held, "test": source.test_images}
    parts, dropped = {}, set(without)
    for name, images in every.items():
        if not isinstance(images, ImageFiles):
            continue
        index = np.arange(len(images))
        if dropped:
            sound = [i for i in range(len(images)) if images.location(i) not in dropped]
            index = np.array(sound, dtype=np.int64)
        files = images if len(index) == len(images) else images.take(index)
        parts[name] = files.with_tile(tile), index
    return parts


def _read(
    parts: dict[str, tuple[ImageFiles, Index]],
    workers: int | None,
    resident: bool,
    marked: bool,
    progress: Progress,
) -> tuple[Kept, Skipped, Marked]:
    """What is left of each part once all of its files were decoded, and which gave no image.

    Last come the files that are left and their marks, if they get any.
    """
    from josrc.data.workers import DecodingPool

    total, done = sum(len(images) for images, _ in parts.values()), 0
    kept: Kept = {}
    marks: Marked = {}
    skipped: Skipped = ()
    for name, (images, index) in parts.items():
        tell = partial(_tell, progress, done, total)
        pool = DecodingPool(images, workers, GROUP, keep=resident, marked=marked)
        pixels, found, faults = _decode(images, pool, resident, tell)
        sound = np.setdiff1d(np.arange(len(images)), [place for place, _ in faults])
        files = images if len(sound) == len(images) else images.take(sound)
        if marked:
            marks[name] = files, found[sound]
        kept[name] = (files if pixels is None else pixels), index[sound]
        skipped += tuple((images.location(place), reason) for place, reason in faults)
        done += len(images)
    return kept, skipped, marks


def _tell(progress: Progress, before: int, total: int, seen: int) -> None:
    progress(before + seen, total)


def _decode(
    images: ImageFiles, pool: DecodingPool, keep: bool, progress: Callable[[int], None]
) -> tuple[Pixels | None, Marks, list[tuple[int, str]]]:
    """Decode all files: their tiles if they are kept, their marks if they get any, the faults."""
    pixels = np.empty(images.shape, dtype=np.uint8) if keep else None
    faults: list[tuple[int, str]] = []
    marks = bytearray()
    filled = seen = 0
    groups = [np.arange(s, min(s + GROUP, len(images))) for s in range(0, len(images), GROUP)]
    for group, (tiles, bad, some) in zip(groups, pool.decode(groups), strict=True):
        faults += bad
        marks += some
        if pixels is not None:
            good = ~np.isin(group, [place for place, _ in bad])
            count = int(good.sum())
            pixels[filled : filled + count] = tiles.numpy()[good]
            filled += count
        seen += len(group)
        progress(seen)
    return (None if pixels is None else pixels[:filled]), marks_of(marks), faults


def _check_share(skipped: Skipped, total: int, allowed: bool, source: Source) -> None:
    if len(skipped) == total:
        raise UserError(f"{source.name} holds no image.\n{_examples(skipped)}")
    if allowed or len(skipped) <= MOST_SKIPPED * total:
        return
    raise UserError(
        f"{len(skipped):,} of {total:,} files give no image, more than {MOST_SKIPPED:.0%}.\n"
        f"{_examples(skipped)}\nTo train on the others: --allow-skipped."
    )


def _examples(skipped: Skipped) -> str:
    lines = []
    for reason, count in Counter(reason for _, reason in skipped).most_common(5):
        path = next(path for path, why in skipped if why == reason)
        lines.append(f"  {count:,} times: {reason}, as {path}")
    return "\n".join(lines)


def _rebuild(source: Source, kept: Kept, **changes: Any) -> Source:
    """The source with what is left of each of its parts."""
    images, index = kept["train"]
    lost = np.setdiff1d(np.arange(source.closed), source.given[index])
    if lost.size:
        name = source.class_names[int(lost[0])]
        raise UserError(
            f"{source.name}: no image of class '{name}' can be read. Mend its files, or leave the "
            "class out."
        )
    train = replace(take(source, index), images=images, **changes)
    val, test = source.val, kept.get("test")
    if val is not None:
        images, index = kept["val"]
        train = replace(train, val=replace(take(val, index), images=images, crop=train.crop))
    if test is not None:
        assert source.test_labels is not None
        train = replace(train, test_images=test[0], test_labels=source.test_labels[test[1]])
    return train


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


def available_memory() -> int:
    """Bytes of memory that programs may still take."""
    information = Path("/proc/meminfo")
    if information.is_file():
        for line in information.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2

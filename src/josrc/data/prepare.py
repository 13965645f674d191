"""Before any training every file is read once; what gives an image stays in memory, if it fits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import psutil

from josrc.config import ModelConfig, RunConfig
from josrc.data.assemble import Skipped
from josrc.data.duplicates import Marks, find_duplicates, marks_of
from josrc.data.image_files import ImageFiles
from josrc.data.images import ArrayImages, Images, ImageSpec, Pixels
from josrc.data.packed_strings import Index
from josrc.data.source import Source, with_noise
from josrc.data.workers import DecodingPool
from josrc.errors import UserError
from josrc.models.factory import expected_images

# A tile is so much larger than what a network sees of it, as 256 pixels are to a crop of 224.
TILE = 8 / 7
# More skipped files than this share are a mistake somewhere, and not a few bad files.
MOST_SKIPPED = 0.05
# Tiles stay in memory up to this size, and up to this share of what is free.
MOST_RESIDENT, RESIDENT_SHARE = 8 * 2**30, 0.25
GROUP = 32

# Images of each part, and which of the opened ones they are.
Kept = dict[str, tuple[Images, Index]]
# Files of each part, and what tells them from others.
Marked = dict[str, tuple[ImageFiles, Marks]]
Progress = Callable[[int, int], None]


def spec_of_files(model: ModelConfig) -> ImageSpec:
    """What a network sees of images in files."""
    size, mean, std = expected_images(model.name)
    size = model.image_size or size
    tile = round(size * TILE)
    return ImageSpec((tile, tile, 3), mean, std, crop=size)


def spec_for(source: Source, model: ModelConfig) -> ImageSpec:
    """What a network will see of a source that is opened, be it prepared or not."""
    return source.spec if source.images.in_memory else spec_of_files(model)


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
        source: as it was opened.
        config: the run's; it names the model, whose image size the tiles follow.
        free_memory: bytes that are free where the images would be kept.
        known: files that were skipped when the run began; then none is looked for again.
        progress: told how many images are done, and of how many.
    """
    spec = spec_of_files(config.model)
    parts = _parts(source, spec.tile[0], known or ())
    resident = config.data.resident
    if resident is None:
        needed = sum(math.prod(images.shape) for images, _ in parts.values())
        resident = needed <= min(MOST_RESIDENT, RESIDENT_SHARE * free_memory)
    if config.data.noise == "instance" and not resident:
        raise UserError(
            "Noise 'instance' looks at the pixels of all images, and these stay in their files. "
            "Keep them in memory (data.resident=true), or choose another noise."
        )
    kept: Kept = dict(parts)
    skipped, duplicates = source.skipped or (), source.duplicates
    if known is None or resident:
        marked = known is None  # one that goes on has looked for copies when it began
        kept, faults, marks = _read(parts, config.data.workers, resident, marked, progress)
        if marked:
            duplicates = find_duplicates([marks.get(name) for name in ("train", "val", "test")])
        if known is not None and faults:
            path, reason = faults[0]
            raise UserError(f"{path} could be read before: now {reason}.")
        skipped += faults
    if known is None:
        count = sum(len(images) for images, _ in parts.values()) + len(source.skipped or ())
        _check_share(skipped, count, config.data.allow_skipped, source)
    changes: dict[str, Any] = {"crop": spec.crop, "mean": spec.mean, "std": spec.std}
    changes |= {"skipped": skipped, "duplicates": duplicates}
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
        kept[name] = (files if pixels is None else ArrayImages(pixels, files)), index[sound]
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
    train = replace(_take(source, index), images=images, **changes)
    val, test = source.val, kept.get("test")
    if val is not None:
        images, index = kept["val"]
        train = replace(train, val=replace(_take(val, index), images=images, crop=train.crop))
    if test is not None:
        assert source.test_labels is not None
        train = replace(train, test_images=test[0], test_labels=source.test_labels[test[1]])
    return train


def _take(source: Source, index: Index) -> Source:
    """Some of its samples in their order; if it is all of them nothing is copied."""
    return source if len(index) == len(source) else source.take(index)


def available_memory() -> int:
    """Bytes of memory that programs may still take."""
    return int(psutil.virtual_memory().available)

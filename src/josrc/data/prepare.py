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
from numpy.typing import NDArray

from josrc import distributed
from josrc.config import ModelConfig, RunConfig
from josrc.data.assemble import Skipped
from josrc.data.duplicates import Duplicates, Marks, find_duplicates, marks_of
from josrc.data.image_files import ImageFiles
from josrc.data.images import ArrayImages, Images, ImageSpec, Pixels
from josrc.data.near.sketches import Sketches, sketches_of
from josrc.data.packed_strings import Index
from josrc.data.source import Source, with_noise
from josrc.data.workers import DecodingPool, Faults
from josrc.errors import UserError
from josrc.models.factory import expected_images

# A tile is so much larger than what a network sees of it, as 256 pixels are to a crop of 224.
TILE = 8 / 7
# More skipped files than this share are a mistake somewhere, and not a few bad files.
MAX_SKIPPED_SHARE = 0.05
# Tiles stay in memory up to this size, and up to this share of what is free.
MAX_RESIDENT_BYTES, RESIDENT_SHARE = 8 * 2**30, 0.25
IMAGES_PER_GROUP = 32

# Images of each part, and which of the opened ones they are.
Kept = dict[str, tuple[Images, Index]]
# Files of each part, what tells them from others, and what they look like.
Marked = dict[str, tuple[ImageFiles, Marks, Sketches]]
Progress = Callable[[int, int], None]
# Numbers of some images, their tiles, and which of them are sound.
Look = Callable[[Index, Pixels, NDArray[np.bool_]], None]
# What is found out about the files of a part, by its name, where others have read them.
Known = Callable[[str, ImageFiles], tuple[Marks, Sketches, Faults]]


def spec_of_files(model: ModelConfig) -> ImageSpec:
    """What a network sees of images in files."""
    size, mean, std = expected_images(model.name)
    size = model.image_size or size
    tile = round(size * TILE)
    return ImageSpec((tile, tile, 3), mean, std, crop=size)


def spec_for(source: Source, model: ModelConfig) -> ImageSpec:
    """What a network will see of a source that is opened, whether prepared or not."""
    return source.spec if source.images.in_memory else spec_of_files(model)


def prepare_source(
    source: Source,
    config: RunConfig,
    *,
    free_memory: int,
    known: Collection[str] | None = None,
    progress: Progress = lambda done, total: None,
    look: Look | None = None,
    read: Known | None = None,
) -> Source:
    """An opened source whose images are all sound, in memory where they fit.

    Every file is decoded here once, by the code that training decodes with. A look at the headers
    would be cheaper, but finds neither a truncated file nor a damaged one, and whichever is met
    later ends a training that may have gone on for days. One epoch of decoding is what it costs;
    where images stay in memory it is the only one.

    Of several processes each looks at a part of the files, and all learn which gave no image; where
    images stay in memory each needs all of them. The first one alone looks for copies.

    Args:
        source: as it was opened.
        config: the run's; it names the model, whose image size the tiles follow.
        free_memory: bytes that are free where the images would be kept.
        known: files that were skipped when the run began; then none is looked for again.
        progress: told how many images are done, and of how many.
        look: called with training images as they are decoded: who needs each of them once need not
            decode them again.
        read: tells what others have found in the files; then none is decoded here.
    """
    spec = spec_of_files(config.model)
    parts = file_parts(source, spec.tile[0], known or ())
    resident = config.data.resident if read is None else False
    if resident is None:
        needed = sum(math.prod(images.shape) for images, _ in parts.values())
        resident = needed <= min(MAX_RESIDENT_BYTES, RESIDENT_SHARE * free_memory)
        # In memory lie middle squares.
        resident = resident and config.views.crop != "whole"
        resident = distributed.highest(0 if resident else 1) == 0  # in all processes, or in none
    elif resident and config.views.crop == "whole":
        raise UserError(
            "data.resident=true keeps only the central squares of images in files, but "
            "views.crop=whole "
            "needs whole images. Leave one of them out."
        )
    if config.data.noise == "instance" and not resident:
        raise UserError(
            "Noise 'instance' needs the pixels of all images, but they are not in memory. Keep "
            "them there (data.resident=true), or choose another noise."
        )
    kept: Kept = dict(parts)
    skipped, duplicates = source.skipped or (), source.duplicates
    if known is None or resident:
        marked = known is None  # one that goes on has looked for copies when it began
        if read is not None:
            kept, faults, marks = _read_by_others(parts, read)
        else:
            workers = config.data.workers
            kept, faults, marks = _read(parts, workers, resident, marked, progress, look)
        if marked and distributed.is_main():
            duplicates = _duplicates(marks, config.data.near_duplicates)
        if known is not None and faults:
            path, reason = faults[0]
            raise UserError(f"{path} could be read before, but now: {reason}.")
        skipped += faults
    if known is None:
        count = sum(len(images) for images, _ in parts.values()) + len(source.skipped or ())
        _check_share(skipped, count, config.data.allow_skipped, source)
    changes: dict[str, Any] = {"crop": spec.crop, "mean": spec.mean, "std": spec.std}
    changes |= {"skipped": skipped, "duplicates": duplicates}
    return with_noise(_rebuild(source, kept, **changes), config.data)


def file_parts(
    source: Source, tile: int, without: Collection[str] = ()
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


def _duplicates(marks: Marked, near: bool) -> Duplicates:
    """Copies among all parts."""
    found = [marks.get(name) for name in ("train", "val", "test")]
    sketches = [part and part[2] for part in found] if near else None
    return find_duplicates([part and part[:2] for part in found], sketches)


def _read(
    parts: dict[str, tuple[ImageFiles, Index]],
    workers: int | None,
    resident: bool,
    marked: bool,
    progress: Progress,
    look: Look | None,
) -> tuple[Kept, Skipped, Marked]:
    """What is left of each part once all of its files were decoded, and which gave no image.

    Last come the files that are left with their marks and sketches, if they get any.
    """
    total, done = sum(len(images) for images, _ in parts.values()), 0
    kept: Kept = {}
    marks: Marked = {}
    skipped: Skipped = ()
    for name, (images, index) in parts.items():
        seen = look if name == "train" else None
        shown = resident or seen is not None
        count = len(images)
        part = slice(0, count) if shown else distributed.portion(count)
        own = images if part == slice(0, count) else images.take(np.arange(count)[part])
        tell = partial(_tell, progress, done, total, count / max(len(own), 1))
        pool = DecodingPool(own, workers, IMAGES_PER_GROUP, keep=shown, marked=marked)
        pixels, found, drawn, faults = _decode(own, pool, resident, tell, seen)
        if len(own) < count:
            found, drawn, faults = _put_together(found, drawn, faults, part.start)
        files, sound = _sound(images, faults)
        if marked and distributed.is_main():
            marks[name] = files, found[sound], drawn[sound]
        kept[name] = (files if pixels is None else ArrayImages(pixels, files)), index[sound]
        skipped += tuple((images.location(place), reason) for place, reason in faults)
        done += len(images)
    return kept, skipped, marks


def _read_by_others(
    parts: dict[str, tuple[ImageFiles, Index]], read: Known
) -> tuple[Kept, Skipped, Marked]:
    """The same as ``_read``, of files that others have decoded."""
    kept: Kept = {}
    marks: Marked = {}
    skipped: Skipped = ()
    for name, (images, index) in parts.items():
        found, drawn, faults = read(name, images)
        files, sound = _sound(images, faults)
        marks[name] = files, found[sound], drawn[sound]
        kept[name] = files, index[sound]
        skipped += tuple((images.location(place), reason) for place, reason in faults)
    return kept, skipped, marks


def _sound(images: ImageFiles, faults: Faults) -> tuple[ImageFiles, Index]:
    """The files that give an image, and their numbers."""
    sound = np.setdiff1d(np.arange(len(images)), [place for place, _ in faults])
    return images if len(sound) == len(images) else images.take(sound), sound


def _put_together(
    marks: Marks, sketches: Sketches, faults: Faults, start: int
) -> tuple[Marks, Sketches, Faults]:
    """What all processes found: every fault for each of them, the rest for the first one."""
    own = marks, sketches, [(start + place, reason) for place, reason in faults]
    parts = distributed.gather_in_main(own)
    if parts is not None:
        marks, sketches = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    every = distributed.broadcast(lambda: [fault for part in parts or () for fault in part[2]])
    return marks, sketches, every


def _tell(progress: Progress, before: int, total: int, scale: float, seen: int) -> None:
    progress(before + round(scale * seen), total)


def _decode(
    images: ImageFiles,
    pool: DecodingPool,
    keep: bool,
    progress: Callable[[int], None],
    look: Look | None,
) -> tuple[Pixels | None, Marks, Sketches, Faults]:
    """Decode all files: tiles if they are kept, marks and sketches if they get any, the faults."""
    pixels = np.empty(images.shape, dtype=np.uint8) if keep else None
    faults: Faults = []
    marks, sketches = bytearray(), bytearray()
    filled = seen = 0
    groups = [
        np.arange(s, min(s + IMAGES_PER_GROUP, len(images)))
        for s in range(0, len(images), IMAGES_PER_GROUP)
    ]
    for group, found in zip(groups, pool.decode(groups), strict=True):
        faults += found.faults
        marks += found.marks
        sketches += found.sketches
        good = ~np.isin(group, [place for place, _ in found.faults])
        if look is not None:
            look(group, found.tiles.numpy(), good)
        if pixels is not None:
            count = int(good.sum())
            pixels[filled : filled + count] = found.tiles.numpy()[good]
            filled += count
        seen += len(group)
        progress(seen)
    kept = None if pixels is None else pixels[:filled]
    return kept, marks_of(marks), sketches_of(sketches), faults


def _check_share(skipped: Skipped, total: int, allowed: bool, source: Source) -> None:
    if len(skipped) == total:
        raise UserError(f"{source.name} contains no images.\n{_examples(skipped)}")
    if allowed or len(skipped) <= MAX_SKIPPED_SHARE * total:
        return
    raise UserError(
        f"{len(skipped):,} of {total:,} files could not be read, more than "
        f"{MAX_SKIPPED_SHARE:.0%}.\n"
        f"{_examples(skipped)}\n"
        "To train on the rest: --allow-skipped."
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
            f"{source.name}: no image of class '{name}' can be read. Fix its files, or remove the "
            "class."
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

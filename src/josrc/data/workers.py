"""Worker processes that decode images from files."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from josrc.data.decode import (
    UnreadableImageError,
    read_squares,
    read_tile,
    read_tile_and_thumbnail,
)
from josrc.data.duplicates import MARK_BYTES, mark
from josrc.data.image_files import ImageFiles
from josrc.data.near.sketches import SIDE, SKETCH_BYTES, sketch
from josrc.data.packed_strings import Index
from josrc.distributed import local_world

MAX_WORKERS = 16
# A worker takes longer to start than it needs to decode this many small images.
MIN_IMAGES_FOR_WORKERS = 64
# Groups that each process decodes ahead.
PREFETCHED_GROUPS = 2
# Whether processes have groups, and signals can be held back.
POSIX = hasattr(os, "setpgid") and hasattr(signal, "pthread_sigmask")
# What asks a training to stop.
STOPS = (signal.SIGINT, signal.SIGTERM)
# Places of images in their data set that could not be decoded, and why.
Faults = list[tuple[int, str]]


class DecodedGroup(NamedTuple):
    """A group of images.

    Attributes:
        tiles: ``(group, tile, tile, 3)``; black where something went wrong.
        faults: what went wrong.
        marks: what tells each file from others, one behind the other; empty if nobody asks.
        sketches: by which near duplicates are found, likewise.
    """

    tiles: Tensor
    faults: Faults
    marks: bytes
    sketches: bytes


class SquareGroup(NamedTuple):
    """A group of images of which several squares are wanted.

    Attributes:
        images: their numbers.
        places: where their squares lie, ``(squares, group, 2)``, see ``read_squares``.
    """

    images: Index
    places: NDArray[np.float32]


class Decoder(Dataset[DecodedGroup]):
    """Decodes groups of images.

    Args:
        images: the files.
        keep: hand the tiles back; without, it is only found out which files give an image.
        marked: find out what tells each file from others, too.
    """

    def __init__(self, images: ImageFiles, keep: bool = True, marked: bool = False) -> None:
        self.images, self.keep, self.marked = images, keep, marked

    def __getitem__(self, group: Index | SquareGroup) -> DecodedGroup:
        if isinstance(group, SquareGroup):
            return self._squares(group)
        size, count = self.images.tile, len(group) if self.marked else 0
        marks, sketches = bytearray(MARK_BYTES * count), bytearray(SKETCH_BYTES * count)
        tiles = torch.zeros(len(group) if self.keep else 0, size, size, 3, dtype=torch.uint8)
        pixels, faults = tiles.numpy(), []
        for place, index in enumerate(group.tolist()):
            try:
                content = self.images.content(index)
                if self.marked:
                    tile, small = read_tile_and_thumbnail(content, size, SIDE)
                    marks[MARK_BYTES * place : MARK_BYTES * (place + 1)] = mark(content)
                    sketches[SKETCH_BYTES * place : SKETCH_BYTES * (place + 1)] = sketch(small)
                else:
                    tile = read_tile(content, size)
            except UnreadableImageError as error:
                faults.append((index, str(error)))
                continue
            if self.keep:
                pixels[place] = tile
        return DecodedGroup(tiles, faults, bytes(marks), bytes(sketches))

    def _squares(self, group: SquareGroup) -> DecodedGroup:
        """The first squares of all images, then the second ones."""
        size, views = self.images.tile, len(group.places)
        tiles = torch.zeros(views, len(group.images), size, size, 3, dtype=torch.uint8)
        faults: Faults = []
        for place, index in enumerate(group.images.tolist()):
            try:
                content = self.images.content(index)
                tiles.numpy()[:, place] = read_squares(content, size, group.places[:, place])
            except UnreadableImageError as error:
                faults.append((index, str(error)))
        return DecodedGroup(tiles.flatten(0, 1), faults, b"", b"")


class Groups(Sampler[Index | SquareGroup]):
    """Which images belong together, in the order in which they are wanted; it may be replaced."""

    def __init__(self) -> None:
        self.groups: Sequence[Index | SquareGroup] = []

    def __iter__(self) -> Iterator[Index | SquareGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)


class DecodingPool:
    """Processes that decode groups of images, ahead of the one who asks and in order.

    The processes live on from epoch to epoch. What they send goes through shared memory.

    Attributes:
        workers: how many there are.
    """

    def __init__(
        self,
        images: ImageFiles,
        workers: int | None,
        group: int,
        *,
        keep: bool = True,
        marked: bool = False,
        pin: bool = False,
    ) -> None:
        """Set up; the processes start with the first walk.

        Args:
            images: the files.
            workers: how many processes; none: one per core; 0: this process decodes.
            group: images in a group, or about that many.
            keep: hand the tiles back; without, only the rest.
            marked: hand back what tells each file from others.
            pin: put them where a GPU can fetch them by itself.
        """
        count = default_workers(len(images)) if workers is None else workers
        count = min(count, most_workers(group * images.tile**2 * 3))
        self.workers = count
        self.groups = Groups()
        self.loader = DataLoader(
            Decoder(images, keep, marked),
            batch_size=None,
            sampler=self.groups,
            num_workers=count,
            persistent_workers=count > 0,
            prefetch_factor=PREFETCHED_GROUPS if count else None,
            worker_init_fn=_start_worker,
            pin_memory=pin,
        )

    def decode(self, groups: Sequence[Index | SquareGroup]) -> Iterator[DecodedGroup]:
        """Each group in its turn; an unfinished walk before this one is given up."""
        self.groups.groups = groups
        if not POSIX:
            return iter(self.loader)
        # A worker is born with signals held back, until it is one that they don't reach.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            return iter(self.loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def default_workers(images: int) -> int:
    """A process per core, none where there is hardly anything to do; trainings share the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        0
        if images < MIN_IMAGES_FOR_WORKERS
        else min(max(1, (cores or 1) // local_world()), MAX_WORKERS)
    )


def most_workers(group_bytes: int) -> int:
    """For how many processes there is shared memory: a container may have next to none."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        return MAX_WORKERS
    return shutil.disk_usage(shared).free // max(1, (PREFETCHED_GROUPS + 1) * group_bytes)


def _start_worker(number: int) -> None:
    """It is for the training to end its workers, once it has saved.

    Ctrl-C reaches all processes of a terminal, and torchrun, timeout and others signal a process
    with all of its group.
    """
    if not POSIX:
        return
    os.setpgid(0, 0)
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)  # one that came before is forgotten
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

"""Worker processes that decode images from files."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from josrc.data.decode import UnreadableImageError, read_tile
from josrc.data.files import ImageFiles, Index
from josrc.engine.distributed import local_world

MOST_WORKERS = 16
# A worker takes longer to start than it needs to decode this many small images.
ALONE = 64
# Groups that each process decodes ahead.
PREFETCHED = 2
# Places of images in their data set that could not be decoded, and why.
Faults = list[tuple[int, str]]


class Decoder(Dataset[tuple[Tensor, Faults]]):
    """Decodes groups of images: tiles ``(group, tile, tile, 3)``, and what went wrong.

    Args:
        images: the files.
        keep: hand the tiles back; without, it is only found out which files give an image.
    """

    def __init__(self, images: ImageFiles, keep: bool = True) -> None:
        self.images, self.keep = images, keep

    def __getitem__(self, group: Index) -> tuple[Tensor, Faults]:
        size = self.images.tile
        tiles = torch.zeros(len(group) if self.keep else 0, size, size, 3, dtype=torch.uint8)
        pixels, faults = tiles.numpy(), []
        for place, index in enumerate(group.tolist()):
            try:
                tile = read_tile(self.images.content(index), size)
            except UnreadableImageError as error:
                faults.append((index, str(error)))
                continue
            if self.keep:
                pixels[place] = tile
        return tiles, faults


class Groups(Sampler[Index]):
    """Which images belong together, in the order in which they are wanted; it may be replaced."""

    def __init__(self) -> None:
        self.groups: Sequence[Index] = []

    def __iter__(self) -> Iterator[Index]:
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
        pin: bool = False,
    ) -> None:
        """Set up; the processes start with the first walk.

        Args:
            images: the files.
            workers: how many processes; none: one a core; 0: this process decodes.
            group: images in a group, or about so many.
            keep: hand the tiles back; without, only the faults.
            pin: put them where a GPU can fetch them by itself.
        """
        count = default_workers(len(images)) if workers is None else workers
        count = min(count, most_workers(group * images.tile**2 * 3))
        self.workers = count
        self.groups = Groups()
        self.loader = DataLoader(
            Decoder(images, keep),
            batch_size=None,
            sampler=self.groups,
            num_workers=count,
            persistent_workers=count > 0,
            prefetch_factor=PREFETCHED if count else None,
            worker_init_fn=_start_worker,
            pin_memory=pin,
        )

    def decode(self, groups: Sequence[Index]) -> Iterator[tuple[Tensor, Faults]]:
        """Tiles and faults of each group; an unfinished walk before this one is given up."""
        self.groups.groups = groups
        return iter(self.loader)


def default_workers(images: int) -> int:
    """A process a core, none where there is hardly anything to do; trainings share the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 0 if images < ALONE else min(max(1, (cores or 1) // local_world()), MOST_WORKERS)


def most_workers(group_bytes: int) -> int:
    """For how many processes there is shared memory: a container may have next to none."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        return MOST_WORKERS
    return shutil.disk_usage(shared).free // max(1, (PREFETCHED + 1) * group_bytes)


def _start_worker(number: int) -> None:
    """It is for the training to end its workers, once it has saved.

    Ctrl-C reaches all processes of a terminal, and torchrun, timeout and others signal a process
    with all of its group.
    """
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

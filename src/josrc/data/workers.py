"""Worker processes that decode images from files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from josrc.data.decode import UnreadableImageError, read_tile
from josrc.data.files import ImageFiles, Index

MOST_WORKERS = 16
# A worker takes longer to start than it needs to decode this many small images.
ALONE = 64
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
        faults = []
        for place, index in enumerate(group.tolist()):
            try:
                tile = read_tile(self.images.content(index), size)
            except UnreadableImageError as error:
                faults.append((index, str(error)))
                continue
            if self.keep:
                tiles[place] = torch.from_numpy(tile.copy())
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
    """

    def __init__(
        self, images: ImageFiles, workers: int | None, *, keep: bool = True, pin: bool = False
    ) -> None:
        count = default_workers(len(images)) if workers is None else workers
        self.groups = Groups()
        self.loader = DataLoader(
            Decoder(images, keep),
            batch_size=None,
            sampler=self.groups,
            num_workers=count,
            persistent_workers=count > 0,
            worker_init_fn=_start_worker,
            pin_memory=pin,
        )

    def decode(self, groups: Sequence[Index]) -> Iterator[tuple[Tensor, Faults]]:
        """Tiles and faults of each group; an unfinished walk before this one is given up."""
        self.groups.groups = groups
        return iter(self.loader)


def default_workers(images: int) -> int:
    """A process a core, none where there is hardly anything to do."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 0 if images < ALONE else min(cores or 1, MOST_WORKERS)


def _start_worker(number: int) -> None:
    """Ctrl-C reaches all processes of a terminal: it is for the training to end its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

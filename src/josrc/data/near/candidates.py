"""Which pictures may be copies of which: by their sketches, in little time and memory.

Sketches are sorted into cells of similar pictures, and a window is compared only with the pictures
in the cells nearest to it. Cells know nothing of left and right, so that a mirrored picture is in
the same one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from josrc.data.near.sketches import Descriptions, Sketches, describe_windows
from josrc.data.packed_strings import Index

# Pictures in a cell, on average, and the most cells; of fewer pictures than two cells hold, all are
# compared with all.
CELL_SIZE, MAX_CELLS = 250, 4096
# Cells in which the whole of a picture, and each of its windows, is looked for.
WHOLE_PROBES, WINDOW_PROBES = 8, 2
# Rounds in which cells are found, with this many pictures per cell.
ROUNDS, DRAWN_PER_CELL = 6, 32
# Pictures whose windows are looked for at a time.
PICTURES_PER_BATCH = 512
# Of each window, the pictures that it is compared with further.
PER_WINDOW = 4
# Less alike than this are not candidates.
MIN_SIMILARITY = 0.86


@dataclass(frozen=True)
class Candidates:
    """Pictures that may show the same as others.

    Attributes:
        index: of each picture those that one of its windows resembles most, ``(N, k)``; -1: none.
        similarity: how much, ``(N, k)``.
    """

    index: Index
    similarity: NDArray[np.float32]


def find_candidates(sketches: Sketches, most: int) -> Candidates:
    """Of every picture the ``most`` others that look most like it or like a part of it."""
    count = len(sketches)
    index = np.full((count, most), -1, dtype=np.int64)
    similarity = np.zeros((count, most), dtype=np.float32)
    if count < 2:
        return Candidates(index, similarity)
    cells = Cells(sketches)
    for start in range(0, count, PICTURES_PER_BATCH):
        picture, other, alike = cells.search(sketches[start : start + PICTURES_PER_BATCH])
        keep = picture + start != other
        picture, other, alike = picture[keep], other[keep], alike[keep]
        _fill(index[start:], similarity[start:], picture, other, alike)
    return Candidates(index, similarity)


def _fill(
    index: Index,
    similarity: NDArray[np.float32],
    picture: Index,
    other: Index,
    alike: NDArray[np.float32],
) -> None:
    """Enter the best matches of each picture, none twice, the best first."""
    order = np.lexsort((-alike, other, picture))
    picture, other, alike = picture[order], other[order], alike[order]
    fresh = np.ones(len(picture), dtype=bool)  # a pair's first line is its best
    fresh[1:] = (picture[1:] != picture[:-1]) | (other[1:] != other[:-1])
    picture, other, alike = picture[fresh], other[fresh], alike[fresh]
    order = np.lexsort((-alike, picture))
    picture, other, alike = picture[order], other[order], alike[order]
    rank = np.arange(len(picture)) - np.searchsorted(picture, picture)
    kept = rank < index.shape[1]
    index[picture[kept], rank[kept]] = other[kept]
    similarity[picture[kept], rank[kept]] = alike[kept]


class Cells:
    """All pictures, in cells of similar ones."""

    def __init__(self, sketches: Sketches) -> None:
        self.even, self.odd = _wholes(sketches)
        count = min(len(sketches) // CELL_SIZE, MAX_CELLS)
        self.centres = cell_centres(self.even, max(1, count))
        nearest = torch.cat([(part @ self.centres.T).argmax(1) for part in self.even.split(8192)])
        order = torch.argsort(nearest, stable=True)
        self.members = order.split(torch.bincount(nearest, minlength=len(self.centres)).tolist())

    def search(self, sketches: Sketches) -> tuple[Index, Index, NDArray[np.float32]]:
        """Matches of the windows of some sketches: number of the sketch, the other, how alike."""
        windows = describe_windows(sketches)
        count, each = windows.even.shape[:2]
        even, odd = (half.flatten(0, 1) for half in windows)
        query, cell = self._probes(even, count, each)
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        ends = torch.bincount(cell, minlength=len(self.centres)).cumsum(0).tolist()
        for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            members = self.members[number]
            if begin == end or not len(members):
                continue
            asked = query[begin:end]
            found.append(self._compare(asked, members, Descriptions(even[asked], odd[asked])))
        asked, other, alike = (torch.cat(column) for column in zip(*found, strict=True))
        return (asked // each).numpy(), other.numpy(), alike.numpy()

    def _probes(self, even: Tensor, count: int, each: int) -> tuple[Tensor, Tensor]:
        """Which windows are looked for in which cells, sorted by cells."""
        most = min(WHOLE_PROBES, len(self.centres))
        near = (even @ self.centres.T).topk(most, dim=1).indices.view(count, each, most)
        number = torch.arange(count * each).view(count, each, 1).expand(-1, -1, most)
        wanted = torch.zeros(each, most, dtype=torch.bool)
        wanted[:, :WINDOW_PROBES] = True
        wanted[0] = True  # the whole picture
        cell, query = near[:, wanted].flatten(), number[:, wanted].flatten()
        order = torch.argsort(cell)
        return query[order], cell[order]

    def _compare(
        self, asked: Tensor, members: Tensor, windows: Descriptions
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The best matches of windows in a cell, as they are or mirrored."""
        alike = windows.even @ self.even[members].T
        alike += (windows.odd @ self.odd[members].T).abs_()
        best = alike.topk(min(PER_WINDOW, len(members)), dim=1)
        good = best.values >= MIN_SIMILARITY
        window = asked[:, None].expand_as(good)[good]
        return window, members[best.indices[good]], best.values[good]


def _wholes(sketches: Sketches) -> Descriptions:
    parts = [
        describe_windows(sketches[start : start + 8192], whole=True)
        for start in range(0, len(sketches), 8192)
    ]
    even, odd = (torch.cat(halves)[:, 0].contiguous() for halves in zip(*parts, strict=True))
    return Descriptions(even, odd)


def cell_centres(vectors: Tensor, count: int) -> Tensor:
    """That many directions around which vectors lie, ``(count, width)``: k-means on a sphere."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(vectors), min(len(vectors), DRAWN_PER_CELL * count), replace=False)
    some = torch.nn.functional.normalize(vectors[torch.from_numpy(drawn)], dim=1)
    centres = some[:count].clone()
    for _ in range(ROUNDS if count > 1 else 0):
        nearest = torch.cat([(part @ centres.T).argmax(1) for part in some.split(8192)])
        total = torch.zeros_like(centres).index_add_(0, nearest, some)
        empty = total.square().sum(dim=1) == 0
        centres = torch.where(empty[:, None], centres, torch.nn.functional.normalize(total, dim=1))
    return centres

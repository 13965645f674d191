"""Pairs of pictures that show the same, once somebody has said which might.

Who has candidates, from sketches or from a network's features, hands them over; what counts in the
end is what the pictures themselves look like, laid over each other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from josrc.data.decode import UnreadableImageError
from josrc.data.images import Images, Pixels
from josrc.data.near.alignment import (
    GRID,
    LEAST_IN_DOUBT,
    LEAST_SIMILAR,
    THUMB,
    Placement,
    compare,
    place,
)
from josrc.data.near.candidates import find_candidates
from josrc.data.near.sketches import Sketches, sketch, sketches_of
from josrc.data.packed_strings import Index

# Pairs whose sketches, laid over each other, are less alike are looked at no further.
MIN_PLACED_SIMILARITY = 0.9
# Ways to lie that are tried at a first glance.
FIRST_PLACEMENTS = 2
# Candidates of each picture.
CANDIDATES_PER_PICTURE = 6
# Pairs whose pictures are read again, at most, and this many at a time.
MAX_READ, PAIRS_PER_CHUNK = 200_000, 2048
# Threads that read them.
MAX_READERS = 8
# Similarity of a near duplicate, at most: 1 is an exact one.
MAX_NEAR_SIMILARITY = 0.999


class Pairs(NamedTuple):
    """Pictures that show the same, ``(P,)`` each.

    Attributes:
        first: number of one picture, counted through all parts of the data.
        second: of the other, which is larger.
        similarity: from 0 to 1, which only exact copies have.
    """

    first: Index
    second: Index
    similarity: NDArray[np.float32]


NO_PAIRS = Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))


def near_pairs(
    index: Index,
    similarity: NDArray[np.floating[Any]],
    images: Sequence[Images],
    *,
    sketches: Sketches | None = None,
    least: float = LEAST_SIMILAR,
    most: int = MAX_READ,
) -> Pairs:
    """Which of the candidates show the same picture; their files are read again to find out.

    Args:
        index: of each picture the others that may be copies of it, ``(N, k)``, counted through all
            of ``images``; a negative number is none.
        similarity: how much speaks for it, ``(N, k)``, on any scale: of too many candidates those
            with the highest values are looked at.
        images: training, held-out and test images, those that there are; ``N`` in all.
        sketches: of all pictures, ``(N, SIDE, SIDE, 3)``, if they are there.
        least: how similar pictures must be.
        most: candidates whose pictures are read.
    """
    first, second = _ranked_pairs(index, similarity)
    if sketches is not None:
        first, second = _plausible(first, second, sketches)
    order = np.lexsort((second[:most], first[:most]))
    first, second = first[:most][order], second[:most][order]
    found = []
    for start in range(0, len(first), PAIRS_PER_CHUNK):
        some = slice(start, start + PAIRS_PER_CHUNK)
        alike = _look(first[some], second[some], images)
        same = alike >= least
        found.append(
            (first[some][same], second[some][same], alike[same].clip(max=MAX_NEAR_SIMILARITY))
        )
    if not found:
        return NO_PAIRS
    return Pairs(*(np.concatenate(column) for column in zip(*found, strict=True)))


def find_near_pairs(sketches: Sketches, images: Sequence[Images], chosen: Index) -> Pairs:
    """Pictures that look alike by their sketches, and are.

    Args:
        sketches: of all pictures.
        images: as for ``near_pairs``.
        chosen: which pictures to compare: one of those that are exact copies of each other.
    """
    candidates = find_candidates(sketches[chosen], CANDIDATES_PER_PICTURE)
    index = np.full((len(sketches), CANDIDATES_PER_PICTURE), -1, dtype=np.int64)
    similarity = np.zeros((len(sketches), CANDIDATES_PER_PICTURE), dtype=np.float32)
    index[chosen] = np.where(candidates.index < 0, -1, chosen[candidates.index])
    similarity[chosen] = candidates.similarity
    return near_pairs(index, similarity, images, sketches=sketches)


def _ranked_pairs(index: Index, similarity: NDArray[np.floating[Any]]) -> tuple[Index, Index]:
    """All pairs, none twice, those with the highest similarity first."""
    picture, rank = np.nonzero(index >= 0)
    other, alike = index[picture, rank], similarity[picture, rank]
    low, high = np.minimum(picture, other), np.maximum(picture, other)
    keep = low != high
    low, high, alike = low[keep], high[keep], alike[keep]
    order = np.lexsort((-alike, high, low))
    low, high, alike = low[order], high[order], alike[order]
    fresh = np.ones(len(low), dtype=bool)
    fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    low, high, alike = low[fresh], high[fresh], alike[fresh]
    order = np.argsort(-alike, kind="stable")
    return low[order], high[order]


def _plausible(first: Index, second: Index, sketches: Sketches) -> tuple[Index, Index]:
    """Pairs whose sketches can be laid over each other, the most alike first."""
    alike = [np.empty(0, dtype=np.float32)]
    for start in range(0, len(first), PAIRS_PER_CHUNK):
        some = slice(start, start + PAIRS_PER_CHUNK)
        placement = place(sketches[first[some]], sketches[second[some]], FIRST_PLACEMENTS)
        alike.append(placement.alike.numpy())
    value = np.concatenate(alike)
    order = np.argsort(-value, kind="stable")[: int((value >= MIN_PLACED_SIMILARITY).sum())]
    return first[order], second[order]


def _look(first: Index, second: Index, images: Sequence[Images]) -> NDArray[np.float32]:
    """How much pairs of pictures show the same; 0 where one can't be read any more."""
    numbers, where = np.unique(np.concatenate((first, second)), return_inverse=True)
    thumbs, side = read_thumbs(numbers, images)
    one, two = where[: len(first)], where[len(first) :]
    sketches = sketches_of(b"".join(sketch(Image.fromarray(thumb)) for thumb in thumbs))
    placement = place(sketches[one], sketches[two])
    known = (placement.alike.numpy() >= MIN_PLACED_SIMILARITY) & (side[one] > 0) & (side[two] > 0)
    alike = np.zeros(len(first), dtype=np.float32)
    if known.any():
        kept = Placement(*(values[torch.from_numpy(known)] for values in placement))
        alike[known] = compare(thumbs[one[known]], thumbs[two[known]], kept)
    small = np.maximum(side[one], side[two]) < GRID
    return np.where(small & (alike < LEAST_IN_DOUBT), np.float32(0), alike)


def read_thumbs(numbers: Index, images: Sequence[Images]) -> tuple[Pixels, Index]:
    """Small whole pictures, ``(n, THUMB, THUMB, 3)``, and their longer sides; 0: unreadable."""
    thumbs = np.zeros((len(numbers), THUMB, THUMB, 3), dtype=np.uint8)
    side = np.zeros(len(numbers), dtype=np.int64)
    ends = np.cumsum([len(part) for part in images])
    part = np.searchsorted(ends, numbers, side="right")
    place_in_part = numbers - (ends - [len(part) for part in images])[part]
    with ThreadPoolExecutor(min(MAX_READERS, os.cpu_count() or 1)) as pool:
        found = pool.map(_thumb, [images[k] for k in part.tolist()], place_in_part.tolist())
        for row, (thumb, longer) in enumerate(found):
            thumbs[row], side[row] = thumb, longer
    return thumbs, side


def _thumb(images: Images, index: int) -> tuple[Pixels | int, int]:
    try:
        picture = images.picture(index, THUMB)
    except (UnreadableImageError, OSError):
        return 0, 0
    small = picture.resize((THUMB, THUMB), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(small), max(picture.size)

"""The nearest neighbours of images by their features, and what these are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from josrc.data.near.candidates import cell_centres
from josrc.data.noise import Labels

Vector = NDArray[Any]
# Up to this many images all distances are looked at. Beyond, those to the images in the nearest
# cells of similar ones: of this many images each, on average, and this many cells. What it costs
# per image hardly grows with their number (0.4 ms of one core for 40,000 rows of 384 numbers), and
# takes products of matrices alone; a graph of neighbours (usearch) costs more, the more there are.
MAX_EXACT, MAX_EXACT_ON_GPU = 60_000, 200_000
CELL_SIZE, PROBED_CELLS = 1000, 16
# Neighbours that vote, and how many of the images of a class, on average, at most.
MAX_VOTERS, MAX_CLASS_SHARE = 40, 0.5
# The similarity by which a neighbour counts e times as much as another, and what a class has that
# no neighbour is of. Chosen, like MAX_VOTERS, on 6,000 images of CIFAR-10 with people's labels
# (random 1 and 2) and features of EfficientNet-Lite0.
SIMILARITY_SCALE, VOTE_FLOOR = 0.05, 0.1
# Rows that are worked on at a time, and distances.
ROWS_PER_CHUNK, MAX_DISTANCES = 4096, 2**26


@dataclass(frozen=True)
class Neighbours:
    """The nearest other images of each image, the nearest first.

    Attributes:
        index: which they are, ``(N, k)``.
        similarity: cosine of the angle between both vectors of features, ``(N, k)``.
    """

    index: NDArray[np.int32]
    similarity: NDArray[np.float32]

    def first(self, count: int) -> Neighbours:
        """That many of each image."""
        return Neighbours(self.index[:, :count], self.similarity[:, :count])


def directions(features: Vector, others: Vector | None = None) -> NDArray[np.float32]:
    """Features from their mean, each image's brought to length 1: a large copy in float32.

    With ``others`` it is these, from the mean of ``features``.
    """
    total = np.zeros(features.shape[1])
    for begin in range(0, len(features), ROWS_PER_CHUNK):
        total += features[begin : begin + ROWS_PER_CHUNK].astype(np.float64).sum(axis=0)
    centre = (total / len(features)).astype(np.float32)
    features = features if others is None else others
    found = np.empty(features.shape, dtype=np.float32)
    for begin in range(0, len(features), ROWS_PER_CHUNK):
        part = features[begin : begin + ROWS_PER_CHUNK].astype(np.float32) - centre
        length = np.linalg.norm(part, axis=1, keepdims=True)
        found[begin : begin + ROWS_PER_CHUNK] = part / np.maximum(length, 1e-9)
    return found


def nearest_neighbours(
    features: Vector,
    count: int,
    device: str | torch.device = "cpu",
    exact: bool | None = None,
    groups: Labels | None = None,
    asked: Vector | None = None,
) -> Neighbours:
    """Find the nearest neighbours of every image, or of some.

    Args:
        features: of every image, ``(N, width)``.
        count: how many neighbours of each.
        device: where all distances are looked at.
        exact: look at all distances, or at those to images in the nearest cells; by default it
            depends on their number.
        groups: of images that are no neighbours of each other, ``(N,)``; none: each is alone.
        asked: the images whose neighbours are wanted; none: all of them.
    """
    vectors = torch.from_numpy(directions(features))
    count = min(count, len(vectors) - 1)
    device = torch.device(device)
    most = MAX_EXACT if device.type == "cpu" else MAX_EXACT_ON_GPU
    find = _exact if exact or (exact is None and len(vectors) <= most) else _by_cells
    own = torch.arange(len(vectors)) if groups is None else torch.from_numpy(groups)
    rows = torch.arange(len(vectors)) if asked is None else torch.from_numpy(asked)
    return find(vectors.to(device), count, own.to(device), rows.to(device))


def neighbours_apart(
    neighbours: Neighbours,
    features: Vector,
    groups: Labels,
    device: str | torch.device = "cpu",
) -> Neighbours:
    """The same with neighbours of other groups in the place of those of an image's own.

    Where there are fewer of these than wanted, the similarity of what is left is minus infinity.
    """
    own = (groups[neighbours.index] == groups[:, None]).any(axis=1)
    if not own.any():
        return neighbours
    asked, count = np.flatnonzero(own), neighbours.index.shape[1]
    others = nearest_neighbours(features, count, device, groups=groups, asked=asked)
    index, similarity = neighbours.index.copy(), neighbours.similarity.copy()
    index[asked], similarity[asked] = others.index, others.similarity
    return Neighbours(index, similarity)


def neighbours_among(
    features: Vector, others: Vector, count: int, device: str | torch.device = "cpu"
) -> Neighbours:
    """Find the nearest among some images for others that are not among them.

    Args:
        features: of the images that may be neighbours, ``(N, width)``.
        others: of those that are asked about, ``(M, width)``.
        count: how many neighbours of each.
        device: where the distances are computed.
    """
    every = torch.from_numpy(directions(features)).to(device)
    asked = torch.from_numpy(directions(features, others)).to(device)
    size = max(1, min(ROWS_PER_CHUNK, MAX_DISTANCES // len(every)))
    found = [(part @ every.T).topk(min(count, len(every)), dim=1) for part in asked.split(size)]
    return Neighbours(
        torch.cat([best.indices for best in found]).int().cpu().numpy(),
        torch.cat([best.values for best in found]).cpu().numpy(),
    )


def _exact(vectors: Tensor, count: int, groups: Tensor, asked: Tensor) -> Neighbours:
    """All distances, a part of the images at a time."""
    index = np.empty((len(asked), count), dtype=np.int32)
    similarity = np.empty((len(asked), count), dtype=np.float32)
    size = max(1, min(ROWS_PER_CHUNK, MAX_DISTANCES // len(vectors)))
    for begin in range(0, len(asked), size):
        rows = asked[begin : begin + size]
        near = vectors[rows] @ vectors.T
        near.masked_fill_(groups[rows, None] == groups, -torch.inf)
        values, best = near.topk(count, dim=1)
        index[begin : begin + size] = best.cpu().numpy()
        similarity[begin : begin + size] = values.cpu().numpy()
    return Neighbours(index, similarity)


def _by_cells(vectors: Tensor, count: int, groups: Tensor, asked: Tensor) -> Neighbours:
    """Distances to the images in the cells that are nearest to each; a cell is asked by all."""
    centres = cell_centres(vectors, max(1, len(vectors) // CELL_SIZE))
    probed = min(PROBED_CELLS, len(centres))
    cells = torch.cat(
        [(part @ centres.T).topk(probed).indices for part in vectors.split(ROWS_PER_CHUNK)]
    )
    members = _by_number(cells[:, 0], len(centres))
    askers = _by_number(cells[asked], len(centres))
    index = torch.full((len(asked), count), -1, dtype=torch.int32, device=vectors.device)
    similarity = torch.full(index.shape, -torch.inf, device=vectors.device)
    for there, asking in zip(members, askers, strict=True):
        others = vectors[there]
        for places in asking.split(max(1, MAX_DISTANCES // max(1, len(there)))):
            rows = asked[places]
            near = vectors[rows] @ others.T
            near.masked_fill_(groups[rows, None] == groups[there], -torch.inf)
            values, best = near.topk(min(count, len(there)), dim=1)
            both = torch.cat([similarity[places], values], dim=1)
            similarity[places], best_of_both = both.topk(count, dim=1)
            numbers = torch.cat([index[places], there[best].int()], dim=1)
            index[places] = numbers.gather(1, best_of_both)
    few = similarity.isneginf().any(dim=1).nonzero().flatten()
    if len(few):  # among others that are all alike, cells may hold next to nothing
        found = _exact(vectors, count, groups, asked[few])
        index[few] = torch.from_numpy(found.index).to(index)
        similarity[few] = torch.from_numpy(found.similarity).to(similarity)
    return Neighbours(index.cpu().numpy(), similarity.cpu().numpy())


def _by_number(cells: Tensor, count: int) -> tuple[Tensor, ...]:
    """The rows of each cell, of ``(N,)`` or ``(N, probed)`` numbers."""
    numbers = cells.flatten()
    order = numbers.argsort(stable=True)
    rows = order // (cells.shape[1] if cells.ndim == 2 else 1)
    found: tuple[Tensor, ...] = rows.split(torch.bincount(numbers, minlength=count).tolist())
    return found


def count_voters(samples: int, classes: int) -> int:
    """How many neighbours vote: fewer in small sets, where a class has few images."""
    return int(
        np.clip(MAX_CLASS_SHARE * samples / max(classes, 1), min(5, samples - 1), MAX_VOTERS)
    )


def vote(neighbours: Neighbours, labels: Labels, classes: int) -> NDArray[np.float32]:
    """Probabilities of all classes by the labels of neighbours, ``(N, classes)``.

    No image votes for itself, so these are out of sample.

    Args:
        neighbours: of the images that are asked about.
        labels: of all images that may be neighbours.
        classes: how many there are.
    """
    total = len(neighbours.index)
    found = np.full((total, classes), VOTE_FLOOR, dtype=np.float32)
    rows = np.arange(total)
    nearest = np.maximum(neighbours.similarity[:, 0], -1)  # minus infinity: there is none
    for place in range(neighbours.index.shape[1]):
        similarity = neighbours.similarity[:, place]
        there = np.isfinite(similarity)
        weight = np.exp(np.where(there, similarity - nearest, -np.inf) / SIMILARITY_SCALE)
        np.add.at(found, (rows, labels[neighbours.index[:, place]]), weight)
    found /= found.sum(axis=1, keepdims=True)
    return found

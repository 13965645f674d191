"""A small set of photographs whose classes look alike, with errors as people make them.

Eight classes of CIFAR-100 in four pairs. Half of the errors confuse the two of a pair, the other
half are of any sort.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.data.noise import Labels, draw_labels
from josrc.data.registry import open_source
from josrc.runs.start import configure

PAIRS = (
    ("leopard", "tiger"),
    ("maple_tree", "oak_tree"),
    ("bus", "streetcar"),
    ("otter", "seal"),
)
IMAGES_PER_CLASS = 250


def look_alikes(root: Path | None) -> tuple[NDArray[Any], Labels]:
    """The images, ``(2000, 32, 32, 3)``, and their true classes, pairs side by side."""
    source = open_source(configure("cifar100n-c", data_root=root).data)
    names = [name for pair in PAIRS for name in pair]
    rows = [
        np.flatnonzero(source.given == source.class_names.index(name))[:IMAGES_PER_CLASS]
        for name in names
    ]
    images = np.concatenate([source.images.tiles(part) for part in rows])
    return images, np.repeat(np.arange(len(names)), IMAGES_PER_CLASS)


def confuse_pairs(true: Labels, rate: float, seed: int) -> Labels:
    """Labels of which that many are wrong: half of those of the other class of a pair."""
    classes = 2 * len(PAIRS)
    matrix = np.full((classes, classes), rate / 2 / (classes - 1))
    partner = np.arange(classes) ^ 1
    matrix[np.arange(classes), partner] += rate / 2
    np.fill_diagonal(matrix, 1 - rate)
    return draw_labels(true, matrix, seed)

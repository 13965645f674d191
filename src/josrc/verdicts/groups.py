"""Images that belong together: none has a say in what is predicted of another one's label.

Copies of a picture that carry the same wrong label would confirm each other, and so would frames of
a video or pictures of a patient. So an image is judged by the images of other groups alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc._io import write_npz
from josrc._reading import check_array, read_arrays
from josrc.data.duplicates import MARK_BYTES, Duplicates, connected, digest, marks_of
from josrc.data.noise import Labels
from josrc.errors import UserError

# How similar copies are that must not confirm each other. Chosen on 120 images of CIFAR-10, saved
# anew, resized to half, cropped, brightened or mirrored: at least 93 % of the pairs that are found
# are as similar. Drawings that are taken for near copies, as coloured squares on noise, are not.
SURELY_ALIKE = 0.92


def joined_groups(count: int, groupings: Sequence[Labels | None]) -> Labels:
    """The group of each image, ``(count,)``, images being together if any grouping says so.

    Args:
        count: how many images there are.
        groupings: the group of each by one criterion, ``(count,)``; -1: by that one it is alone.
    """
    edges = [_chains(grouping) for grouping in groupings if grouping is not None]
    one, two = np.concatenate([np.empty((2, 0), dtype=np.int64), *edges], axis=1)
    return connected(one, two, count)


def _chains(grouping: Labels) -> NDArray[np.int64]:
    """Pairs that connect the images of each group, ``(2, pairs)``."""
    order = np.argsort(grouping, kind="stable")
    ordered = grouping[order]
    same = (ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)
    return np.stack([order[:-1][same], order[1:][same]])


def copies(found: Duplicates | None, count: int) -> Labels | None:
    """Which training images surely show the same picture, ``(count,)``."""
    if found is None:
        return None
    pairs = found.pairs
    sure = pairs.similarity >= SURELY_ALIKE
    one, two = pairs.first[sure], pairs.second[sure]
    # Training images come first; those of tests may lie between two of them.
    return connected(one, two, max(count, int(two.max(initial=0)) + 1))[:count]


def equal_rows(features: NDArray[Any]) -> Labels:
    """Which images have the very same features, ``(N,)``."""
    marks = marks_of(b"".join(digest(row.tobytes()).digest() for row in features))
    return np.unique(marks.view(f"V{MARK_BYTES}")[:, 0], return_inverse=True)[1]


def without_others(groups: Labels, labels: Labels) -> NDArray[np.bool_]:
    """Images whose label no image of another group has: nothing speaks for it or against it."""
    pairs = np.unique(np.stack([labels, groups]), axis=1)
    return np.bincount(pairs[0], minlength=int(labels.max()) + 1)[labels] < 2


def check_groups(groups: Labels, labels: Labels) -> None:
    """Raise an error if there is nothing to judge any label by."""
    if without_others(groups, labels).all():
        raise UserError(
            "There is nothing to judge labels by: no class has two images that are neither copies "
            "of each other nor of one group."
        )


def write_groups(path: Path, groups: Labels) -> None:
    """Keep the groups of a scan's images, unless each is alone: they are judged by them again."""
    if groups.max(initial=-1) + 1 < len(groups):
        write_npz(path, {"group": groups})


def read_groups(path: Path, labels: Labels) -> Labels:
    """The groups of images with these labels."""
    count = len(labels)
    if not path.is_file():
        return np.arange(count)
    arrays = read_arrays(path, needed=["group"])
    check_array(path, arrays, "group", "iu", length=count, low=0, high=count - 1)
    groups: Labels = arrays["group"].astype(np.int64)
    check_groups(groups, labels)
    return groups

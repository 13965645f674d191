"""COCO's JSON for classification: one annotation with a category for each image."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from josrc._io import atomic_write, leaves, seen_from
from josrc._version import __version__
from josrc.review.formats.rows import CorrectedRow, plain, rename_columns

# What an image of COCO has by itself, and what josrc adds.
OWN = ("id", "file_name", "width", "height", "sample_id", "split", "path", "label")


def write_coco(
    out: Path, rows: Iterable[CorrectedRow], classes: Sequence[str], parted: bool
) -> bool:
    """Images, annotations without boxes, and all classes as categories.

    Of an image ``sample_id`` is what josrc calls it, ``split`` what it is for, where not all are
    for training; other columns of the manifest stand beside.

    Returns:
        Whether any image is outside the file's folder.
    """
    root, outside = out.absolute().parent, False
    category = {name: number for number, name in enumerate(classes, start=1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, int]] = []
    for number, row in enumerate(rows, start=1):
        path = seen_from(root, row.location)
        outside = outside or leaves(path)
        width, height = row.images.stored_size(row.index)
        own = {"id": number, "file_name": path, "width": width, "height": height}
        own |= {"sample_id": row.id} if row.id else {}
        names = rename_columns(list(row.others), OWN)
        others = {names[name]: plain(cell) for name, cell in row.others.items()}
        images.append(own | ({"split": row.split} if parted else {}) | others)
        found = {"id": number, "image_id": number, "category_id": category[row.label]}
        annotations.append(found | {"iscrowd": 0})
    content = {
        "info": {"description": f"written by josrc {__version__}"},
        "licenses": [],
        "categories": [{"id": number, "name": name} for name, number in category.items()],
        "images": images,
        "annotations": annotations,
    }
    with atomic_write(out) as partial:
        partial.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return outside

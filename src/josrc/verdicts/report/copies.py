"""The copies that a report shows side by side, with their labels."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from josrc._console import clipped
from josrc.data.decode import UnreadableImageError
from josrc.data.duplicates import (
    NEAR,
    PARTS,
    Duplicate,
    have_different_labels,
    parts_shared,
    tally,
)
from josrc.data.source import Source
from josrc.verdicts.duplicates import read_duplicates
from josrc.verdicts.report.thumbnails import MAX_SIDE, is_small, thumbnail

# Bytes that the picture of a copy may take.
PICTURE_BYTES = 6_000
# What is shown of a near copy's similarity, at most: 1.00 would be an exact one.
MAX_SHOWN_SIMILARITY = 0.99


def describe_duplicates(path: Path, source: Source) -> dict[str, Any] | None:
    """What a report shows of the copies in a file; none if there are no copies.

    Args:
        path: the list of the run.
        source: its images; those that can't be read any more are shown as missing.
    """
    found = tally(read_duplicates(path))
    if not found.pictures:
        return None
    return {
        "sentences": found.sentences(),
        "groups": [_describe_group(group, source) for group in found.first],
        "more": found.pictures - len(found.first),
    }


def _describe_group(group: Sequence[Duplicate], source: Source) -> dict[str, Any]:
    """One picture: what is to be said of it, and its copies."""
    near = [copy.similarity for copy in group if copy.kind == NEAR]
    return {
        "different": have_different_labels(group),
        "leaks": parts_shared(group),
        "kind": f"near, similarity {min(*near, MAX_SHOWN_SIMILARITY):.2f}" if near else "exact",
        "copies": [
            {
                "name": clipped(copy.name),
                "label": clipped(copy.given_label),
                "part": copy.part,
                "verdict": copy.verdict.replace("_", " "),
                **_picture(copy, source),
            }
            for copy in group
        ],
    }


def _picture(copy: Duplicate, source: Source) -> dict[str, Any]:
    """The picture of a copy, if it can be read, and whether its pixels are shown one by one."""
    part, index = source.at(copy.row)
    images = source.test_images if copy.part == PARTS[-1] else part.images
    if copy.part == PARTS[-1]:
        index = copy.row
    try:
        picture = None if images is None else images.picture(index, MAX_SIDE)
    except (UnreadableImageError, OSError, IndexError):
        picture = None
    content = None if picture is None else thumbnail(picture, PICTURE_BYTES)
    if picture is None or content is None:
        return {"image": None, "pixels": False}
    return {"image": base64.b64encode(content).decode("ascii"), "pixels": is_small(picture)}

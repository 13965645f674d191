"""Pictures laid over each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from josrc.data.near.alignment import THUMB
from josrc.data.near.pairs import NO_PAIRS, near_pairs, read_thumbs
from near_pictures import Pictures, pairs_of, photographs, saved


def test_drawings_that_look_alike_are_not_the_same() -> None:
    drawings = Pictures()
    for number in range(24):
        picture = Image.new("RGB", (96, 96), (210, 220, 235))
        draw = ImageDraw.Draw(picture)
        draw.rectangle((0, 66, 96, 96), fill=(90, 140, 80))  # the same ground below all of them
        x, y = 8 + 12 * (number % 6), 8 + 12 * (number // 6)
        draw.ellipse((x, y, x + 26, y + 26), fill=(200, 60, 40))
        drawings.append(picture)
    assert pairs_of(drawings) == set()
    same = Pictures([*drawings, *(saved(drawing, 90) for drawing in drawings)])
    assert len(pairs_of(same)) >= 20


def test_a_picture_that_is_gone_is_no_copy(tmp_path: Path) -> None:
    photographs()[0].save(tmp_path / "a.png")
    from josrc.data.image_files import ImageFiles
    from josrc.data.packed_strings import PackedStrings

    files = ImageFiles(PackedStrings.of(["a.png", "gone.png"]), tmp_path)
    thumbs, side = read_thumbs(np.array([0, 1]), [files])
    assert thumbs.shape == (2, THUMB, THUMB, 3)
    assert side[1] == 0 < side[0]
    found = near_pairs(np.array([[1], [0]]), np.ones((2, 1)), [files])
    assert found.first.size == NO_PAIRS.first.size == 0

"""Candidates for near copies among many pictures."""

from __future__ import annotations

import numpy as np
from PIL import Image

from josrc.data.near.candidates import find_candidates
from josrc.data.near.sketches import sketch, sketches_of
from near_pictures import saved


def test_candidates_among_many_are_found_cell_by_cell() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3000, 6, 6, 3), dtype=np.uint8)
    pictures = [Image.fromarray(pixels).resize((48, 48)) for pixels in noise]
    pictures += [saved(picture, 60) for picture in pictures[:50]]
    found = find_candidates(sketches_of(b"".join(map(sketch, pictures))), 2)
    assert found.index.shape == found.similarity.shape == (3050, 2)
    assert (found.index[:50, 0] == np.arange(3000, 3050)).mean() > 0.95

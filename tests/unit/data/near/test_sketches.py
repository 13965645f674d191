"""Sketches, by which near copies are looked for."""

from __future__ import annotations

import numpy as np
from PIL import Image

from josrc.data.near.sketches import WINDOWS, describe_windows, sketch, sketches_of
from near_pictures import Pictures, pairs_of, photographs


def test_one_colour_shows_nothing() -> None:
    plain = Pictures(Image.new("RGB", (64, 64), (number, 90, 120)) for number in range(12))
    assert pairs_of(plain) == set()
    assert pairs_of(plain[:1]) == pairs_of(Pictures()) == set()


def test_a_mirrored_window_differs_in_its_odd_half_alone() -> None:
    picture = photographs()[0]
    pair = [picture, picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    found = describe_windows(sketches_of(b"".join(map(sketch, pair))), whole=True)
    np.testing.assert_allclose(found.even[0], found.even[1], atol=0.03)
    np.testing.assert_allclose(found.odd[0], -found.odd[1], atol=0.03)
    assert WINDOWS[0] == (0, 0, 1, 1)

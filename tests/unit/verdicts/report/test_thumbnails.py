"""Small pictures."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from josrc.data.decode import read_picture
from josrc.verdicts.report.thumbnails import thumbnail


@pytest.mark.parametrize("share", [8000, 3000, 1000])
def test_a_thumbnail_takes_no_more_than_its_share(share: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    content = thumbnail(Image.fromarray(pixels), share)
    assert content is not None
    assert len(content) <= share
    width, height = Image.open(io.BytesIO(content)).size
    assert width / height == pytest.approx(2 / 3, abs=0.03)


def test_small_pictures_keep_their_pixels_and_hopeless_ones_are_left_out() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    content = thumbnail(Image.fromarray(pixels), 4000)
    assert content is not None
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content)).convert("RGB")), pixels)
    assert thumbnail(Image.fromarray(pixels), 20) is None


def test_a_large_jpeg_is_decoded_at_a_smaller_scale(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    Image.new("RGB", (1600, 1200), "teal").save(path)
    assert read_picture(str(path), 128).size == (200, 150)
    assert read_picture(str(path)).size == (1600, 1200)

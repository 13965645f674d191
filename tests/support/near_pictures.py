"""Photographs, and pictures that are nearly alike."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from josrc.data.near.pairs import find_near_pairs
from josrc.data.near.sketches import sketch, sketches_of

SIDE = 160


class Pictures(list[Image.Image]):
    """Pictures in memory, of any size."""

    def picture(self, index: int, least: int | None = None) -> Image.Image:
        return self[index]

    def location(self, index: int) -> str:
        return ""


def photographs() -> Pictures:
    """Parts of scikit-learn's two photographs that have no pixel in common."""
    found = Pictures()
    for photo in load_sample_images().images:
        for top in range(0, photo.shape[0] - SIDE, SIDE):
            for left in range(0, photo.shape[1] - SIDE, SIDE):
                found.append(Image.fromarray(photo[top : top + SIDE, left : left + SIDE]))
    # Parts of sky and blurred ground show nothing by which they could be told apart.
    return Pictures(picture for picture in found if np.asarray(picture).std() > 25)


def saved(picture: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")


def pairs_of(pictures: Pictures) -> set[tuple[int, int]]:
    sketches = sketches_of(b"".join(map(sketch, pictures)))
    found = find_near_pairs(sketches, [pictures], np.arange(len(pictures)))
    assert ((found.similarity > 0) & (found.similarity < 1)).all()
    return set(zip(found.first.tolist(), found.second.tolist(), strict=True))

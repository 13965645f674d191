"""A data set: stripes that lie, stand or lean, with labels that are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from josrc.config import DataConfig, DataKind
from josrc.data.images import ArrayImages
from josrc.data.source import Source

# What josrc takes where its user says nothing, as a recipe of josrc's own.
recipe = {"model": {"width": 0.25}, "epochs": 10, "batch_size": 32}
CLASSES = ["lying", "standing", "leaning"]


def open_source(config: DataConfig) -> Source:
    """120 images of 16 x 16 pixels to train on, 30 to test on."""
    images, labels = _draw(120, seed=0)
    tests, answers = _draw(30, seed=1)
    return Source(
        name=config.name,
        data_kind=DataKind.BUILTIN,
        images=ArrayImages(images),
        given=labels,
        true=labels,
        class_names=CLASSES,
        closed=len(CLASSES),
        mean=(0.5,),
        std=(0.5,),
        test_images=ArrayImages(tests),
        test_labels=answers,
    )


def check(config: DataConfig, console: Any) -> Iterator[str]:
    """They are drawn: nothing can be missing."""
    yield "150 images, drawn when they are asked for."


def _draw(count: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, count)
    rows, columns = np.mgrid[:16, :16]
    waves = np.stack([rows, columns, rows + columns])[labels] + random.integers(0, 8, (count, 1, 1))
    pixels = np.where(waves % 8 < 4, 220, 30) + random.integers(0, 30, (count, 16, 16))
    return pixels[..., None].astype(np.uint8), labels

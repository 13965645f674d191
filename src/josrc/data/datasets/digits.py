"""``digits-o``: scikit-learn's 8x8 digits as a small open-set problem that needs no download."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from josrc.config import DataConfig
from josrc.data.images import ArrayImages
from josrc.data.source import Source

CLOSED = 8
TEST_SHARE = 0.25
SPLIT_SEED = 0


def open_source(config: DataConfig) -> Source:
    """Digits 0 to 7 are the classes; all 8s and 9s are out of distribution, in training only."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = digits.target.astype(np.int64)
    known = np.flatnonzero(labels < CLOSED)
    train, test = train_test_split(
        known, test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=labels[known]
    )
    train = np.sort(np.concatenate([train, np.flatnonzero(labels >= CLOSED)]))
    test = np.sort(test)
    return Source(
        name=config.name,
        data_kind=config.kind,
        images=ArrayImages(images[train]),
        true=labels[train],
        given=labels[train],
        class_names=[str(digit) for digit in range(10)],
        closed=CLOSED,
        test_images=ArrayImages(images[test]),
        test_labels=labels[test],
        mean=(0.305,),
        std=(0.376,),
    )


def check(config: DataConfig, console: Any) -> Iterator[str]:
    """For ``josrc doctor``: if it loads it is whole."""
    source = open_source(config)
    yield f"It comes with scikit-learn: {len(source):,} training images."

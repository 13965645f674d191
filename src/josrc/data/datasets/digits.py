"""``digits-o``: scikit-learn's 8x8 digits as a small open-set problem that needs no download."""

import gzip
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from josrc.config import DataConfig
from josrc.data.images import ArrayImages
from josrc.data.source import Source

CLOSED = 8
# A bit for each of the 1,797 images, set for the 361 to test on: a quarter of each class, as
# scikit-learn's train_test_split draws it with random_state=0.
TEST = bytes.fromhex(
    "000004803026104000164101130204001a00000002040028062c1e0011089608001009120020f8a0028110e04008"
    "0a8a304411240802c0a00a2030804004d02000838020000085840010400820900004006800300000020ec4080012"
    "0484000328013c01a2980a02040007484008048408090202406025008024404e90356a810210005480004842a024"
    "180a4000a0090561e608108049124c80802201048e0001087202c140388013c009190000148c01000410a0e00033"
    "282100c144c84028000102930090030122a6402c220421080860819848001412861202128130a01100"
)  # fmt: skip


def open_source(config: DataConfig) -> Source:
    """Digits 0 to 7 are the classes; all 8s and 9s are out of distribution, in training only."""
    pixels, labels = _read()
    images = np.round(pixels * (255 / 16)).astype(np.uint8)[..., None]
    tested = np.unpackbits(np.frombuffer(TEST, np.uint8), count=len(labels)).astype(bool)
    train, test = np.flatnonzero(~tested), np.flatnonzero(tested)
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


def _read() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Images ``(N, 8, 8)`` with values to 16, and labels, without a second for scikit-learn."""
    found = find_spec("sklearn")
    assert found is not None
    assert found.origin is not None
    with gzip.open(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)


def check(config: DataConfig, console: Any) -> Iterator[str]:
    """For ``josrc doctor``: if it loads it is whole."""
    source = open_source(config)
    yield f"It comes with scikit-learn: {len(source):,} training images."

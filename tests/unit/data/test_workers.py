"""Processes that decode images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from commands import josrc
from josrc.data.readers import read_table
from josrc.data.registry import describe_data
from josrc.data.workers import DecodingPool
from packed_pictures import flowers


def test_images_behind_an_address_are_decoded_by_workers(
    memory: Callable[[str, bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Forked ones have what is in memory; each opens a file system of its own."""
    place = flowers(memory, gone=1)
    images = read_table(describe_data(place)).files.with_tile(16)
    groups = [np.arange(0, 12), np.arange(12, 24)]
    parts = list(DecodingPool(images, 2, 12).decode(groups))
    faults = [fault for part in parts for fault in part.faults]
    assert list(map(tuple, faults)) == [(23, "there is no such object or bucket")]
    assert parts[0].tiles.float().std() > 10
    josrc("doctor", "data", place)
    told = capsys.readouterr()
    assert "memory://flowers/images/23.png" in told.out + told.err

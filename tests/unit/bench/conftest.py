"""What the tests of the bench share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench_results import PutResult, put
from josrc.bench.look_alikes import IMAGES_PER_CLASS, PAIRS


@pytest.fixture
def put_result(tmp_path: Path) -> PutResult:
    """Writes ``tmp_path/PLACE/seed-SEED.json``; keywords change what is in it."""
    return partial(put, tmp_path)


@pytest.fixture
def photographs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In place of CIFAR-100: as many images of each class as are taken, and some more."""
    names = ["apple", *(name for pair in PAIRS for name in sorted(pair, reverse=True))]
    given = np.tile(np.arange(len(names)), IMAGES_PER_CLASS + 5)

    def tiles(rows: np.ndarray) -> np.ndarray:
        """Each is as bright as its class."""
        return (
            np.ones((len(rows), 32, 32, 3), np.uint8)
            * given[rows].astype(np.uint8)[:, None, None, None]
        )

    source = SimpleNamespace(given=given, class_names=names, images=SimpleNamespace(tiles=tiles))
    monkeypatch.setattr("josrc.bench.look_alikes.open_source", lambda data: source)
    return names

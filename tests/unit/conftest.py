"""Fixtures that several rooms use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from commands import josrc
from drawn_digits import CLASSES
from heads import FAST, draw


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, given labels of which some are wrong, and true ones."""
    found = load_digits()
    true = found.target.astype(np.int64)
    generator = np.random.default_rng(0)
    wrong = generator.random(len(true)) < 0.1
    given = np.where(wrong, (true + generator.integers(1, CLASSES, len(true))) % CLASSES, true)
    return found.data.astype(np.float32), given, true


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("own") / "photos", 12)


@pytest.fixture(scope="module")
def run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three epochs; nobody asked for a head."""
    out = tmp_path_factory.mktemp("run") / "run"
    assert josrc("train", photos, *FAST, "--epochs", "3", "--test", photos, "--out", out) == 0
    return out

"""Copies among the images of a scan, which features lead to, and labels that come without any."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import josrc
from josrc.data import duplicates
from josrc.data.near.pairs import NO_PAIRS


def read(run: josrc.Run) -> list[dict[str, str]]:
    with (run.path / "audit" / "duplicates.csv").open() as file:
        return list(csv.DictReader(file))


def test_near_copies_are_found_by_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    small = random.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    tiles = [Image.fromarray(s).resize((64, 64), Image.Resampling.BICUBIC) for s in small]
    tiles[7] = tiles[3].crop((4, 4, 60, 60)).resize((64, 64), Image.Resampling.BICUBIC)
    images, labels = np.stack([np.asarray(t) for t in tiles]), np.arange(40) % 2
    features = random.normal(size=(40, 16))
    features[7] = features[3] + 0.01
    given: dict[str, Any] = {"features": features, "quiet": True}
    monkeypatch.setattr(duplicates, "find_near_pairs", lambda *given: NO_PAIRS)  # by sketches
    found = read(josrc.scan((images, labels), out=tmp_path / "run", **given))
    assert [(line["row"], line["kind"]) for line in found] == [("3", "near"), ("7", "near")]
    assert all(line["verdict"] for line in found)


def test_labels_alone_are_no_copies_of_each_other(tmp_path: Path) -> None:
    random, labels = np.random.default_rng(0), np.arange(60) % 3
    features = random.normal(size=(60, 8)) + 5 * np.eye(8)[labels]
    run = josrc.scan(labels, features=features, out=tmp_path / "run")
    assert not (run.path / "audit" / "duplicates.csv").exists()

"""Photographs drawn by hand, and what is needed to train a head on them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from commands import josrc

LITE = "tf_efficientnet_lite0"


FAST = ["--image-size", "64", "--workers", "0", "--device", "cpu", "views.stored=2", "--plant", "0"]


COLOURS = {"red": (200, 60, 60), "green": (60, 180, 60), "blue": (60, 60, 200)}


def draw(folder: Path, count: int) -> Path:
    """Pictures of 40 pixels whose class is their colour."""
    random = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = np.clip(random.normal(colour, 40, (40, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def config_of(run: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((run / "config.yaml").read_text()))


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    begun = time.monotonic()
    assert josrc("train", *arguments) == 2
    assert time.monotonic() - begun < 3
    return capsys.readouterr().err

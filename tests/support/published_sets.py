"""Small copies of Clothing1M and Food101N."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

TINY = ["--model", "test_resnet", "--no-pretrained", "--image-size", "32", "--device", "cpu"]


FAST = [*TINY, "--batch-size", "16", "--epochs", "1", "--workers", "1"]


FOODS = ["apple_pie", "baklava", "cheesecake"]


def draw(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(sum(path.name.encode()))
    pixels = chance.integers(0, 40, (40, 48, 3), dtype=np.uint8)
    Image.fromarray(pixels + np.uint8(shade * 15 % 200)).save(path, quality=80)


def write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))

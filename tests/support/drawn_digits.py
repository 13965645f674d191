"""Digits as features and pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = 10


def drawn(folder: Path, count: int = 30, size: int = 40, seed: int = 1) -> Path:
    """Class folders of pictures that differ in colour and form; the first two are swapped."""
    generator = np.random.default_rng(seed)
    colours = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 210)}
    for label, colour in colours.items():
        for number in range(count):
            pixels = generator.integers(0, 60, (size, size, 3))
            left = int(generator.integers(2, 12))
            pixels[left : left + 20, left : left + 22] = colour
            path = folder / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    first, second = folder / "red" / "0.png", folder / "blue" / "0.png"
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    return folder

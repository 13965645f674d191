"""Small pictures, and tars of them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"rose": (200, 40, 40), "tulip": (40, 60, 200)}


def picture(label: str, number: int) -> bytes:
    """A small picture in the colour of its class; no two are alike."""
    pixels = np.random.default_rng(number).integers(0, 60, (40, 40, 3))
    pixels[number % 12 : number % 12 + 20, 5:25] = COLOURS[label]
    content = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(content, "PNG")
    return content.getvalue()


def write_tar(path: Path, files: list[tuple[str, bytes]]) -> Path:
    """A tar of these files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path

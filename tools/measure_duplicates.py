"""How many copies of real photographs josrc finds, and how many other pairs it takes for copies.

    python tools/measure_duplicates.py cifar10.npz --rows 25000:50000 --copies 300 --out FILE.json
    python tools/measure_duplicates.py FOLDER --copies 20 --out FILE.json

Copies of photographs drawn at random are changed in several ways and put among all others. A copy
is found if it lands in the group of its original. A pair is wrong if it joins a copy with a picture
that is neither its original nor one that josrc takes for a copy of that without any copies planted:
CIFAR-10 has near duplicates of its own, which are counted apart. The thresholds were chosen on rows
0 to 25,000 of CIFAR-10's training images, so measure on others.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageEnhance

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from josrc.data.duplicates import Duplicates
from josrc.data.near.pairs import find_near_pairs
from josrc.data.near.sketches import sketch, sketches_of

SEED = 0
Change = Callable[[Image.Image, Generator], Image.Image]


class Pictures(list[Image.Image]):
    """Pictures in memory, of any size."""

    def picture(self, index: int, least: int | None = None) -> Image.Image:
        """One of them."""
        return self[index]

    def location(self, index: int) -> str:
        """They lie nowhere."""
        return ""


def encoded(picture: Image.Image, draw: Generator, kind: str = "JPEG") -> Image.Image:
    """Saved and read again, with a JPEG quality from 30 to 95."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, quality=int(draw.integers(30, 96)))
    return Image.open(buffer).convert("RGB")


def resized(low: float, high: float) -> Change:
    """Resized by a factor in between."""

    def change(picture: Image.Image, draw: Generator) -> Image.Image:
        factor = draw.uniform(low, high)
        size = [max(4, round(side * factor)) for side in picture.size]
        return encoded(picture.resize(size, Image.Resampling.BICUBIC), draw, "PNG")

    return change


def cropped(most: float) -> Change:
    """Up to that share of each of the four sides is gone; then saved as a JPEG."""

    def change(picture: Image.Image, draw: Generator) -> Image.Image:
        left, right, top, bottom = draw.uniform(0, most, 4)
        width, height = picture.size
        box = (left * width, top * height, (1 - right) * width, (1 - bottom) * height)
        return encoded(picture.crop(tuple(map(round, box))), draw)

    return change


def brightened(picture: Image.Image, draw: Generator) -> Image.Image:
    """Between 0.6 and 1.4 times as bright, saved as a JPEG."""
    return encoded(ImageEnhance.Brightness(picture).enhance(draw.uniform(0.6, 1.4)), draw)


def mirrored(picture: Image.Image, draw: Generator) -> Image.Image:
    """Left and right changed, saved as a JPEG."""
    return encoded(picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT), draw)


CHANGES: dict[str, Change] = {
    "JPEG, quality 30 to 95": encoded,
    "resized 0.25 to 0.5 times": resized(0.25, 0.5),
    "resized 0.5 to 2 times": resized(0.5, 2),
    "cropped, up to 10 % of each side": cropped(0.1),
    "cropped, up to 20 % of each side": cropped(0.2),
    "brightness 0.6 to 1.4 times": brightened,
    "mirrored": mirrored,
}


def groups_of(pictures: Pictures) -> tuple[dict[int, int], float]:
    """The group of each picture that has copies, and how long it took."""
    started = time.perf_counter()
    sketches = sketches_of(b"".join(map(sketch, pictures)))
    pairs = find_near_pairs(sketches, [pictures], np.arange(len(pictures)))  # type: ignore[list-item]
    found = Duplicates.of([pictures], pairs)  # type: ignore[list-item]
    seconds = time.perf_counter() - started
    return dict(zip(found.place.tolist(), found.group.tolist(), strict=True)), seconds


def measure(pictures: Pictures, copies: int) -> dict[str, Any]:
    """Plant so many copies of each change, and count what is found."""
    draw = np.random.default_rng(SEED)
    own, _ = groups_of(pictures)
    planted: list[tuple[str, int]] = []
    every = Pictures(pictures)
    for name, change in CHANGES.items():
        for original in draw.choice(len(pictures), copies, replace=copies > len(pictures)).tolist():
            planted.append((name, original))
            every.append(change(pictures[original], draw))
    groups, seconds = groups_of(every)
    members: dict[int, list[int]] = {}
    for picture, group in groups.items():
        members.setdefault(group, []).append(picture)
    origin = [*range(len(pictures)), *(original for _, original in planted)]
    right = wrong = 0
    hits: dict[str, list[bool]] = {}
    for number, (name, original) in enumerate(planted, start=len(pictures)):
        others = [origin[other] for other in members.get(groups.get(number, -1), [])]
        hits.setdefault(name, []).append(groups.get(number, -1) == groups.get(original, -2))
        alien = [o for o in others if o != original and own.get(o, -1) != own.get(original, -2)]
        right, wrong = right + hits[name][-1], wrong + len(set(alien))
    return {
        "pictures": len(pictures),
        "copies_of_each_change": copies,
        "recall": {name: round(float(np.mean(found)), 4) for name, found in hits.items()},
        "copies_found": right,
        "wrong_pairs_with_copies": wrong,
        "precision": round(right / max(1, right + wrong), 4),
        "own_near_duplicates": {"images": len(own), "pictures": len(set(own.values()))},
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="a folder of photographs, or CIFAR-10 as .npz")
    parser.add_argument("--rows", default="25000:50000", help="of CIFAR-10's training images")
    parser.add_argument("--copies", type=int, default=300, help="planted of each change")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file")
    options = parser.parse_args()
    if options.data.is_dir():
        paths = sorted(p for p in options.data.iterdir() if p.suffix.lower() in (".png", ".jpg"))
        pictures = Pictures(Image.open(path).convert("RGB") for path in paths)
        what: dict[str, Any] = {"data": [path.name for path in paths]}
    else:
        begin, end = map(int, options.rows.split(":"))
        rows = np.load(options.data)["train_images"][begin:end]
        pictures = Pictures(Image.fromarray(row) for row in rows)
        what = {"data": f"CIFAR-10, training images {begin} to {end}"}
    found = what | measure(pictures, options.copies)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

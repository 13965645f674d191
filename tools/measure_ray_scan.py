"""A scan on Ray beside a scan in one process, on drawn pictures: the same verdicts, and how long.

    python tools/measure_ray_scan.py SCRATCH --images 20000 --cpus 2 --out results/scan/on-ray.json

Pictures are small clouds of colours around that of their class; a tenth of the labels is wrong, and
one file in a thousand is damaged. Both scans run as processes of their own with one thread per
worker. What they leave is compared byte for byte. Last, of 40 neighbours by the features the share
is told that the search in cells finds of those that the exact search does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from josrc.data.feature_file import open_features
from josrc.engine.run_folder import versions
from josrc.verdicts.neighbours import MAX_VOTERS, nearest_neighbours

CLASSES, WRONG, DAMAGED = 20, 0.1, 1000
SAME = [
    "audit/verdicts.csv",
    "audit/summary.json",
    "audit/duplicates.csv",
    "features.safetensors",
    "skipped.csv",
]


def main() -> None:
    """Draw the pictures, scan them twice, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path, help="a folder for pictures and runs")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--shard-size", type=int, default=1024)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file")
    options = parser.parse_args()
    draw_pictures(options.scratch / "pictures", options.images)
    common = ["scan", "pictures", f"--image-size={options.image_size}", "--overwrite", "--out"]
    on_ray = ["--engine=ray", f"--cpus={options.cpus}", f"--shard-size={options.shard_size}"]
    seconds = {
        "one process": scanned(options.scratch, [*common, "ONE", "--workers=0"]),
        "ray": scanned(options.scratch, [*common, "RAY", *on_ray]),
    }
    one, other = options.scratch / "ONE", options.scratch / "RAY"
    found = {
        "images": options.images,
        "image_size": options.image_size,
        "shards": len(list(other.glob("shards/*.parquet"))),
        "processors": os.cpu_count(),
        "workers": options.cpus,
        "load": [round(load, 1) for load in os.getloadavg()],
        "seconds": seconds,
        "same": {name: (one / name).read_bytes() == (other / name).read_bytes() for name in SAME},
        "recall_of_cells": recall(other / "features.safetensors"),
        "versions": versions(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def draw_pictures(folder: Path, images: int) -> None:
    """Class folders of pictures of 48 pixels."""
    draw = np.random.default_rng(0)
    centres = draw.integers(40, 200, (CLASSES, 4, 4, 3))
    for number in range(images):
        kind = number % CLASSES
        wrong = draw.random() < WRONG
        label = (kind + draw.integers(1, CLASSES)) % CLASSES if wrong else kind
        small = np.clip(centres[kind] + draw.normal(0, 40, (4, 4, 3)), 0, 255).astype(np.uint8)
        path = folder / f"class-{label:02}" / f"{number:06}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(small).resize((48, 48)).save(path)
        if number % DAMAGED == DAMAGED - 1:
            path.write_bytes(b"no picture")


def scanned(folder: Path, arguments: list[str]) -> float:
    """Seconds of a scan."""
    print(" ".join(arguments), flush=True)
    source = str(Path(__file__).resolve().parents[1] / "src")
    environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    begun = time.monotonic()
    command = [sys.executable, "-m", "josrc", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return round(time.monotonic() - begun, 1)


def recall(path: Path) -> float:
    """Share of the exact neighbours that the search in cells finds, too."""
    features: Any = open_features(path)
    exact, cells = (
        nearest_neighbours(features, MAX_VOTERS, exact=way).index for way in (True, False)
    )
    shared = [len(np.intersect1d(a, b)) for a, b in zip(exact, cells, strict=True)]
    found: float = round(float(np.mean(shared)) / MAX_VOTERS, 4)
    return found


if __name__ == "__main__":
    main()

"""JPEGs that are made for a benchmark: what they show does not matter, their size does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from josrc.data.workers import default_workers

QUALITY = 90
IMAGES_PER_GROUP = 64


class PictureMaker(Dataset[int]):
    """Each item is a picture that is written when it is asked for."""

    def __init__(self, folder: Path, count: int, size: tuple[int, int], classes: int) -> None:
        self.folder, self.count, self.size, self.classes = folder, count, size, classes

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> int:
        """Soft shapes with some grain, which compress about as photographs do."""
        generator = np.random.default_rng(number)
        shapes = Image.fromarray(generator.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        pixels = np.asarray(shapes.resize(self.size, Image.Resampling.BICUBIC)).astype(np.int16)
        pixels = pixels + generator.integers(-8, 9, pixels.shape, dtype=np.int16)
        path = self.folder / f"class-{number % self.classes:02}" / f"{number:05}.jpg"
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=QUALITY)
        return number


def write_images(folder: Path, count: int, size: tuple[int, int], classes: int = 2) -> None:
    """Fill class folders with JPEGs of a size, written by as many processes as there are cores."""
    for number in range(classes):
        (folder / f"class-{number:02}").mkdir()
    makers = PictureMaker(folder, count, size, classes)
    workers = default_workers(count)
    for _ in DataLoader(makers, batch_size=IMAGES_PER_GROUP, num_workers=workers, collate_fn=len):
        pass

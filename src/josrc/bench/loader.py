"""``josrc bench loader``: how fast images get from files to a training step, beside torchvision."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils.data import DataLoader

from josrc._console import say
from josrc._io import write_text
from josrc.bench.generated import QUALITY, write_images
from josrc.bench.reference import file_transform
from josrc.bench.speed import short_name
from josrc.config import ViewConfig
from josrc.data.image_files import ImageFiles
from josrc.data.loaders import Needs, StreamingLoader
from josrc.data.prepare import TILE
from josrc.data.registry import describe_data, open_source
from josrc.data.views import Normalise, create_view
from josrc.data.workers import default_workers
from josrc.engine.device import choose_device, device_name
from josrc.engine.run_folder import versions
from josrc.models.factory import IMAGENET

SIZES = ((1024, 768), (500, 400))
CROP, VIEWS = 224, 2
Batches = Callable[[int], Iterator[Tensor]]


def run_loader(
    *,
    images: int,
    epochs: int,
    batch_size: int,
    workers: int | None,
    threads: int | None,
    device_name_wanted: str | None,
    results: Path,
    console: Console,
) -> Path:
    """Measure both loaders and write ``results/speed/DEVICE-loader.json``; returns its path."""
    device = choose_device(device_name_wanted or "auto")
    count = default_workers(images) if workers is None else workers
    if threads is not None:
        torch.set_num_threads(threads)
    found: dict[str, Any] = {
        "device": device_name(device),
        "cpu_cores": os.cpu_count(),
        "loader_workers": count,
        "threads": torch.get_num_threads(),
        "load_before": psutil.getloadavg()[0],
        "images": images,
        "epochs": epochs,
        "batch_size": batch_size,
        "views": VIEWS,
        "quality": QUALITY,
        "sizes": {},
        "versions": versions(),
    }
    for width, height in SIZES:
        say(console, f"{images} JPEGs of {width} x {height}, {epochs} epochs per loader ...")
        with tempfile.TemporaryDirectory() as folder:
            write_images(Path(folder), images, (width, height))
            found["sizes"][f"{width}x{height}"] = compare(
                Path(folder), images, epochs, batch_size, count, device
            )
    found["load_after"] = psutil.getloadavg()[0]
    path = results / "speed" / f"{short_name(device)}-loader.json"
    write_text(path, json.dumps(found, indent=2) + "\n")
    show(found, console)
    say(console, f"Wrote {path}.")
    return path


def compare(
    folder: Path, images: int, epochs: int, batch_size: int, workers: int, device: torch.device
) -> dict[str, float]:
    """Images a second of both, in turns; the median over epochs, the first not counted."""
    loaders = {
        "torchvision": torchvision_batches(folder, batch_size, workers, device),
        "josrc": josrc_batches(folder, batch_size, workers, device),
    }
    rates: dict[str, list[float]] = {name: [] for name in loaders}
    for epoch in range(epochs + 1):
        for name, batches in loaders.items():
            begun, seen = time.perf_counter(), 0
            for batch in batches(epoch):
                seen += len(batch)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            assert seen == VIEWS * images
            if epoch:
                rates[name].append(images / (time.perf_counter() - begun))
    found = {f"{name}_images_s": statistics.median(values) for name, values in rates.items()}
    found["ratio"] = found["josrc_images_s"] / found["torchvision_images_s"]
    found["file_kib"] = statistics.fmean(f.stat().st_size for f in folder.glob("*/*")) / 1024
    return found


class TwoViews:
    """A transform that is applied twice, as contrastive methods are mostly written."""

    def __init__(self, transform: Callable[[Any], Tensor]) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> list[Tensor]:
        """Two random views of one image."""
        return [self.transform(image) for _ in range(VIEWS)]


def torchvision_batches(
    folder: Path, batch_size: int, workers: int, device: torch.device
) -> Batches:
    """ImageFolder and DataLoader with the usual transforms, on the device in the end."""
    from torchvision import datasets

    views = file_transform(CROP, *IMAGENET)
    loader = DataLoader(
        datasets.ImageFolder(str(folder), TwoViews(views)),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
    )

    def batches(epoch: int) -> Iterator[Tensor]:
        for images, label in loader:
            label.to(device, non_blocking=True)
            yield torch.cat([view.to(device, non_blocking=True) for view in images])

    return batches


def josrc_batches(folder: Path, batch_size: int, workers: int, device: torch.device) -> Batches:
    """The streaming loader; what it yields is normalised and on the device as well."""
    from dataclasses import replace

    source = open_source(describe_data(str(folder)))
    assert isinstance(source.images, ImageFiles)
    files = source.images.with_tile(round(CROP * TILE))
    source = replace(source, images=files, crop=CROP, mean=IMAGENET[0], std=IMAGENET[1])
    view = create_view(ViewConfig(pad=0), source.size, VIEWS)
    normalise = Normalise(source.spec, None, device)
    loader = StreamingLoader(
        source, Needs(VIEWS), view, normalise, device, batch_size=batch_size, workers=workers
    )

    def batches(epoch: int) -> Iterator[Tensor]:
        loader.begin_epoch(0, epoch)
        for size in loader.sizes():
            loader.prepare(size)
            yield loader.fetch(size).images
            loader.cursor += size

    return batches


def show(found: dict[str, Any], console: Console) -> None:
    """The rates as a table."""
    title = f"Images/s, two views each, {found['loader_workers']} workers, {found['device']}"
    table = Table(title=title)
    for column in ("JPEGs", "torchvision", "josrc", "times"):
        table.add_column(column, justify="left" if column == "JPEGs" else "right")
    for size, rates in found["sizes"].items():
        numbers = (rates["torchvision_images_s"], rates["josrc_images_s"])
        table.add_row(size, *(f"{number:.0f}" for number in numbers), f"{rates['ratio']:.2f}")
    console.print(table)

"""A training loop as people write it by hand: the yardstick of ``josrc bench speed``.

Images go one by one through PIL transforms in loader workers, every view afresh; the step runs
eagerly, and the loss is read after each. Network, method and precision are josrc's own, so the
difference is the loop alone.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from josrc.config import RunConfig
from josrc.data.image_files import ImageFiles
from josrc.data.loaders import Batch
from josrc.data.prepare import TILE
from josrc.data.source import Source
from josrc.engine.state import create_method, uses_bfloat16
from josrc.errors import UserError

MAX_WORKERS = 8


class Samples(Protocol):
    """Pictures and their labels, as torchvision's data sets hand them out."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[Image.Image, int]: ...


class ArraySamples:
    """Those of a source that is in memory."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        pixels = self.source.images.tiles(np.array([index])).squeeze()
        return Image.fromarray(pixels), int(self.source.given[index])


class ViewsDataset(Dataset[tuple[list[Tensor], int, int]]):
    """Each sample as its random views, its given label and its index."""

    def __init__(self, source: Source, config: RunConfig, views: int) -> None:
        self.views = views
        self.samples, self.transform = (
            folder_samples(source, config)
            if not source.images.in_memory
            else array_samples(source, config)
        )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[list[Tensor], int, int]:
        image, label = self.samples[index]
        return [self.transform(image) for _ in range(self.views)], label, index


def array_samples(source: Source, config: RunConfig) -> tuple[Samples, Any]:
    """Images in memory, and crops out of them as CIFAR's are mostly taken."""
    from torchvision import transforms

    crop = transforms.RandomCrop(source.images.shape[1:3], padding=config.views.pad)
    return ArraySamples(source), _compose([crop], config.views.flip, source.mean, source.std)


def folder_samples(source: Source, config: RunConfig) -> tuple[Samples, Any]:
    """An ImageFolder of torchvision, and crops as ImageNet's are mostly taken."""
    from torchvision import datasets

    assert isinstance(source.images, ImageFiles)
    folder: Any = datasets.ImageFolder(str(source.images.root))
    if folder.classes != source.closed_names:
        raise UserError(
            f"{source.name}: torchvision's ImageFolder finds the classes "
            f"{', '.join(folder.classes[:5])} there, and josrc {', '.join(source.closed_names[:5])}"
            ". To compare them, pass a folder that contains only class folders."
        )
    return folder, file_transform(source.size[0], source.mean, source.std, config.views.flip)


def file_transform(
    size: int, mean: tuple[float, ...], std: tuple[float, ...], flip: bool = True
) -> Any:
    """The usual way from a picture to a random view: 256 pixels, then a crop of 224."""
    from torchvision import transforms

    crop = [transforms.Resize(round(size * TILE)), transforms.RandomCrop(size)]
    return _compose(crop, flip, mean, std)


def _compose(crop: list[Any], flip: bool, mean: tuple[float, ...], std: tuple[float, ...]) -> Any:
    from torchvision import transforms

    flips = [transforms.RandomHorizontalFlip()] if flip else []
    return transforms.Compose(
        [*crop, *flips, transforms.ToTensor(), transforms.Normalize(mean, std)]
    )


def count_workers() -> int:
    """Loader workers of the reference loop, unless it is told how many."""
    return min(MAX_WORKERS, os.cpu_count() or 1)


def reference_steps(
    config: RunConfig, source: Source, device: torch.device, workers: int | None = None
) -> Generator[float, None, None]:
    """Train step after step, without end; yields each loss when it is on the host."""
    method = create_method(config, source.spec, source.closed)
    method.prepare(source)
    method.to(device).train()
    schedule = method.schedule(config.epochs // 2, config.epochs)
    step = method.step_for(config.epochs // 2, config.epochs)
    scalars = {name: torch.tensor(value, device=device) for name, value in schedule.items()}
    trained = [p for p in method.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=config.optimizer.lr)
    bfloat16 = uses_bfloat16(config, device)
    count = count_workers() if workers is None else workers
    loader = DataLoader(
        ViewsDataset(source, config, method.needs.views),
        batch_size=config.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=count,
        persistent_workers=count > 0,
        pin_memory=device.type == "cuda",
    )
    while True:
        for views, label, index in loader:
            images = torch.cat([view.to(device, non_blocking=True) for view in views])
            draws = torch.rand(len(label), method.needs.draws, device=device)
            batch = Batch(index.to(device), images, label.to(device), draws)
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                loss = step(batch, scalars).loss
            loss.backward()
            optimizer.step()
            method.after_update()
            yield loss.item()

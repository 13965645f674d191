"""A training loop as people write it by hand: the yardstick of ``josrc bench speed``.

Images go one by one through PIL transforms in loader workers, every view anew; the step runs
eagerly, and the loss is read after each. Network, method and precision are josrc's own, so the
difference is the loop alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from josrc.config import RunConfig
from josrc.data.loaders import Batch
from josrc.data.source import Source
from josrc.engine.program import create_method, uses_bfloat16
from josrc.methods import Method
from josrc.models.cnn7 import CNN7

MOST_WORKERS = 8


class ViewsDataset(Dataset[tuple[list[Tensor], int, int]]):
    """Each sample as its random views, its given label and its index."""

    def __init__(self, source: Source, config: RunConfig, views: int) -> None:
        from torchvision import transforms

        self.source, self.views = source, views
        steps: list[Any] = [
            transforms.RandomCrop(source.images.shape[1:3], padding=config.views.pad)
        ]
        if config.views.flip:
            steps.append(transforms.RandomHorizontalFlip())
        steps += [transforms.ToTensor(), transforms.Normalize(source.mean, source.std)]
        self.transform = transforms.Compose(steps)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[list[Tensor], int, int]:
        image = Image.fromarray(self.source.images[np.array([index])].squeeze())
        views = [self.transform(image) for _ in range(self.views)]
        return views, int(self.source.given[index]), index


def worker_count() -> int:
    """Loader workers of the reference loop."""
    return min(MOST_WORKERS, os.cpu_count() or 1)


def as_written(method: Method) -> Method:
    """The method with networks that run layer by layer, not prepared for the hardware."""
    for module in method.modules():
        if isinstance(module, CNN7):
            module.prepared = False
    return method


def reference_steps(config: RunConfig, source: Source, device: torch.device) -> Iterator[float]:
    """Train step after step, without end; yields each loss when it is on the host."""
    method = as_written(create_method(config, source)).to(device).train()
    schedule = method.schedule(config.epochs // 2, config.epochs)
    scalars = {name: torch.tensor(value, device=device) for name, value in schedule.items()}
    trained = [p for p in method.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=config.optimizer.lr)
    bfloat16 = uses_bfloat16(config, device)
    loader = DataLoader(
        ViewsDataset(source, config, method.views),
        batch_size=config.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=worker_count(),
        pin_memory=device.type == "cuda",
    )
    while True:
        for views, label, index in loader:
            images = torch.cat([view.to(device, non_blocking=True) for view in views])
            batch = Batch(index.to(device), images, label.to(device))
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                loss = method.step(batch, scalars).loss
            loss.backward()
            optimizer.step()
            method.after_update()
            yield loss.item()

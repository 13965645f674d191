"""Loaders over images in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from josrc.config import RunConfig, ViewConfig
from josrc.data.loaders import Batch, Loader, Needs, loader_for
from josrc.data.prepare import prepare_source
from josrc.data.registry import describe_data, open_source
from josrc.data.source import Source
from josrc.data.views import Normalise, create_view
from josrc.methods.standard import StandardSettings

CPU = torch.device("cpu")


PLENTY = 2**40


def source_of(folder: Path, *, free: int = PLENTY, known: Any = None, **settings: Any) -> Source:
    data = describe_data(str(folder), **settings)
    config = RunConfig.model_validate(
        {"data": data, "method": StandardSettings(), "model": {"image_size": 14}}
    )
    return prepare_source(open_source(data), config, free_memory=free, known=known)


def loader_of(source: Source, batch_size: int = 8, views: int = 2, **view: Any) -> Loader:
    made = create_view(ViewConfig(pad=0, **view), source.size, views)
    normalise = Normalise(source.spec, 14, CPU)
    needs, sizes = Needs(views), {"batch_size": batch_size, "workers": 2}
    return loader_for(source)(source, needs, made, normalise, CPU, **sizes)


def batches(loader: Loader, seed: int = 1, epoch: int = 0, position: int = 0) -> Iterator[Batch]:
    loader.begin_epoch(seed, epoch, position)
    for size in loader.sizes(position):
        loader.prepare(size)
        yield loader.fetch(size)
        loader.cursor += size

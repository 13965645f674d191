"""Small sources and trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from josrc.config import RunConfig
from josrc.data.registry import open_source
from josrc.data.source import Source
from josrc.engine.run_folder import RunFolder
from josrc.engine.trainer import Trainer
from josrc.runs.start import configure


def small(**options: Any) -> tuple[RunConfig, Source]:
    """A run on 300 of the digits: a fraction of a second an epoch."""
    values = {"noise": "symmetric", "rate": 0.5, "epochs": 3, "batch_size": 64, "device": "cpu"}
    config = configure("digits-o", **{**values, **options})
    whole = open_source(config.data)
    return config, whole.take(np.arange(300))


def trainer(folder: Path, **options: Any) -> Trainer:
    config, source = small(**options)
    made = Trainer(config, source, RunFolder(folder))
    made.folder.create(config, source, made.device)
    return made

"""The data of a run before its training: read once, and checked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from rich.console import Console

from josrc import distributed
from josrc._console import progress_bar, say
from josrc.config import RunConfig
from josrc.data.noise import CLEAN
from josrc.data.prepare import Known, Look, available_memory, prepare_source, spec_for
from josrc.data.source import Source
from josrc.engine.device import choose_device
from josrc.engine.state import create_method
from josrc.methods.base import Method


def has_untrusted_labels(held: Source | None) -> bool:
    """Whether there are held-out samples whose labels need a verdict."""
    return held is not None and held.true is None


def with_noise_rate(config: RunConfig, source: Source) -> RunConfig:
    """The configuration with what its method takes from the data."""
    rate = None if source.kind is None else float((source.kind != CLEAN).mean())
    return config.model_copy(update={"method": config.method.with_noise_rate(rate)})


def create_checked_method(config: RunConfig, source: Source) -> Method:
    """The method of a run on data that is opened.

    A wrong model, weights that don't fit and a method that lacks something are reported here,
    before a million files are read.
    """
    noisy = config.data.noise != "none" or config.data.noise_file is not None
    if not noisy:  # what noise there will be is known once the files are read
        config = with_noise_rate(config, source)
    method = create_method(config, spec_for(source, config.model), source.closed)
    method.check(source, noisy)
    return method


def read_images(
    source: Source,
    config: RunConfig,
    console: Console,
    known: Sequence[str] | None = None,
    look: Look | None = None,
    read: Known | None = None,
) -> Source:
    """Images in files, opened before, checked and decoded for a run.

    Args:
        source: the opened images.
        config: the run's.
        console: shows how far it is.
        known: files that were skipped when the run began.
        look: sees training images as they are decoded.
        read: tells what others have found in the files.
    """
    device = choose_device(config.device)
    free = available_memory() // distributed.local_world()
    if device.type == "cuda":
        free = min(free, torch.cuda.mem_get_info(device)[0])
    say(console, f"Reading {len(source):,} images ...")
    # What reads the files draws from torch's generator, and must not change what a run draws.
    with progress_bar(console, "Reading images") as progress, torch.random.fork_rng(devices=[]):
        return prepare_source(
            source, config, free_memory=free, known=known, progress=progress, look=look, read=read
        )

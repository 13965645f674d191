"""How many epochs a CPU has time for: a few steps are timed before the run begins."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from rich.console import Console

from josrc import distributed
from josrc._console import duration, say
from josrc.config import RunConfig
from josrc.data.images import ArrayImages
from josrc.data.prepare import spec_for
from josrc.data.source import Source
from josrc.engine.device import choose_device, kept_memory
from josrc.engine.state import TrainState, create_method
from josrc.methods import Method

# A run on a CPU ends within this many seconds, unless its epochs are given; and of fewer epochs the
# phases of a method would be nothing.
MAX_SECONDS, MIN_EPOCHS = 30 * 60, 3
# Samples of a timed step, and steps; the first is not counted.
TIMED_BATCH, TIMED_STEPS = 8, 3
CPU = torch.device("cpu")


def epochs_that_fit(config: RunConfig, source: Source, console: Console) -> int | None:
    """How many epochs to train so that a run on a CPU ends in time; none if all of them fit."""
    if choose_device(config.device).type != "cpu" or distributed.world() > 1:
        return None
    with torch.random.fork_rng(devices=[]):
        # Weights that are missing or don't fit are reported before anything is timed.
        method = create_method(config, spec_for(source, config.model), source.closed)
        try:
            with kept_memory(CPU):
                before, per_sample = time_steps(config, source, method)
        except Exception:  # a method may need what few samples don't have; then it is not timed
            return None
    an_epoch = per_sample * min(len(source), config.data.epoch_samples or len(source))
    epochs = max(MIN_EPOCHS, int((MAX_SECONDS - before) / an_epoch))
    if epochs >= config.epochs:
        return None
    say(
        console,
        f"{epochs} epochs instead of {config.epochs}: one takes about {duration(an_epoch)} here, "
        f"and a run on a CPU should end within {duration(MAX_SECONDS)}. To override it: --epochs "
        f"{config.epochs}.",
    )
    return epochs


def time_steps(config: RunConfig, source: Source, method: Method) -> tuple[float, float]:
    """Seconds before the first epoch, and seconds per sample of an epoch, by steps on no images.

    Args:
        config: the run's.
        source: its images, of which none is read.
        method: with networks of its own, which are trained.
    """
    trial = _without_pixels(config, source)
    config = config.model_copy(update={"batch_size": TIMED_BATCH, "plant": 0.0})
    state = TrainState(config, trial, CPU, method)
    before = 0.0
    if state.frozen:
        size = config.model.image_size or source.size[0]
        pixels = torch.zeros(TIMED_BATCH, trial.spec.channels, size, size)
        state.features(pixels)
        begun = time.monotonic()
        state.features(pixels)
        views = config.views.stored + 0.5  # test images have one view, and are fewer
        before = (time.monotonic() - begun) / TIMED_BATCH * len(source) * views
    state.begin_epoch(config, 0)
    times = []
    for _ in range(TIMED_STEPS):
        begun = time.monotonic()
        state.train_step(TIMED_BATCH)
        times.append(time.monotonic() - begun)
    return before, min(times[1:]) / TIMED_BATCH


def _without_pixels(config: RunConfig, source: Source) -> Source:
    """A few samples from all over a source, their images black: nothing has to be read."""
    spec = spec_for(source, config.model)
    count = min(len(source), TIMED_BATCH * TIMED_STEPS)
    some = source.take(np.linspace(0, len(source) - 1, count).astype(np.int64))
    pixels = np.zeros((count, *spec.tile), dtype=np.uint8)
    return replace(
        some,
        images=ArrayImages(pixels),
        mean=spec.mean,
        std=spec.std,
        crop=spec.crop,
        test_images=None,
        test_labels=None,
        val=None,
    )

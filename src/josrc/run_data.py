"""The data of a run: opened and decoded when it begins, found again when it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from josrc.config import RunConfig
from josrc.data.arrays import NAME, source_of
from josrc.data.files import ImageFiles
from josrc.data.labels import write_noise_file
from josrc.data.noise import CLEAN
from josrc.data.source import IN_FILES, Source, load_source, with_noise
from josrc.engine import distributed
from josrc.engine.device import choose_device
from josrc.engine.runfolder import RunFolder
from josrc.errors import UserError
from josrc.sizing import OWN_IMAGES
from josrc.terminal import Terminal, progress_bar, say


def in_files(source: Source) -> bool:
    """Whether the images of a source still have to be read from their files."""
    return isinstance(source.images, ImageFiles)


def settled(config: RunConfig, source: Source) -> RunConfig:
    """The configuration with what its method takes from the data."""
    rate = None if source.kind is None else float((source.kind != CLEAN).mean())
    return config.model_copy(update={"method": config.method.settled(rate)})


def prepared(
    source: Source, config: RunConfig, console: Console, known: Sequence[str] | None = None
) -> Source:
    """Own images, opened before, checked and decoded for a run.

    Args:
        source: the opened images.
        config: the run's.
        console: shows how far it is.
        known: files that were skipped when the run began.
    """
    from josrc.data.own import available_memory, prepare_source
    from josrc.engine.program import create_method

    device = choose_device(config.device)
    free = available_memory() // distributed.local_world()
    if device.type == "cuda":
        free = min(free, torch.cuda.mem_get_info(device)[0])
    if known is None:
        # A wrong model or weights that don't fit are told before a million files are read. What
        # noise there will be is known once they are: until then any share of it does.
        noisy = config.data.noise != "none" or config.data.noise_file is not None
        method = config.method.settled(0.5) if noisy else settled(config, source).method
        create_method(config.model_copy(update={"method": method}), source)
    say(console, f"Reading {len(source):,} images ...")
    with progress_bar(console, "Reading images") as progress:
        return prepare_source(source, config, free_memory=free, known=known, progress=progress)


def source_of_run(
    folder: RunFolder,
    config: RunConfig,
    console: Console,
    pair: Sequence[Any] | None = None,
    test: Sequence[Any] | None = None,
) -> Source:
    """A run's data with the labels it began with, whatever became of where they came from."""
    labels = {"noise_file": folder.noise, "noise": "none", "rate": 0.0}
    if config.recipe == OWN_IMAGES or config.data.name in IN_FILES:
        data = config.data.model_copy(update=labels if folder.noise.is_file() else {})
        if config.data.name != NAME:
            source = load_source(data)
        elif pair is None:
            raise UserError(
                f"{folder.path} was trained on images in memory. Go on with it from Python: "
                "josrc.resume(path, data=(X, y)), and test=(X_test, y_test) if it had them."
            )
        else:
            source = source_of(pair, data, config.model.name, test)
        if not in_files(source):
            return with_noise(source, data)
        known = folder.read_skipped()
        return prepared(source, config.model_copy(update={"data": data}), console, known)
    if not folder.noise.is_file():
        source = load_source(config.data)
        write_noise_file(folder.noise, source.given, source.true, source.kind, source.digest)
        return source
    return load_source(config.data.model_copy(update=labels))


def lean_source(folder: RunFolder, config: RunConfig, pair: Sequence[Any] | None = None) -> Source:
    """A run's data, without decoding images that lie in files."""
    opened = config.data.model_copy(update={"resident": False})
    lean = config.model_copy(update={"data": opened})
    return source_of_run(folder, lean, Terminal(quiet=True), pair)


def moved(config: RunConfig, data_root: str | Path | None) -> RunConfig:
    """The configuration with the place where the data is now."""
    if data_root is None:
        return config
    data = config.data.model_copy(update={"root": Path(data_root)})
    return config.model_copy(update={"data": data})


def open_run(path: str | Path, *, data_root: str | Path | None = None) -> tuple[RunFolder, Source]:
    """The folder of a run and the data that its verdicts speak of; images stay in their files."""
    folder = RunFolder(Path(path))
    config = moved(folder.read_config(), data_root)
    if config.data.name == NAME:
        raise UserError(
            f"{path} was trained on images in memory, and they are gone. What josrc found out: "
            "josrc.Run.load(path).verdicts()."
        )
    return folder, lean_source(folder, config)

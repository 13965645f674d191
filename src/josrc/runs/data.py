"""The data of a run: opened and decoded when it begins, found again when it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from josrc import distributed
from josrc._console import Terminal, progress_bar, say
from josrc.config import OWN_IMAGES, RunConfig
from josrc.data.image_files import ImageFiles
from josrc.data.label_files import read_truth, write_noise_file
from josrc.data.noise import CLEAN
from josrc.data.readers.arrays import NAME, source_of
from josrc.data.source import IN_FILES, Source, load_source, with_noise
from josrc.engine.device import choose_device
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.runs.resolve import load_run_config
from josrc.runs.snapshot import (
    Changes,
    check_place,
    check_unchanged,
    compare,
    moved,
    present_table,
    remembered,
    skipped_now,
    with_tests,
)


def in_files(source: Source) -> bool:
    """Whether the images of a source still have to be read from their files."""
    return isinstance(source.images, ImageFiles)


def doubtful(held: Source | None) -> bool:
    """Whether there are held-out samples whose labels need a verdict."""
    return held is not None and held.true is None


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
    from josrc.data.prepare import available_memory, prepare_source
    from josrc.engine.state import create_method

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
            check_place(config)
            check_unchanged(folder, config)
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
        known = skipped_now(folder, config)
        return prepared(source, config.model_copy(update={"data": data}), console, known)
    if not folder.noise.is_file():
        source = load_source(config.data)
        write_noise_file(folder.noise, source.given, source.true, source.kind, source.digest)
        return source
    return load_source(config.data.model_copy(update=labels))


@dataclass(frozen=True)
class Opened:
    """A run that is looked at, and not trained: its images stay in their files.

    Attributes:
        folder: the run's.
        config: what was run, with the place where its data is now.
        source: its samples with the labels it began with.
        changes: what has become of them; none where nobody can tell.
    """

    folder: RunFolder
    config: RunConfig
    source: Source
    changes: Changes | None = None

    def check_verdicts(self, rows: int) -> None:
        """Raise an error unless there are as many verdicts as samples that need one."""
        val = self.source.val
        expected = len(self.source) + (len(val) if val is not None and doubtful(val) else 0)
        if rows != expected:
            raise UserError(
                f"{self.folder.audit / 'verdicts.csv'} has {rows:,} samples, but the data has "
                f"{expected:,}. Write it anew: josrc audit {self.folder.path}"
            )

    def check_images(self) -> None:
        """Raise an error if none of the images is there."""
        if self.changes is not None and self.changes.all_gone:
            raise UserError(
                f"None of the {len(self.changes.names):,} images of {self.folder.path} is there, "
                f"such as {self.source.paths[0]}. Say where they are now: --data-root NEW."
            )


def open_run(
    path: str | Path, *, data_root: str | Path | None = None, pair: Sequence[Any] | None = None
) -> Opened:
    """A run and the data that its verdicts speak of.

    Own images in files are those that the run's folder knows, whatever has become of them. All
    other data is opened as it is.

    Args:
        path: the run folder.
        data_root: where the data is now, if it has moved.
        pair: the images and labels that the run began with, if it was such a pair.
    """
    folder = RunFolder(Path(path))
    config = moved(load_run_config(folder), data_root)
    table = remembered(folder, config) if pair is None else None
    if table is None:
        if config.data.name == NAME and pair is None:
            raise UserError(
                f"{path} was trained on images in memory, and they are gone. What josrc found out: "
                "josrc.Run.load(path).verdicts(). Its report was written when it ended; to write "
                "it again from Python: josrc.report(path, data=(X, y))."
            )
        opened = config.data.model_copy(update={"resident": False})
        lean = config.model_copy(update={"data": opened})
        source = source_of_run(folder, lean, Terminal(quiet=True), pair)
        return Opened(folder, config, source)
    from josrc.data.assemble import remembered_source

    present = present_table(config)
    skipped = set(skipped_now(folder, config)) if folder.skipped.is_file() else set()
    as_labelled = config.data.noise == "none" and config.data.noise_file is None
    table, changes = compare(table, present, skipped, as_labelled)
    source = remembered_source(table, config)
    if folder.noise.is_file():
        source = replace(source, true=read_truth(folder.noise))
    if present is not None and config.data.test is None:
        source = with_tests(source, present, skipped)
    return Opened(folder, config, source, changes)

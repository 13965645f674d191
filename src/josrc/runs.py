"""Runs as objects: start one, go on with one, look at one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from josrc.audit.folder import read_ledger, write_audit
from josrc.config import RunConfig, Values, merge, nested, resolve
from josrc.data.labels import write_noise_file
from josrc.data.noise import CLEAN
from josrc.data.source import Source, check_name, load_source
from josrc.engine.events import Listener, create_progress
from josrc.engine.metrics import Row
from josrc.engine.runfolder import RunFolder, prepare_folder
from josrc.engine.trainer import Trainer
from josrc.errors import UserError
from josrc.plots import Pictures, plot_views
from josrc.terminal import Terminal, say

# Short names of the options that scripts use, and the configuration keys they set.
OPTIONS = {
    "noise": "data.noise",
    "rate": "data.rate",
    "noise_seed": "data.noise_seed",
    "noise_file": "data.noise_file",
    "data_root": "data.root",
    "method": "method.name",
    "model": "model.name",
    "pretrained": "model.pretrained",
    "weights": "model.weights",
    "image_size": "model.image_size",
    "epochs": "epochs",
    "batch_size": "batch_size",
    "seed": "seed",
    "device": "device",
    "engine": "engine",
}


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        path: its folder.
        config: what was run.
        summary: the content of ``summary.json``.
    """

    path: Path
    config: RunConfig
    summary: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """A finished run from its folder."""
        folder = RunFolder(Path(path))
        config = folder.read_config()
        if not folder.summary.is_file():
            raise UserError(f"{path} has not finished. Go on with it: josrc resume {path}")
        return cls(folder.path, config, folder.read_summary())

    @property
    def metrics(self) -> list[Row]:
        """A mapping an epoch, with the columns of ``metrics.csv``."""
        return RunFolder(self.path).read_metrics()

    @property
    def audit(self) -> dict[str, Any] | None:
        """The content of ``audit/summary.json``; none for a run that has no verdicts yet."""
        file = RunFolder(self.path).audit / "summary.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def configure(
    data: str,
    *,
    recipe: str | None = None,
    layers: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> RunConfig:
    """The configuration of a run; options that are none keep what recipe and layers say."""
    check_name(data)
    chosen: Values = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise UserError(f"Unknown option '{name}'. Known: {', '.join(OPTIONS)}.")
        if value is not None:
            chosen = merge(chosen, nested(OPTIONS[name], value))
    return resolve(data, recipe, [*layers, chosen])


def train(
    data: str,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    quiet: bool = True,
    **options: Any,
) -> Run:
    """Train on a data set and leave a run folder.

    Args:
        data: name of the data set.
        out: the run folder; ``runs/NAME`` unless given. An existing one is an error.
        overwrite: replace an existing run folder.
        recipe: ``plain`` or ``augmented``, where the data set has more than one recipe.
        settings: any configuration keys, ``{"method.alpha": 0.3}``.
        quiet: show no progress.
        **options: ``noise``, ``rate``, ``method``, ``model``, ``epochs``, ``seed``, ``device`` ...

    Returns:
        The finished run.
    """
    layers = [nested(key, value) for key, value in (settings or {}).items()]
    config = configure(data, recipe=recipe, layers=layers, **options)
    console = Terminal(quiet=quiet)
    return start(config, Path(out) if out else None, overwrite=overwrite, console=console)


def settled(config: RunConfig, source: Source) -> RunConfig:
    """The configuration with what its method takes from the data."""
    rate = float((source.kind != CLEAN).mean())
    return config.model_copy(update={"method": config.method.settled(rate)})


def start(config: RunConfig, out: Path | None, *, overwrite: bool = False, console: Console) -> Run:
    """Begin a run."""
    source = load_source(config.data)
    config = settled(config, source)
    folder = prepare_folder(out, config, overwrite)
    trainer = Trainer(config, source, folder, listeners(folder, console, config.method.name))
    with folder.locked():
        folder.clear()
        folder.create(config, source, trainer.device)
        _introduce(source, folder, console)
        return complete(trainer)


def resume(
    path: str | Path,
    *,
    data_root: str | Path | None = None,
    device: str | None = None,
    quiet: bool = True,
) -> Run:
    """Go on with a run that was interrupted, to the end it would have had.

    Args:
        path: the run folder.
        data_root: where the data is now, if it has moved.
        device: another device than the run began on.
        quiet: show no progress.
    """
    console = Terminal(quiet=quiet)
    folder = RunFolder(Path(path))
    config = folder.read_config()
    if folder.summary.is_file():
        say(console, f"{path} has finished: nothing to resume.")
        return Run.load(path)
    if data_root is not None:
        data = config.data.model_copy(update={"root": Path(data_root)})
        config = config.model_copy(update={"data": data})
    if device is not None:
        config = config.model_copy(update={"device": device})
    with folder.locked():
        source = _source_of(folder, config)
        hearing = listeners(folder, console, config.method.name)
        trainer = Trainer(config, source, folder, hearing, resuming=True)
        say(console, f"Resuming {path} after epoch {trainer.epoch} of {config.epochs}.")
        return complete(trainer)


def _source_of(folder: RunFolder, config: RunConfig) -> Source:
    """A run's data with the labels it began with, whatever became of where they came from."""
    if not folder.noise.is_file():
        source = load_source(config.data)
        write_noise_file(folder.noise, source.given, source.true, source.kind)
        return source
    labels = {"noise_file": folder.noise, "noise": "none", "rate": 0.0}
    return load_source(config.data.model_copy(update=labels))


def complete(trainer: Trainer) -> Run:
    """Show what the network will see, train to the end, and judge every sample."""
    folder = trainer.folder
    plot_views(trainer.source, trainer.config, folder.plots / "views.png")

    def finish() -> None:
        write_audit(folder.audit, trainer.program.ledger.arrays(), trainer.source)

    return Run(folder.path, trainer.config, trainer.run(finish))


def audit(path: str | Path, *, data_root: str | Path | None = None) -> dict[str, Any]:
    """Write the verdicts on the samples of a run, finished or not.

    Args:
        path: the run folder.
        data_root: where the data is now, if it has moved.

    Returns:
        The content of ``audit/summary.json``.
    """
    folder = RunFolder(Path(path))
    config = folder.read_config()
    if not folder.checkpoint.is_file():
        raise UserError(f"{path} has no checkpoint yet: nothing was learned about its samples.")
    if data_root is not None:
        data = config.data.model_copy(update={"root": Path(data_root)})
        config = config.model_copy(update={"data": data})
    with folder.locked():
        ledger = read_ledger(folder.checkpoint)
        return write_audit(folder.audit, ledger, _source_of(folder, config))


def listeners(
    folder: RunFolder, console: Console, title: str, above: RenderableType | None = None
) -> list[Listener]:
    """Who hears of a run: its pictures, and its progress on a console, below that of its suite."""
    pictures: list[Listener] = [Pictures(folder)]
    return pictures if console.quiet else [create_progress(console, title, above), *pictures]


def _introduce(source: Source, folder: RunFolder, console: Console) -> None:
    say(
        console,
        f"{source.name}: {len(source):,} training images of {source.closed} classes, "
        f"{len(source.test_images):,} test images; {source.noise_summary()}.\n"
        f"Run folder: {folder.path}",
    )

"""Runs as objects: start one, go on with one, look at one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from josrc.config import RunConfig, Values, merge, nested, resolve
from josrc.data.source import Source, check_name, load_source
from josrc.engine.events import Listener, create_progress
from josrc.engine.metrics import Row
from josrc.engine.runfolder import RunFolder, prepare_folder
from josrc.engine.trainer import Trainer
from josrc.errors import UserError
from josrc.plots import plot_run, plot_views

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
    console = Console(quiet=quiet, stderr=True)
    return start(config, Path(out) if out else None, overwrite=overwrite, console=console)


def start(config: RunConfig, out: Path | None, *, overwrite: bool = False, console: Console) -> Run:
    """Begin a run."""
    source = load_source(config.data)
    folder = prepare_folder(out, config, overwrite)
    trainer = Trainer(config, source, folder, [progress_for(console, config.method.name)])
    with folder.locked():
        folder.create(config, source, trainer.device)
        _introduce(source, folder, console)
        return complete(trainer)


def resume(
    path: str | Path,
    *,
    data_root: Path | None = None,
    device: str | None = None,
    console: Console | None = None,
) -> Run:
    """Go on with a run that was interrupted, to the end it would have had.

    Args:
        path: the run folder.
        data_root: where the data is now, if it has moved.
        device: another device than the run began on.
        console: where progress is shown.
    """
    console = console or Console(quiet=True)
    folder = RunFolder(Path(path))
    config = folder.read_config()
    if folder.summary.is_file():
        console.print(f"{path} has finished: nothing to resume.", highlight=False)
        return Run.load(path)
    if data_root is not None:
        config = config.model_copy(
            update={"data": config.data.model_copy(update={"root": data_root})}
        )
    if device is not None:
        config = config.model_copy(update={"device": device})
    # The labels are those the run began with, whatever has become of the file they came from.
    labels = config.data.model_copy(update={"noise_file": folder.noise})
    source = load_source(labels if folder.noise.is_file() else config.data)
    with folder.locked():
        trainer = Trainer(config, source, folder, [progress_for(console, config.method.name)])
        trainer.restore()
        after = f"after epoch {trainer.epoch} of {config.epochs}"
        console.print(f"Resuming {path} {after}.", highlight=False, soft_wrap=True)
        return complete(trainer)


def complete(trainer: Trainer) -> Run:
    """Train to the end, then draw the pictures."""
    folder = trainer.folder
    folder.plots.mkdir(exist_ok=True)
    plot_views(trainer.source, trainer.config, folder.plots / "views.png")
    summary = trainer.run()
    plot_run(trainer.rows, folder.plots)
    return Run(folder.path, trainer.config, summary)


def progress_for(console: Console, title: str) -> Listener:
    """Who shows a run's progress on a console."""
    return Listener() if console.quiet else create_progress(console, title)


def _introduce(source: Source, folder: RunFolder, console: Console) -> None:
    console.print(
        f"{source.name}: {len(source):,} training images of {source.closed} classes, "
        f"{len(source.test_images):,} test images; {source.noise_summary()}.\n"
        f"Run folder: {folder.path}",
        highlight=False,
        soft_wrap=True,
    )
